package shell

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Default and maximum of a read, in bytes.
const (
	defaultRead = 1 << 20
	maxRead     = 32 << 20
)

// write writes a file and replaces any that exists.
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

// fileQuery parses the parameters of a file route.
func (c *call) fileQuery(more ...string) (q url.Values, err error) {
	q, err = api.Query(c.r, append(more, "path")...)
	if err == nil && q.Get("path") == "" {
		err = api.Refuse("path", "path is required")
	}
	return q, err
}

// read responds with the first bytes of a file.
func (c *call) read() error {
	q, err := c.fileQuery("max_bytes")
	if err != nil {
		return err
	}
	limit, err := number(q, "max_bytes", defaultRead, maxRead)
	if err != nil {
		return err
	}
	_, body, err := c.Files().Read(c.r.Context(), c.id, q.Get("path"), 0, limit+1)
	if err != nil {
		return err
	}
	defer body.Close()
	in := bufio.NewReaderSize(body, pieceBytes)
	if _, err := in.Peek(1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(http.StatusOK)
	if err := sendFile(c.w, in, limit); err != nil {
		panic(http.ErrAbortHandler) // so that the client detects the short body
	}
	return nil
}

// pieceBytes is the size of one read of a file. A client that reads slowly must not hold the whole file in
// memory.
const pieceBytes = 64 << 10

// sendFile sends the first bytes of a file.
func sendFile(w io.Writer, in *bufio.Reader, limit int64) error {
	out := bufio.NewWriterSize(w, pieceBytes)
	_, _ = out.WriteString(`{"content_base64":"`) // Flush returns the error
	encoder := base64.NewEncoder(base64.StdEncoding, out)
	if _, err := io.CopyN(encoder, in, limit); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := encoder.Close(); err != nil {
		return err
	}
	_, err := in.Peek(1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, _ = fmt.Fprintf(out, "\",\"truncated\":%t}\n", err == nil)
	return out.Flush()
}

// files responds with a directory's entries.
func (c *call) files() error {
	q, err := api.Query(c.r, "path", "recursive", "limit")
	if err != nil {
		return err
	}
	query := belljar.FileQuery{Path: q.Get("path")}
	if query.Recursive, err = boolean(q, "recursive"); err != nil {
		return err
	}
	limit, err := number(q, "limit", 1000, 10000)
	if err != nil {
		return err
	}
	query.Limit = int(limit)
	release := func() {}
	defer func() { release() }()
	query.Ready = func() error {
		held, err := c.reserve(max(limit, 1000) * api.EntryBytes)
		if err == nil {
			release = held
		}
		return err
	}
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
	q, err := c.fileQuery("recursive")
	if err != nil {
		return err
	}
	recursive, err := boolean(q, "recursive")
	if err != nil {
		return err
	}
	if err := c.Files().Delete(c.r.Context(), c.id, q.Get("path"), recursive); err != nil {
		return err
	}
	return c.ok()
}
