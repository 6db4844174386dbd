package mcp

import (
	"bytes"
	"fmt"
	"image"
	_ "image/gif" // the formats in which pictures are recognized
	_ "image/jpeg"
	_ "image/png"
	"io"
	"mime"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/char"
)

// artifact is an artifact of a run, for programs.
type artifact struct {
	Path    string `json:"path" about:"Relative to /workspace"`
	Size    int64  `json:"size" about:"Bytes"`
	URI     string `json:"uri,omitempty" about:"The resource to read it by"`
	Skipped string `json:"skipped,omitempty" about:"Why its content was not kept"`
}

// maxArtifacts is the number of files of one run that a result lists.
const maxArtifacts = 100

// Limits of the pictures in one result. Hosts pass pictures on to models, which accept no more.
const (
	maxPicture     = 4 << 20 // bytes of one
	maxPictures    = 8
	maxPictureSum  = 8 << 20
	maxPictureSide = 8000 // pixels
)

// collect returns the artifacts of a one-shot run, without the files given to it: for programs, as text, and as links and
// pictures.
func (c *call) collect(run belljar.Run, given []belljar.InlineFile) ([]artifact, string, []sdk.Content) {
	list, err := c.service.Artifacts().List(c, run.ID)
	if err != nil {
		c.session.kit.log.Warn("artifacts could not be listed", "run_id", run.ID, "err", err)
		return nil, "", nil
	}
	var found []artifact
	var text strings.Builder
	var more []sdk.Content
	shown, sum, hidden := 0, int64(0), 0
	for _, a := range list {
		if a.LinkTarget != "" || slices.ContainsFunc(given, func(f belljar.InlineFile) bool {
			clean, err := belljar.CleanPath(f.Path)
			return err == nil && clean == a.Path && int64(len(f.Content)) == a.Size
		}) {
			continue
		}
		uri := artifactURI(run.ID, a.Path)
		about := "resource " + uri
		if a.Skipped != "" {
			uri, about = "", "not kept: "+a.Skipped
		}
		line := fmt.Sprintf("%s (%d bytes, %s)\n", char.Quoted(a.Path), a.Size, about)
		if len(found) == maxArtifacts || text.Len()+len(line) > c.session.terms.MaxOutput {
			hidden++
			continue
		}
		text.WriteString(line)
		found = append(found, artifact{Path: a.Path, Size: a.Size, URI: uri, Skipped: a.Skipped})
		if uri == "" {
			continue
		}
		if c.version >= firstWithLinks {
			more = append(more, &sdk.ResourceLink{URI: uri, Name: a.Path, MIMEType: mediaType(a.Path), Size: new(a.Size)})
		}
		c.addResource(uri, a)
		if !isPicture(a.Path) || shown == maxPictures || a.Size > maxPicture || sum+a.Size > maxPictureSum {
			continue
		}
		data, err := c.readArtifact(run.ID, a.Path)
		if err != nil {
			c.session.kit.log.Warn("picture could not be read", "run_id", run.ID, "path", a.Path, "err", err)
			continue
		}
		if picture, _ := c.picture(a.Path, data); picture != nil {
			more = append(more, picture)
			shown++
			sum += a.Size
		}
	}
	note := ""
	if len(found)+hidden > 0 {
		note = "\nfiles it left:\n" + text.String()
	}
	if hidden > 0 {
		note += fmt.Sprintf("note: there are %d, and %d are shown; leave fewer, or one archive of them\n", len(found)+hidden, len(found))
	}
	return found, note, more
}

func (c *call) readArtifact(run, name string) ([]byte, error) {
	_, body, err := c.service.Artifacts().Open(c, run, name, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // all of it was read
	return io.ReadAll(io.LimitReader(body, maxPicture))
}

const (
	svgType     = "image/svg+xml"
	unknownType = "application/octet-stream"
)

// mediaTypes are common types. They do not depend on the machine's tables.
var mediaTypes = map[string]string{
	".png": "image/png", ".gif": "image/gif", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".svg": svgType,
	".md": "text/markdown", ".csv": "text/csv", ".txt": "text/plain", ".log": "text/plain",
}

// mediaType returns the media type of a file name.
func mediaType(name string) string {
	ext := strings.ToLower(path.Ext(name))
	if common, ok := mediaTypes[ext]; ok {
		return common
	}
	found, _, err := mime.ParseMediaType(mime.TypeByExtension(ext))
	if err != nil {
		return unknownType
	}
	return found
}

// isPicture reports whether a file name is that of a picture to show.
func isPicture(name string) bool {
	return strings.HasPrefix(mediaTypes[strings.ToLower(path.Ext(name))], "image/")
}

// picture returns a file as a picture and a text about it; the picture is nil if the file is not a valid one. A model refuses the
// whole conversation after a picture that it cannot read. An SVG is text, because models do not accept it as a picture; a long one
// is left to a read of its file.
func (c *call) picture(name string, data []byte) (sdk.Content, string) {
	base := char.Quoted(path.Base(name))
	if mediaType(name) == svgType {
		head := bytes.ToLower(data[:min(len(data), 1024)])
		if !utf8.Valid(data) || !bytes.Contains(head, []byte("<svg")) {
			return nil, base + " is not an SVG, despite its name"
		}
		if len(data) > c.session.terms.MaxOutput {
			return nil, ""
		}
		return &sdk.TextContent{Text: string(data)}, fmt.Sprintf("%s: a picture (svg, %d bytes)", base, len(data))
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
