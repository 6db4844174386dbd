package mcp

import (
	"bytes"
	"fmt"
	"image"
	_ "image/gif" // formats that a picture is checked for
	_ "image/jpeg"
	_ "image/png"
	"path"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of pictures in one result. Hosts hand them on to models, which take no more.
const (
	maxPicture     = 4 << 20 // bytes of one
	maxPictures    = 8
	maxPictureSum  = 8 << 20
	maxPictureSide = 8000 // pixels
)

const svgType = "image/svg+xml"

// pictureType is the media type that a name stands for, "" if it is no picture's.
func pictureType(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".gif":
		return "image/gif"
	case ".svg":
		return svgType
	}
	return ""
}

// pictures says which media types a client takes as pictures: all of them, but those whose models know no SVG get it as
// text.
func pictures(client string) func(mime string) bool {
	return func(mime string) bool { return mime != svgType || !strings.Contains(client, "claude") }
}

// show is a file as a picture, with what is said of it. What only calls itself a picture is none: a model that is sent one
// which it cannot read refuses the whole conversation.
func (c *call) show(name string, data []byte) (sdk.Content, string) {
	base := path.Base(name)
	mime := pictureType(name)
	if mime == svgType {
		head := bytes.ToLower(data[:min(len(data), 1024)])
		if !utf8.Valid(data) || !bytes.Contains(head, []byte("<svg")) {
			return nil, base + " is not an SVG, despite its name"
		}
		about := fmt.Sprintf("%s: a picture (svg, %d bytes)", base, len(data))
		if !c.image(mime) {
			return &sdk.TextContent{Text: string(data)}, about
		}
		return &sdk.ImageContent{Data: data, MIMEType: mime}, about
	}
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	switch {
	case err != nil:
		return nil, base + " is not a picture, despite its name"
	case config.Width > maxPictureSide || config.Height > maxPictureSide || config.Width < 1 || config.Height < 1:
		return nil, fmt.Sprintf("%s has %d × %d pixels, too many to be shown", base, config.Width, config.Height)
	}
	return &sdk.ImageContent{Data: data, MIMEType: "image/" + format},
		fmt.Sprintf("%s: a picture (%s, %d × %d, %d bytes)", base, format, config.Width, config.Height, len(data))
}
