package mcp

import (
	"fmt"
	"io"
	"mime"
	"path"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
)

// artifact is a file that a run left, for programs.
type artifact struct {
	Path    string `json:"path" about:"Relative to /workspace"`
	Size    int64  `json:"size" about:"Bytes"`
	URI     string `json:"uri,omitempty" about:"The resource to read it by"`
	Skipped string `json:"skipped,omitempty" about:"Why its bytes were not kept"`
}

// mostArtifacts is how many files of one run a result tells of.
const mostArtifacts = 100

// collect is what a one-shot run left, besides the files that it was given: for programs, and as links and pictures.
func (c *call) collect(run belljar.Run, given []belljar.InlineFile) ([]artifact, []sdk.Content) {
	if !run.Phase.Terminal() {
		return nil, nil
	}
	list, err := c.Artifacts().List(c, run.ID)
	if err != nil {
		c.kit.log.Warn("artifacts could not be listed", "run_id", run.ID, "err", err)
		return nil, nil
	}
	var found []artifact
	var more []sdk.Content
	shown, sum := 0, int64(0)
	for _, a := range list {
		if a.LinkTarget != "" || slices.ContainsFunc(given, func(f belljar.InlineFile) bool {
			clean, err := belljar.CleanPath(f.Path)
			return err == nil && clean == a.Path && int64(len(f.Content)) == a.Size
		}) {
			continue
		}
		if len(found) == mostArtifacts {
			break
		}
		if a.Skipped != "" {
			found = append(found, artifact{Path: a.Path, Size: a.Size, Skipped: a.Skipped})
			continue
		}
		uri := artifactURI(run.ID, a.Path)
		found = append(found, artifact{Path: a.Path, Size: a.Size, URI: uri})
		size := a.Size
		more = append(more, &sdk.ResourceLink{URI: uri, Name: a.Path, MIMEType: mediaType(a.Path), Size: &size})
		c.addResource(uri, a)
		if pictureType(a.Path) == "" || shown == maxPictures || a.Size > maxPicture || sum+a.Size > maxPictureSum {
			continue
		}
		data, err := c.bytes(run.ID, a.Path)
		if err != nil {
			c.kit.log.Warn("picture could not be read", "run_id", run.ID, "path", a.Path, "err", err)
			continue
		}
		if picture, _ := c.show(a.Path, data); picture != nil {
			more = append(more, picture)
			shown++
			sum += a.Size
		}
	}
	return found, more
}

func (c *call) bytes(run, name string) ([]byte, error) {
	_, body, err := c.Artifacts().Open(c, run, name, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // it has been read
	return io.ReadAll(io.LimitReader(body, maxPicture))
}

// listed says which files a run left; "" if none.
func listed(found []artifact) string {
	if len(found) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nfiles it left:\n")
	for _, a := range found {
		if a.Skipped != "" {
			fmt.Fprintf(&b, "%s (%d bytes, not kept: %s)\n", a.Path, a.Size, a.Skipped)
			continue
		}
		fmt.Fprintf(&b, "%s (%d bytes, resource %s)\n", a.Path, a.Size, a.URI)
	}
	if len(found) == mostArtifacts {
		fmt.Fprintf(&b, "and maybe more: these are the first %d\n", mostArtifacts)
	}
	return b.String()
}

// mediaType is what a name stands for.
func mediaType(name string) string {
	if known := pictureType(name); known != "" {
		return known
	}
	switch ext := strings.ToLower(path.Ext(name)); ext {
	case ".md":
		return "text/markdown"
	case ".csv":
		return "text/csv"
	case ".txt", ".log":
		return "text/plain"
	default:
		found, _, err := mime.ParseMediaType(mime.TypeByExtension(ext))
		if err != nil {
			return "application/octet-stream"
		}
		return found
	}
}
