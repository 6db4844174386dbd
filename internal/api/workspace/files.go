package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

const (
	maxFile  = 5 << 20 // bytes of a file that one request reads or writes
	maxNodes = 10_000  // entries that one request looks at
	maxDepth = 10      // folders below the one that is searched
	maxFinds = 1000
	maxLinks = 64 // links of a folder whose targets are looked at
	// lookTime limits one look at a tree.
	lookTime = 5 * time.Second
)

// place checks a path of a request. It is relative to the workspace, and "." is the workspace.
func place(p string) (string, error) {
	escapes := fault{http.StatusBadRequest, "Path traversal detected: " + short(p)}
	if strings.HasPrefix(p, "/") || strings.ContainsRune(p, '\\') && strings.Contains(p, "..") {
		return "", escapes
	}
	clean, err := belljar.CleanPath(cmp.Or(p, "."))
	if err != nil || belljar.CheckPlace(clean) != nil {
		return "", escapes
	}
	return clean, nil
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
		return fault{http.StatusBadRequest, "Path traversal detected: " + short(p)}
	case belljar.CodeNotFound:
		return fault{http.StatusNotFound, "File not found: " + short(p)}
	}
	return err
}

// entry is one entry of a folder.
type entry struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Dir  bool   `json:"is_dir"`
	Size *int64 `json:"size,omitempty"`
}

// tree is the answer of GET /api/tree.
type tree struct {
	Entries   []entry `json:"entries"`
	Path      string  `json:"path"`
	Truncated bool    `json:"truncated,omitempty"`
	Reason    string  `json:"truncation_reason,omitempty"` // node_limited | time_limited
	Visited   int     `json:"total_visited,omitempty"`
}

