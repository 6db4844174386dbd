package workspace

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/socket"
)

const maxFile = 5 << 20 // bytes of a file that one request reads or writes

// place checks a path of a request. It is relative to the workspace, and "." is the workspace.
func place(p string) (string, error) {
	clean, err := belljar.CleanPath(cmp.Or(p, "."))
	if err != nil || belljar.CheckPlace(clean) != nil || strings.HasPrefix(p, "/") || strings.ContainsRune(p, '\\') && strings.Contains(p, "..") {
		return "", escapes(p)
	}
	return clean, nil
}

func escapes(p string) error {
	return fault{http.StatusBadRequest, "Path traversal detected: " + short(p)}
}

// short returns the beginning of a text of a client, for an answer.
func short(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= 200 {
		return s
	}
	return strings.ToValidUTF8(s[:200], "") + "…"
}

// path returns a path in the query. fallback is as in [call.query].
func (c *call) path(fallback ...string) (string, error) {
	p, err := c.query("path", fallback...)
	if err != nil {
		return "", err
	}
	return place(p)
}

// said returns an error of Files in the API's words. Other errors are returned unchanged.
func said(err error, p string) error {
	switch belljar.CodeOf(err) {
	case belljar.CodePathEscapes:
		return escapes(p)
	case belljar.CodeNotFound:
		return fault{http.StatusNotFound, "File not found: " + short(p)}
	}
	return err
}

// tagged responds with v and its ETag, or with 304 if the client has that.
func (c *call) tagged(v any) error {
	raw, err := socket.Encode(v)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(raw)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	c.w.Header().Set("ETag", tag)
	c.w.Header().Set("Cache-Control", "no-cache")
	for given := range strings.SplitSeq(strings.Join(c.r.Header.Values("If-None-Match"), ","), ",") {
		if strings.TrimPrefix(strings.TrimSpace(given), "W/") == tag {
			c.w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	send(c.w, http.StatusOK, raw)
	return nil
}

// content is the text of a file.
type content struct {
	Content   *string `json:"content"`
	Path      string  `json:"path"`
	Error     string  `json:"error,omitempty"`
	Truncated bool    `json:"truncated,omitempty"`
	Binary    bool    `json:"binary,omitempty"`
	Size      int64   `json:"size,omitempty"` // of a file that is truncated or binary
}

// contentOf returns the answer for a file of size bytes that begins with b. One that is not text has no content.
func contentOf(p string, b []byte, size int64) content {
	out := content{Path: p, Truncated: size > int64(len(b))}
	if out.Truncated {
		b = b[:len(b)-api.Unfinished(b)]
	}
	text := string(b)
	if !utf8.Valid(b) || strings.ContainsRune(text, 0) {
		text, out.Binary, out.Truncated = "", true, false
	}
	if out.Content = &text; out.Binary || out.Truncated {
		out.Size = size
	}
	return out
}

func (c *call) read() error {
	p, err := c.path()
	if err != nil {
		return err
	}
	e, body, err := c.Engine.Files().Read(c.r.Context(), c.Session, p, 0, maxFile)
	if err != nil {
		return c.explain(err, p)
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return c.tagged(contentOf(p, b, max(e.Size, int64(len(b)))))
}

// explain returns the API's error for a file that could not be opened, moved or written.
func (c *call) explain(err error, p string) error {
	if belljar.CodeOf(err) == belljar.CodeConflict {
		if dir, _ := c.isDir(p); dir {
			return fault{http.StatusBadRequest, "Path is a directory: " + short(p)}
		}
	}
	return said(err, p)
}

// done is the answer to a change.
type done struct {
	Success bool   `json:"success"`
	Path    string `json:"path,omitempty"`
	OldPath string `json:"old_path,omitempty"`
	NewPath string `json:"new_path,omitempty"`
	Dest    string `json:"dest_path,omitempty"`
}

func (c *call) ok(d done) error {
	c.door.git.forget(c.Session)
	d.Success = true
	write(c.w, http.StatusOK, d)
	return nil
}

func (c *call) write() error {
	p, err := c.path()
	if err != nil {
		return err
	}
	in, err := c.body(maxFile, "content")
	if err != nil {
		return err
	}
	_, err = c.Engine.Files().Write(c.r.Context(), c.Session, belljar.FileWrite{
		Path: p, Content: strings.NewReader(in["content"]), Size: int64(len(in["content"])), Overwrite: true,
	})
	if err != nil {
		return c.explain(err, p)
	}
	return c.ok(done{Path: p})
}

func (c *call) remove() error {
	p, err := c.path()
	if err == nil && p == "." {
		err = fault{http.StatusBadRequest, "Cannot delete workspace root"}
	}
	if err == nil {
		err = said(c.Engine.Files().Delete(c.r.Context(), c.Session, p, true), p)
	}
	if err != nil {
		return err
	}
	return c.ok(done{Path: p})
}

func (c *call) rename() error {
	in, err := c.body(maxFile, "old_path", "new_path")
	if err != nil {
		return err
	}
	from, err := place(in["old_path"])
	if err != nil {
		return err
	}
	to, err := place(in["new_path"])
	if err == nil {
		err = c.shift(from, to)
	}
	if err != nil {
		return err
	}
	return c.ok(done{OldPath: from, NewPath: to})
}

func (c *call) move() error {
	in, err := c.body(maxFile, "src_path", "dest_dir")
	if err != nil {
		return err
	}
	from, err := place(in["src_path"])
	if err != nil {
		return err
	}
	dir, err := place(in["dest_dir"])
	if err != nil {
		return err
	}
	if _, err := c.Engine.Files().Stat(c.r.Context(), c.Session, from); err != nil {
		return said(err, from)
	}
	is, err := c.isDir(dir)
	if err != nil && belljar.CodeOf(err) != belljar.CodeNotFound {
		return said(err, dir)
	}
	if !is {
		return fault{http.StatusBadRequest, "Destination is not a directory: " + short(dir)}
	}
	to := path.Join(dir, path.Base(from))
	if err := c.shift(from, to); err != nil {
		return err
	}
	return c.ok(done{OldPath: from, Dest: to})
}

// shift gives a file another path, which must be free.
func (c *call) shift(from, to string) error {
	if from == "." || to == "." {
		return fault{http.StatusBadRequest, "Cannot move workspace root"}
	}
	files, ctx := c.Engine.Files(), c.r.Context()
	if _, err := files.Stat(ctx, c.Session, from); err != nil {
		return said(err, from)
	}
	err := files.Rename(ctx, c.Session, from, to, false)
	if belljar.CodeOf(err) == belljar.CodeConflict {
		if _, missing := files.Stat(ctx, c.Session, to); missing == nil {
			return fault{http.StatusConflict, "Target exists: " + short(to)}
		}
	}
	return said(err, to)
}
