package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar"
)

// files implements [belljar.Files].
type files struct{ c *Client }

var _ belljar.Files = files{}

// fileTime is added to Options.Silence for requests that wait for a sandbox.
const fileTime = time.Minute

// Write writes one file. It is not retried, since its reader can be read only once.
func (f files) Write(ctx context.Context, sessionID string, w belljar.FileWrite) (belljar.FileEntry, error) {
	query := url.Values{"path": {w.Path}}
	if w.Mode != 0 {
		query.Set("mode", octal(w.Mode))
	}
	if w.Overwrite {
		query.Set("overwrite", "true")
	}
	content := &whole{r: w.Content, size: w.Size}
	if content.r == nil {
		content.r = strings.NewReader("")
	}
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	if w.IfMatch != "" {
		header.Set("If-Match", w.IfMatch)
	}
	if w.Size <= 0 || w.Size > 64<<10 { // a refused body is then not sent
		header.Set("Expect", "100-continue")
	}
	var stored struct {
		Entry belljar.FileEntry `json:"entry"`
	}
	err := f.c.ask(ctx, request{
		method: http.MethodPut, path: route("sessions", sessionID, "fs", "raw"), query: query, stream: content, size: w.Size, longer: fileTime,
		header: header,
	}, &stored)
	return stored.Entry, content.why(err)
}

// whole is a reader that checks its size, if it is set, and records its error.
type whole struct {
	r     io.Reader
	size  int64 // less than 1 if it is unknown
	read  int64
	fault atomic.Pointer[error]
}

func (w *whole) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	w.read += int64(n)
	end := errors.Is(err, io.EOF)
	if err == nil && w.size > 0 && w.read == w.size { // the server may answer after these: check first that they are all
		var more int
		more, err = io.ReadFull(w.r, make([]byte, 1))
		w.read += int64(more)
		end = errors.Is(err, io.EOF)
	}
	switch {
	case w.size > 0 && (w.read > w.size || end && w.read < w.size):
		err = &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("the contents have %d bytes so far, %d were announced", w.read, w.size)}
	case err != nil && !end:
		err = &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the contents could not be read to their end", Err: err}
	default:
		return n, err
	}
	w.fault.Store(&err)
	return 0, err
}

// why returns the error of a request with the contents: their own, if they have one.
func (w *whole) why(err error) error {
	if fault := w.fault.Load(); err != nil && fault != nil {
		return *fault
	}
	return err
}

// octal formats permission bits for the server.
func octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }

// WriteAll writes many small files. It is retried only if it may replace files: otherwise a retry could conflict with
// files of the first try.
func (f files) WriteAll(ctx context.Context, sessionID string, list []belljar.FileWrite) ([]belljar.FileEntry, error) {
	type file struct {
		Path    string `json:"path"`
		Content []byte `json:"contents_b64"`
		Mode    string `json:"mode,omitempty"`
	}
	body := struct {
		Files     []file `json:"files"`
		Overwrite bool   `json:"overwrite"`
	}{Files: []file{}}
	room := int64(belljar.MaxBatchBytes)
	for i, w := range list {
		if i == 0 {
			body.Overwrite = w.Overwrite
		}
		if w.Overwrite != body.Overwrite {
			return nil, &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: "overwrite must be the same for all files of a batch", Details: map[string]any{"field": "overwrite"},
			}
		}
		if w.IfMatch != "" {
			return nil, &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("files[%d] has an IfMatch, which a batch does not compare", i), Details: map[string]any{"field": "files"},
			}
		}
		one := file{Path: w.Path, Content: []byte{}}
		if w.Mode != 0 {
			one.Mode = octal(w.Mode)
		}
		if w.Content != nil {
			content, err := io.ReadAll(io.LimitReader(w.Content, room+1))
			if err != nil {
				return nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("files[%d] could not be read", i), Err: err}
			}
			if room -= int64(len(content)); room < 0 {
				return nil, &belljar.Error{
					Code: belljar.CodeTooLarge, Message: fmt.Sprintf("a batch is limited to %d bytes together", belljar.MaxBatchBytes),
					Details: map[string]any{"field": "files", "maximum": belljar.MaxBatchBytes},
				}
			}
			one.Content = content
		}
		body.Files = append(body.Files, one)
	}
	var stored struct {
		Entries []belljar.FileEntry `json:"entries"`
	}
	err := f.post(ctx, sessionID, "batch", body, &stored, !body.Overwrite)
	return stored.Entries, err
}

// post sends an operation with a JSON body. once means that it is not idempotent.
func (f files) post(ctx context.Context, sessionID, op string, body, to any, once bool) error {
	return f.c.ask(ctx, request{
		method: http.MethodPost, path: route("sessions", sessionID, "fs", op), send: body, once: once, longer: fileTime,
	}, to)
}

