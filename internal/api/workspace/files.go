package workspace

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/char"
)

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

// short returns the beginning of a client's text, for an answer.
func short(s string) string {
	return char.Short(strings.ToValidUTF8(s, "\uFFFD"), 200)
}

// explained returns an error of Files in the API's words. Other errors are returned unchanged.
func explained(err error, p string) error {
	switch belljar.CodeOf(err) {
	case belljar.CodePathEscapes:
		return escapes(p)
	case belljar.CodeNotFound:
		return fault{http.StatusNotFound, "File not found: " + short(p)}
	}
	return err
}

// content is the text of a file.
type content struct {
	Content   *string `json:"content"`
	Path      string  `json:"path"`
	Error     string  `json:"error,omitempty"`
	Truncated bool    `json:"truncated,omitempty"`
	Binary    bool    `json:"binary,omitempty"`
	Size      int64   `json:"size,omitempty"` // of a file that is truncated or binary
	tag       string  // the file's ETag as of [belljar.FileEntry]; "" if it was not read whole
}

// contentOf returns the answer for a file of size bytes that begins with b. A file that is not text has no
// content.
func contentOf(p string, b []byte, size int64) content {
	out := content{Path: p, Truncated: size > int64(len(b))}
	if out.Truncated {
		b = b[:len(b)-char.Unfinished(b)]
	} else {
		sum := sha256.Sum256(b)
		out.tag = `"` + hex.EncodeToString(sum[:]) + `"`
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

func (c *call) read(p string) (any, error) {
	e, body, err := c.Engine.Files().Read(c.r.Context(), c.Session, p, 0, c.door.maxFile)
	if err != nil {
		return nil, c.explain(err, p)
	}
	defer body.Close()
	if err := reserve(c, c.door.opts.Bodies, api.Escaped*min(e.Size, c.door.maxFile)); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(body)
	return tagged{contentOf(p, b, max(e.Size, int64(len(b))))}, err
}

// explain returns the API's error for a file that could not be opened, moved or written.
func (c *call) explain(err error, p string) error {
	if belljar.CodeOf(err) == belljar.CodeConflict {
		if dir, _ := c.isDir(p); dir {
			return fault{http.StatusBadRequest, "Path is a directory: " + short(p)}
		}
	}
	return explained(err, p)
}

// done is the answer to a change.
type done struct {
	Success bool   `json:"success"`
	Path    string `json:"path,omitempty"`
	OldPath string `json:"old_path,omitempty"`
	NewPath string `json:"new_path,omitempty"`
	Dest    string `json:"dest_path,omitempty"`
}

// changed returns the answer to a change, or its error.
func (c *call) changed(d done, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	c.door.git.forget(c.Session)
	d.Success = true
	return d, nil
}

// write writes a file. If-Match and If-None-Match are as for PUT fs/raw.
func (c *call) write(p string) (any, error) {
	match, fresh := strings.Join(c.r.Header.Values("If-Match"), ","), strings.Join(c.r.Header.Values("If-None-Match"), ",")
	if fresh != "" && (fresh != "*" || match != "") {
		return nil, fault{http.StatusBadRequest, "If-None-Match of a write must be *, without If-Match"}
	}
	in, err := c.body("content")
	if err != nil {
		return nil, err
	}
	file := belljar.FileWrite{Path: p, Size: int64(len(in["content"])), Overwrite: fresh == "", IfMatch: match}
	if fresh == "" && match == "" {
		file.IfMatch = "*" // an existing file keeps its mode
	}
	file.Content = strings.NewReader(in["content"])
	written, err := c.Engine.Files().Write(c.r.Context(), c.Session, file)
	if file.IfMatch != match && belljar.CodeOf(err) == belljar.CodePrecondition { // the file does not exist
		file.Content, file.IfMatch = strings.NewReader(in["content"]), ""
		written, err = c.Engine.Files().Write(c.r.Context(), c.Session, file)
	}
	err = c.explain(err, p)
	if e := (*belljar.Error)(nil); fresh != "" && errors.As(err, &e) && e.Details["rule"] == "exists" {
		e.Code, e.Hint = belljar.CodePrecondition, "write without If-None-Match to replace it"
	}
	if written.ETag != "" {
		c.w.Header().Set("ETag", written.ETag)
	}
	return c.changed(done{Path: p}, err)
}

func (c *call) remove(p string) (any, error) {
	if p == "." {
		return nil, fault{http.StatusBadRequest, "Cannot delete workspace root"}
	}
	return c.changed(done{Path: p}, explained(c.Engine.Files().Delete(c.r.Context(), c.Session, p, true), p))
}

// places returns two paths in the body.
func (c *call) places(one, two string) (a, b string, err error) {
	in, err := c.body(one, two)
	if err == nil {
		a, err = place(in[one])
	}
	if err == nil {
		b, err = place(in[two])
	}
	return a, b, err
}

func (c *call) rename() (any, error) {
	from, to, err := c.places("old_path", "new_path")
	if err == nil {
		err = c.shift(from, to)
	}
	return c.changed(done{OldPath: from, NewPath: to}, err)
}

func (c *call) move() (any, error) {
	from, dir, err := c.places("src_path", "dest_dir")
	if err != nil {
		return nil, err
	}
	if _, err := c.Engine.Files().Stat(c.r.Context(), c.Session, from); err != nil {
		return nil, explained(err, from)
	}
	is, err := c.isDir(dir)
	if err != nil && belljar.CodeOf(err) != belljar.CodeNotFound {
		return nil, explained(err, dir)
	}
	if !is {
		return nil, fault{http.StatusBadRequest, "Destination is not a directory: " + short(dir)}
	}
	to := path.Join(dir, path.Base(from))
	return c.changed(done{OldPath: from, Dest: to}, c.shift(from, to))
}

// shift moves a file to another path, which must be free.
func (c *call) shift(from, to string) error {
	if from == "." || to == "." {
		return fault{http.StatusBadRequest, "Cannot move workspace root"}
	}
	files, ctx := c.Engine.Files(), c.r.Context()
	if _, err := files.Stat(ctx, c.Session, from); err != nil {
		return explained(err, from)
	}
	err := files.Rename(ctx, c.Session, from, to, false)
	if belljar.CodeOf(err) == belljar.CodeConflict {
		if _, missing := files.Stat(ctx, c.Session, to); missing == nil {
			return fault{http.StatusConflict, "Target exists: " + short(to)}
		}
	}
	return explained(err, to)
}
