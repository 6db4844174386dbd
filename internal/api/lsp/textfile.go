package lsp

import (
	"archive/tar"
	"context"
	"io"
	"io/fs"
	"strings"

	"github.com/belljar/belljar"
)

// texts is the folder as it was sent: the editor's texts in place of their files.
type texts struct {
	base fs.FS
	own  map[string]string
}

// Open opens a file.
func (t texts) Open(name string) (fs.File, error) {
	if text, ok := t.own[name]; ok {
		return &textFile{strings.NewReader(text), name}, nil
	}
	if t.base == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return t.base.Open(name)
}

// captured is the artifacts of a run: programs that it compiled, with their source maps.
type captured struct {
	ctx  context.Context
	from belljar.Artifacts
	run  string
	list map[string]bool // nil before the first use
}

// mostCaptured is the maximum size of an artifact that is searched, in bytes.
const mostCaptured = 32 << 20

// Open opens an artifact.
func (c *captured) Open(name string) (fs.File, error) {
	if c.list == nil {
		c.list = map[string]bool{}
		all, err := c.from.List(c.ctx, c.run)
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			c.list[a.Path] = a.Skipped == "" && a.LinkTarget == "" && a.Size <= mostCaptured
		}
	}
	if !c.list[name] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	_, body, err := c.from.Open(c.ctx, c.run, name, 0)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, mostCaptured))
	return &textFile{strings.NewReader(string(content)), name}, err
}

// textFile is a text as a file.
type textFile struct {
	*strings.Reader
	name string
}

func (f *textFile) Close() error { return nil }

func (f *textFile) Stat() (fs.FileInfo, error) {
	return (&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o444, Size: f.Size()}).FileInfo(), nil
}