// Read opens a file.
func (f files) Read(ctx context.Context, sessionID, name string, offset, limit int64) (belljar.FileEntry, io.ReadCloser, error) {
	if offset < 0 || limit < 0 {
		return belljar.FileEntry{}, nil, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "offset and limit must not be negative", Details: map[string]any{"field": "offset"},
		}
	}
	req := request{
		method: http.MethodGet, path: route("sessions", sessionID, "fs", "raw"), query: url.Values{"path": {name}}, longer: fileTime,
		header: http.Header{"Accept": {"*/*"}, "Accept-Encoding": {"identity"}},
	}
	if offset > 0 || limit > 0 {
		last := ""
		if limit > 0 && offset <= 1<<62 && limit <= 1<<62 {
			last = strconv.FormatInt(offset+limit-1, 10)
		}
		req.header.Set("Range", fmt.Sprintf("bytes=%d-%s", offset, last))
	}
	resp, err := f.c.open(ctx, req)
	if pastEnd(err) { // not an error: there is nothing to read
		req.method = http.MethodHead
		req.header.Del("Range")
		if resp, err = f.c.open(ctx, req); err == nil {
			resp.Body.Close()
			return entryOf(resp, name, resp.ContentLength), io.NopCloser(strings.NewReader("")), nil
		}
	}
	if err != nil {
		return belljar.FileEntry{}, nil, err
	}
	size := resp.ContentLength
	if resp.StatusCode == http.StatusPartialContent {
		_, total, _ := strings.Cut(resp.Header.Get("Content-Range"), "/")
		if size, err = strconv.ParseInt(total, 10, 64); err != nil {
			resp.Body.Close()
			return belljar.FileEntry{}, nil, unexpected(resp)
		}
	} else if req.header.Get("Range") != "" { // a proxy does not support ranges
		if _, err := io.CopyN(io.Discard, resp.Body, offset); err != nil && !(errors.Is(err, io.EOF) && size <= offset) {
			resp.Body.Close()
			return belljar.FileEntry{}, nil, callerError(f.c.transportError(ctx, "the file broke off", err))
		}
	}
	body := contentsOf(ctx, f.c, resp, "file")
	if limit > 0 {
		body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(body, limit), body}
	}
	return entryOf(resp, name, size), body, nil
}

// pastEnd reports whether err means that a range starts after the end of the file.
func pastEnd(err error) bool {
	var e *belljar.Error
	return errors.As(err, &e) && e.Code == belljar.CodeInvalidRequest && e.Details["field"] == "Range" && e.Details["size"] != nil
}

// entryOf returns the entry of a file from the headers of its download.
func entryOf(resp *http.Response, name string, size int64) belljar.FileEntry {
	entry := belljar.FileEntry{Path: name, Type: "file", Size: size, Mode: resp.Header.Get("X-Belljar-Mode")}
	if clean, err := belljar.CleanPath(name); err == nil {
		entry.Path = path.Clean(clean)
	}
	if t, err := http.ParseTime(resp.Header.Get("Last-Modified")); err == nil {
		entry.MtimeUnix = t.Unix()
	}
	return entry
}

// Stat describes the file or directory at a path.
func (f files) Stat(ctx context.Context, sessionID, path string) (belljar.FileEntry, error) {
	var entry belljar.FileEntry
	return entry, f.post(ctx, sessionID, "stat", map[string]any{"path": path}, &entry, false)
}

// List lists a directory.
func (f files) List(ctx context.Context, sessionID string, q belljar.FileQuery) (belljar.FileList, error) {
	var list belljar.FileList
	body := map[string]any{"path": q.Path, "recursive": q.Recursive, "limit": q.Limit}
	return list, f.post(ctx, sessionID, "list", body, &list, false)
}

// Mkdir creates a directory and its parents.
func (f files) Mkdir(ctx context.Context, sessionID, path string, mode uint32) error {
	body := map[string]any{"path": path}
	if mode != 0 {
		body["mode"] = octal(mode)
	}
	return f.post(ctx, sessionID, "mkdir", body, nil, false)
}

// Rename moves a file or directory.
func (f files) Rename(ctx context.Context, sessionID, from, to string, overwrite bool) error {
	body := map[string]any{"from": from, "to": to, "overwrite": overwrite}
	return f.post(ctx, sessionID, "rename", body, nil, true)
}

// Delete removes a file or a directory.
func (f files) Delete(ctx context.Context, sessionID, path string, recursive bool) error {
	body := map[string]any{"path": path, "recursive": recursive}
	return f.post(ctx, sessionID, "delete", body, nil, true)
}

// Search searches for files and lines.
func (f files) Search(ctx context.Context, sessionID string, q belljar.FileSearch) (belljar.FileMatches, error) {
	var found belljar.FileMatches
	return found, f.post(ctx, sessionID, "search", q, &found, false)
}

// Archive writes a directory or a file to w.
func (f files) Archive(ctx context.Context, sessionID, path string, format belljar.UploadFormat, w io.Writer) error {
	query := url.Values{"path": {path}, "format": {string(format)}}
	err := download(ctx, f.c, request{path: route("sessions", sessionID, "fs", "archive"), query: query, longer: fileTime}, "archive", w)
	if e, is := errors.AsType[*belljar.Error](err); is && e.Message == brokeOff("archive") {
		e.Hint = "a file in it may be unreadable or changing, which the server's log shows; otherwise " + e.Hint
	}
	return err
}

// brokeOff is the message for a response whose body ended early.
func brokeOff(what string) string { return "the " + what + " broke off" }

// download writes the bytes of a response to w. what names them in errors.
func download(ctx context.Context, c *Client, r request, what string, w io.Writer) error {
	r.method, r.header = http.MethodGet, http.Header{"Accept": {"*/*"}, "Accept-Encoding": {"identity"}}
	resp, err := c.open(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	out := &destination{w: w}
	if _, err := io.Copy(out, resp.Body); err != nil {
		if out.err != nil {
			return &belljar.Error{Code: belljar.CodeCanceled, Message: "the client stopped reading the " + what, Err: out.err}
		}
		return callerError(c.transportError(ctx, brokeOff(what), err))
	}
	return nil
}

// destination is a writer that records its error, to distinguish it from an error of the connection.
type destination struct {
	w   io.Writer
	err error
}

func (t *destination) Write(b []byte) (int, error) {
	n, err := t.w.Write(b)
	if err != nil {
		t.err = err
	}
	return n, err
}

// Space returns the usage of a workspace.
func (f files) Space(ctx context.Context, sessionID string) (belljar.Space, error) {
	var s belljar.Space
	return s, f.c.get(ctx, &s, nil, "sessions", sessionID, "fs", "space")
}
