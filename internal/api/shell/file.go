package shell

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/url"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Bounds of a read, in bytes.
const (
	usualRead = 1 << 20
	mostRead  = 32 << 20
)

// write writes a file, whole, in place of any that is there.
func (c *call) write() error {
	var in struct {
		Path    string  `json:"path,omitempty"`
		Text    *string `json:"text,omitempty"`
		Content *string `json:"content_base64,omitempty"`
	}
	if err := c.decode(maxFile, &in); err != nil {
		return err
	}
	var content []byte
	switch {
	case in.Path == "":
		return api.Refuse("path", "path is required")
	case in.Text != nil && in.Content != nil:
		return api.Refuse("content_base64", "text and content_base64 exclude each other")
	case in.Text != nil:
		content = []byte(*in.Text)
	case in.Content != nil:
		var err error
		if content, err = base64.StdEncoding.DecodeString(*in.Content); err != nil {
			return api.Refuse("content_base64", "content_base64 is not base64: %v", err)
		}
	default:
		return api.Refuse("text", "one of text and content_base64 is required")
	}
	_, err := c.Files().Write(c.r.Context(), c.id, belljar.FileWrite{
		Path: in.Path, Content: bytes.NewReader(content), Size: int64(len(content)), Overwrite: true,
	})
	if err != nil {
		return err
	}
	return c.ok()
}

// place reads the parameters of a file's route.
func (c *call) place(more ...string) (q url.Values, err error) {
	q, err = api.Query(c.r, append(more, "path")...)
	if err == nil && q.Get("path") == "" {
		err = api.Refuse("path", "path is required")
	}
	return q, err
}

// read answers with the beginning of a file.
func (c *call) read() error {
	q, err := c.place("max_bytes")
	if err != nil {
		return err
	}
	most, err := number(q, "max_bytes", usualRead, mostRead)
	if err != nil {
		return err
	}
	_, body, err := c.Files().Read(c.r.Context(), c.id, q.Get("path"), 0, most+1)
	if err != nil {
		return err
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	truncated := int64(len(content)) > most
	if truncated {
		content = content[:most]
	}
	return c.answer(map[string]any{"content_base64": base64.StdEncoding.EncodeToString(content), "truncated": truncated})
}

// files answers with a directory's entries.
func (c *call) files() error {
	q, err := api.Query(c.r, "path", "recursive", "limit")
	if err != nil {
		return err
	}
	query := belljar.FileQuery{Path: q.Get("path")}
	if query.Recursive, err = truth(q, "recursive"); err != nil {
		return err
	}
	limit, err := number(q, "limit", 1000, 10000)
	if err != nil {
		return err
	}
	query.Limit = int(limit)
	list, err := c.Files().List(c.r.Context(), c.id, query)
	if err != nil {
		return err
	}
	if list.Entries == nil {
		list.Entries = []belljar.FileEntry{}
	}
	return c.answer(list)
}

// remove removes a file or directory.
func (c *call) remove() error {
	q, err := c.place("recursive")
	if err != nil {
		return err
	}
	recursive, err := truth(q, "recursive")
	if err != nil {
		return err
	}
	if err := c.Files().Delete(c.r.Context(), c.id, q.Get("path"), recursive); err != nil {
		return err
	}
	return c.ok()
}