// tree lists one folder: folders first, then by name.
func (c *call) tree() error {
	p, err := c.path(".")
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(c.r.Context(), lookTime)
	defer stop()
	out := tree{Entries: []entry{}, Path: p}
	list, err := c.list(ctx, p, false)
	switch {
	case err != nil && ctx.Err() != nil && c.r.Context().Err() == nil:
		out.Truncated, out.Reason = true, "time_limited"
		return c.tagged(out)
	case belljar.CodeOf(err) == belljar.CodeNotFound:
		return c.tagged(out)
	case err != nil:
		return said(err, p)
	}
	links := 0
	for _, e := range list.Entries {
		it := entry{Name: path.Base(e.Path), Path: e.Path, Dir: e.Type == "dir"}
		if e.Type == "symlink" && links < maxLinks {
			links++
			it.Dir = c.leadsToDir(ctx, e)
		}
		if !it.Dir {
			it.Size = &e.Size
		}
		out.Entries = append(out.Entries, it)
	}
	if list.Truncated {
		out.Truncated, out.Reason, out.Visited = true, "node_limited", len(list.Entries)
	}
	slices.SortStableFunc(out.Entries, func(a, b entry) int {
		switch {
		case a.Dir != b.Dir && a.Dir:
			return -1
		case a.Dir != b.Dir:
			return 1
		}
		return cmp.Or(strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return c.tagged(out)
}

// list lists a folder, also one that is a link to a folder. A file has no entries.
func (c *call) list(ctx context.Context, p string, recursive bool) (belljar.FileList, error) {
	q := belljar.FileQuery{Path: p, Recursive: recursive, Limit: maxNodes}
	list, err := c.Engine.Files().List(ctx, c.Session, q)
	if err != nil || len(list.Entries) != 1 || list.Entries[0].Path != p {
		return list, err
	}
	itself := list.Entries[0]
	if itself.Type != "symlink" {
		return belljar.FileList{}, nil
	}
	target, ok := c.target(ctx, itself)
	if !ok {
		return belljar.FileList{}, nil
	}
	q.Path = target.Path
	if list, err = c.Engine.Files().List(ctx, c.Session, q); err != nil {
		return list, err
	}
	for i, e := range list.Entries {
		if e.Path == target.Path {
			return belljar.FileList{}, nil
		}
		if target.Path != "." {
			e.Path = strings.TrimPrefix(e.Path, target.Path+"/")
		}
		list.Entries[i].Path = path.Join(p, e.Path)
	}
	return list, nil
}

// target returns what a link leads to in the workspace, through further links.
func (c *call) target(ctx context.Context, e belljar.FileEntry) (belljar.FileEntry, bool) {
	for range 8 {
		to := e.Target
		if path.IsAbs(to) {
			inside, err := belljar.CleanPath(to)
			if err != nil {
				return e, false
			}
			to = inside
		} else if to = path.Join(path.Dir(e.Path), to); to == ".." || strings.HasPrefix(to, "../") {
			return e, false
		}
		next, err := c.Engine.Files().Stat(ctx, c.Session, to)
		if err != nil {
			return e, false
		}
		if e = next; e.Type != "symlink" {
			return e, true
		}
	}
	return e, false
}

func (c *call) leadsToDir(ctx context.Context, e belljar.FileEntry) bool {
	target, ok := c.target(ctx, e)
	return ok && target.Type == "dir"
}

// tagged responds with v and its ETag, or with 304 if the client has that.
func (c *call) tagged(v any) error {
	raw, err := encode(v)
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
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(raw) // fails only if the client is gone
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
		if e, e2 := c.Engine.Files().Stat(c.r.Context(), c.Session, p); e2 == nil && (e.Type == "dir" || e.Type == "symlink" && c.leadsToDir(c.r.Context(), e)) {
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
	files := c.Engine.Files()
	if _, err := files.Stat(c.r.Context(), c.Session, from); err != nil {
		return said(err, from)
	}
	e, err := files.Stat(c.r.Context(), c.Session, dir)
	switch code := belljar.CodeOf(err); {
	case err != nil && code != belljar.CodeNotFound:
		return said(err, dir)
	case err != nil, e.Type != "dir" && !(e.Type == "symlink" && c.leadsToDir(c.r.Context(), e)):
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

// find is a file that a search found.
type find struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Dir  string `json:"dir"`
}

// finds is the answer of GET /api/search.
type finds struct {
	Results   []find `json:"results"`
	Pattern   string `json:"pattern"`
	Path      string `json:"path"`
	Truncated bool   `json:"truncated,omitempty"`
	Reason    string `json:"truncation_reason,omitempty"` // node_limited | depth_limited | time_limited
}

// search looks for files and folders by their names.
func (c *call) search() error {
	pattern, err := c.query("q")
	if err != nil {
		return err
	}
	if pattern == "" || len(pattern) > 256 {
		return missing{{[]string{"query", "q"}, "String should have 1 to 256 characters", "string_length"}}
	}
	p, err := c.path(".")
	if err != nil {
		return err
	}
	match, err := glob(pattern)
	if err != nil {
		return missing{{[]string{"query", "q"}, "Value is not a pattern", "value_error"}}
	}
	ctx, stop := context.WithTimeout(c.r.Context(), lookTime)
	defer stop()
	out := finds{Results: []find{}, Pattern: pattern, Path: p}
	list, err := c.list(ctx, p, true)
	switch {
	case err == nil:
	case ctx.Err() != nil && c.r.Context().Err() == nil:
		out.Truncated, out.Reason = true, "time_limited"
	default:
		return said(err, p)
	}
	if list.Truncated {
		out.Truncated, out.Reason = true, "node_limited"
	}
	for _, e := range list.Entries {
		below := e.Path
		if p != "." {
			below = strings.TrimPrefix(e.Path, p+"/")
		}
		switch name := path.Base(e.Path); {
		case strings.Count(below, "/") > maxDepth:
			if !out.Truncated {
				out.Truncated, out.Reason = true, "depth_limited"
			}
		case !match(name):
		case len(out.Results) == maxFinds:
			out.Truncated, out.Reason = true, "node_limited"
		default:
			out.Results = append(out.Results, find{name, e.Path, path.Dir(e.Path)})
		}
	}
	write(c.w, http.StatusOK, out)
	return nil
}
