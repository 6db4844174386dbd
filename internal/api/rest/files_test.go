//go:build linux

package rest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/test/apitest"
)

// files is a session of alice with its file operations.
type files struct {
	*bench
	at string
}

func (b *bench) files() *files {
	var s belljar.Session
	b.ask(200, "POST", "/sessions", "alice", `{"spec_version": "1.0", "base_image": "host"}`, &s)
	return &files{b, "/sessions/" + s.ID + "/fs/"}
}

// is sends an operation and compares the response as JSON.
func (f *files) is(op, body string, status int, want string) {
	f.t.Helper()
	var got, expected any
	f.ask(status, "POST", f.at+op, "alice", body, &got)
	if err := json.Unmarshal([]byte(want), &expected); err != nil {
		f.t.Fatal(err)
	}
	if status >= 400 {
		got = got.(map[string]any)["error"].(map[string]any)["code"]
	}
	if fmt.Sprint(got) != fmt.Sprint(expected) {
		f.t.Errorf("%s %s: %v, want %v", op, body, got, expected)
	}
}

// TestCodeModeFiles uses the session tools by their names: write, read, fix, list, delete.
func TestCodeModeFiles(t *testing.T) {
	f := newEngine(t).files()
	written := func(path, content string) string {
		return fmt.Sprintf(`{"ok": true, "path": "/workspace/%s", "etag": "\"%x\""}`, path, sha256.Sum256([]byte(content)))
	}
	f.is("write", `{"path": "main.py", "contents": "print(1/0)\n"}`, 200, written("main.py", "print(1/0)\n"))
	f.is("write", `{"path": "/workspace/main.py", "contents": "print(1)\n"}`, 409, `"conflict"`)
	f.is("write", `{"path": "./main.py", "contents": "print(1)\n", "overwrite": true, "mode": "0755"}`, 200, written("main.py", "print(1)\n"))
	read := func(content, has string) string {
		return fmt.Sprintf(`{%s, "truncated": false, "size_bytes": %d, "etag": "\"%x\""}`, has, len(content), sha256.Sum256([]byte(content)))
	}
	f.is("read", `{"path": "main.py"}`, 200, read("print(1)\n", `"contents": "print(1)\n"`))
	f.is("read", `{"path": "main.py", "max_bytes": 5}`, 200, `{"contents": "print", "truncated": true, "size_bytes": 9, "next_offset": 5}`)
	f.is("read", `{"path": "main.py", "offset": 5}`, 200, `{"contents": "(1)\n", "truncated": false, "size_bytes": 9}`)
	f.is("write", `{"path": "bin/data", "contents_b64": "AP8="}`, 200, written("bin/data", "\x00\xff"))
	f.is("read", `{"path": "bin/data"}`, 200, read("\x00\xff", `"contents_b64": "AP8="`))
	f.is("write", `{"path": "empty"}`, 400, `"invalid_request"`)
	f.is("write", `{"path": "empty", "contents": ""}`, 200, written("empty", ""))
	f.is("read", `{"path": "empty"}`, 200, read("", `"contents": ""`))
	f.conditional()
	f.batch()
	var list belljar.FileList
	f.ask(200, "POST", f.at+"list", "alice", `{"path": ".", "recursive": true}`, &list)
	if len(list.Entries) != 7 || list.Entries[0].Path != "bin" || list.Entries[0].Type != "dir" || list.Entries[3].Mode != "0755" || list.Truncated {
		t.Errorf("%+v", list)
	}
	f.is("mkdir", `{"path": "d/e", "mode": "0700"}`, 200, `{"ok": true, "path": "/workspace/d/e"}`)
	f.is("rename", `{"from": "main.py", "to": "d/e/m.py"}`, 200, `{"ok": true, "path": "/workspace/d/e/m.py"}`)
	f.is("search", `{"name": "*.py", "content": "print"}`, 200, `{"matches": [{"path": "d/e/m.py", "line": 1, "text": "print(1)"}], "truncated": false, "files_searched": 1}`)
	f.is("delete", `{"path": "d"}`, 409, `"conflict"`)
	f.is("mkdir", `{"path": "bare"}`, 200, `{"ok": true, "path": "/workspace/bare"}`)
	f.is("delete", `{"path": "bare"}`, 200, `{"ok": true, "deleted": "/workspace/bare"}`)
	f.is("delete", `{"path": "d", "recursive": true}`, 200, `{"ok": true, "deleted": "/workspace/d"}`)
	f.is("stat", `{"path": "d"}`, 404, `"not_found"`)
	var space belljar.Space
	f.ask(200, "GET", f.at+"space", "alice", "", &space)
	if space.MaxBytes == 0 {
		t.Errorf("%+v", space)
	}
	for op, bodies := range map[string][]string{
		"write": {
			`{"contents": "x"}`, `{"path": "x", "contents": "x", "contents_b64": "eA=="}`, `{"path": "x", "mode": "0999"}`, `{"path": "x", "mode": "7"}`, `{"path": "x", "mode": "4755"}`,
			`{"path": "x", "mode": 420}`, `{"path": "x", "contents_b64": "!"}`, `{"path": "x", "content": "x"}`, `{"path": ["x"]}`, `{"path": "x", "overwrite": "yes"}`,
		},
		"read":   {`{}`, `{"path": "x", "max_bytes": -1}`, `{"path": "x", "max_bytes": 8388609}`, `{"path": "x", "offset": -1}`},
		"list":   {`{"limit": 10001}`, `{"limit": -1}`},
		"batch":  {`{}`, `{"files": [{"contents": "x"}]}`, `{"files": [{"path": "x", "contents": "x", "contents_b64": "eA=="}]}`, `{"files": [{"path": "x", "mode": "x"}]}`},
		"search": {`{}`, `{"content": "(", "regexp": true}`},
		"rename": {`{"from": "x"}`, `{"from": "x", "to": "."}`},
		"delete": {`{"path": "."}`, `{"path": ""}`},
	} {
		for _, body := range bodies {
			f.is(op, body, 400, `"invalid_request"`)
		}
	}
}

// TestReadShares checks that large responses to a user's requests share the memory of their bodies.
func TestReadShares(t *testing.T) {
	const limit = 2 << 20
	shares := api.NewShares(limit, 0)
	s := apitest.NewWorld(t, nil).Service
	door := handler(t, rest.Options{Engine: s, Auth: operatorOr{s}, Bodies: shares}, api.EdgeOptions{})
	post := func(as, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", prefix+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-API-KEY", as)
		w := httptest.NewRecorder()
		door.ServeHTTP(w, r)
		return w
	}
	var x belljar.Session
	if err := json.Unmarshal(post("alice", "/sessions", `{"spec_version": "1.0", "base_image": "host"}`).Body.Bytes(), &x); err != nil {
		t.Fatal(err)
	}
	is := func(status int, op, body string) {
		t.Helper()
		if w := post("alice", "/sessions/"+x.ID+"/fs/"+op, body); w.Code != status {
			t.Errorf("%s %s: %d, want %d: %s", op, body, w.Code, status, w.Body)
		}
	}
	is(200, "write", `{"path": "f", "contents": "x"}`)
	list, part, large := `{}`, `{"path": "f"}`, `{"path": "f", "max_bytes": 8388608}`
	for _, c := range []struct {
		held                int64
		list, part, largest int
	}{{0, 200, 200, 200}, {1000, 200, 200, 429}, {500_000, 429, 200, 429}, {limit - 1000, 429, 429, 429}} {
		release, err := shares.Take(t.Context(), "alice", c.held)
		if err != nil {
			t.Fatal(err)
		}
		is(c.list, "list", list)
		is(c.list, "search", `{"name": "*", "max_results": 300}`)
		is(c.part, "read", part)
		is(c.largest, "read", large)
		release()
	}
	if release, err := shares.Take(t.Context(), "alice", limit); err != nil {
		t.Error("responses keep their share:", err)
	} else {
		release()
	}
}

// conditional replaces a file that is unchanged since it was read, by both routes.
func (f *files) conditional() {
	f.t.Helper()
	tag := func(content string) string { return fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(content))) }
	for _, c := range []struct {
		method, op, match, content string
		status                     int
	}{
		{"POST", "write", tag("other"), "1", 412}, {"PUT", "raw?path=main.py", tag("other"), "1", 412}, {"POST", "write", "unquoted", "1", 400},
		{"POST", "write", tag("print(1)\n"), "2", 200}, {"PUT", "raw?path=main.py", tag("x") + ", " + tag("2"), "3", 200}, {"POST", "write", "*", "print(1)\n", 200},
	} {
		body := c.content
		if c.method == "POST" {
			body = fmt.Sprintf(`{"path": "main.py", "contents": %q}`, c.content)
		}
		answer := f.send(c.method, api.Prefix+f.at+c.op, "alice", http.Header{"If-Match": {c.match}, "Content-Type": {"application/json"}}, body)
		if answer.StatusCode != c.status || c.status == 200 && answer.Header.Get("ETag") != tag(c.content) {
			f.t.Errorf("%s %s If-Match %s: %d, ETag %s", c.method, c.op, c.match, answer.StatusCode, answer.Header.Get("ETag"))
		}
	}
}

// batch writes two files in one request.
func (f *files) batch() {
	f.t.Helper()
	body := `{"files": [{"path": "q/1", "contents": "1"}, {"path": "q/2", "contents_b64": "Mg==", "mode": "600"}]}`
	var got struct {
		OK      bool                `json:"ok"`
		Entries []belljar.FileEntry `json:"entries"`
	}
	f.ask(200, "POST", f.at+"batch", "alice", body, &got)
	if !got.OK || len(got.Entries) != 2 || got.Entries[1].Mode != "0600" || got.Entries[0].Size != 1 {
		f.t.Errorf("%+v", got)
	}
}

// A read that is cut within a character is still text, and the next read continues with that character.
func TestPlainReadText(t *testing.T) {
	f := newEngine(t).files()
	text := strings.Repeat("añ€😀", 10)
	body, err := json.Marshal(map[string]any{"path": "t", "contents": text})
	if err != nil {
		t.Fatal(err)
	}
	f.ask(200, "POST", f.at+"write", "alice", string(body), nil)
	type answer struct {
		Contents    *string `json:"contents"`
		ContentsB64 []byte  `json:"contents_b64"`
		Truncated   bool    `json:"truncated"`
		SizeBytes   int     `json:"size_bytes"`
		NextOffset  int     `json:"next_offset"`
	}
	for most := 1; most <= 11; most++ {
		var whole []byte
		for offset := 0; ; {
			var a answer
			f.ask(200, "POST", f.at+"read", "alice", fmt.Sprintf(`{"path": "t", "offset": %d, "max_bytes": %d}`, offset, most), &a)
			if (a.Contents == nil) == (a.ContentsB64 == nil) || a.SizeBytes != len(text) || most >= utf8.UTFMax && a.Contents == nil {
				t.Fatalf("%d bytes at %d: %+v", most, offset, a)
			}
			part := a.ContentsB64
			if a.Contents != nil {
				part = []byte(*a.Contents)
			}
			whole = append(whole, part...)
			if !a.Truncated {
				break
			}
			if a.NextOffset != offset+len(part) || len(part) == 0 {
				t.Fatalf("%d bytes at %d: %+v", most, offset, a)
			}
			offset = a.NextOffset
		}
		if string(whole) != text {
			t.Errorf("%d bytes at a time: %q", most, whole)
		}
	}
	f.is("read", `{"path": "t", "offset": 2, "max_bytes": 3}`, 200,
		`{"contents_b64": "`+base64.StdEncoding.EncodeToString([]byte(text[2:5]))+`", "truncated": true, "size_bytes": `+strconv.Itoa(len(text))+`, "next_offset": 5}`)
	f.is("read", `{"path": "t", "offset": 1000}`, 200, `{"contents": "", "truncated": false, "size_bytes": `+strconv.Itoa(len(text))+`}`)
}

func TestRawFiles(t *testing.T) {
	b := newEngine(t)
	f := b.files()
	at := prefix + f.at
	put := func(query, body string, status int, code belljar.Code) {
		t.Helper()
		resp := b.send("PUT", at+"raw?"+query, "alice", http.Header{"Content-Type": {"text/html"}}, body)
		got := read(t, resp)
		var e refusal
		if resp.StatusCode != status || status != 200 && (json.Unmarshal(got, &e) != nil || e.Error.Code != code) {
			t.Errorf("PUT %s answers %d: %s", query, resp.StatusCode, got)
		}
	}
	put("path=d/f.html&mode=0640", "<script>0123456789", 200, "")
	put("path=d/f.html", "x", 409, belljar.CodeConflict)
	put("path=d/f.html&overwrite=maybe", "x", 400, belljar.CodeInvalidRequest)
	put("path=d/f.html&mode=rw", "x", 400, belljar.CodeInvalidRequest)
	put("path=..%2Fx", "x", 400, belljar.CodePathEscapes)
	put("path=%2e%2e/x", "x", 400, belljar.CodePathEscapes)
	put("path=x%00y", "x", 400, belljar.CodeInvalidRequest)
	put("", "x", 400, belljar.CodeInvalidRequest)
	put("path=x&size=1", "x", 400, belljar.CodeInvalidRequest)
	put("path=x&path=y", "x", 400, belljar.CodeInvalidRequest)
	put("path=empty", "", 200, "")
	resp := b.send("PUT", at+"raw?path=z", "alice", http.Header{"Content-Encoding": {"gzip"}}, "x")
	if read(t, resp); resp.StatusCode != 400 {
		t.Errorf("an encoded body answers %d", resp.StatusCode)
	}
	resp = b.send("PUT", at+"raw?path=empty&overwrite=true", "alice", http.Header{"Content-Range": {"bytes 1-1/2"}}, "x")
	if got := read(t, resp); resp.StatusCode != 400 || !strings.Contains(string(got), `"field":"Content-Range"`) {
		t.Errorf("a part answers %d: %s", resp.StatusCode, got)
	}
	for i, c := range []struct {
		query  string
		header http.Header
		status int
	}{
		{"path=empty&overwrite=true", http.Header{"If-None-Match": {"*"}}, 412},
		{"path=empty", http.Header{"If-None-Match": {"*"}}, 412},
		{"path=first&overwrite=true", http.Header{"If-None-Match": {"*"}}, 200},
		{"path=empty&overwrite=true", http.Header{"If-None-Match": {`"x"`}}, 400},
		{"path=empty", http.Header{"If-None-Match": {"*"}, "If-Match": {"*"}}, 400},
	} {
		resp := b.send("PUT", at+"raw?"+c.query, "alice", c.header, "x")
		if got := read(t, resp); resp.StatusCode != c.status {
			t.Errorf("condition %d answers %d: %s", i, resp.StatusCode, got)
		}
	}
	for _, c := range []struct {
		method, query, ranged string
		status                int
		want                  string
		header                map[string]string
	}{
		{"GET", "path=d/f.html", "", 200, "<script>0123456789", map[string]string{
			"Content-Length": "18", "Content-Type": "application/octet-stream", rest.ModeHeader: "0640", "X-Content-Type-Options": "nosniff", "Accept-Ranges": "bytes",
			"Content-Disposition": "attachment; filename=f.html", "Content-Security-Policy": "sandbox; default-src 'none'",
		}},
		{"HEAD", "path=d/f.html", "", 200, "", map[string]string{"Content-Length": "18", rest.ModeHeader: "0640"}},
		{"GET", "path=/workspace/d/f.html", "bytes=8-11", 206, "0123", map[string]string{"Content-Range": "bytes 8-11/18", "Content-Length": "4"}},
		{"GET", "path=d/f.html", "bytes=-2", 206, "89", map[string]string{"Content-Range": "bytes 16-17/18"}},
		{"GET", "path=d/f.html", "bytes=16-", 206, "89", nil},
		{"HEAD", "path=d/f.html", "bytes=8-11", 206, "", map[string]string{"Content-Range": "bytes 8-11/18", "Content-Length": "4"}},
		{"GET", "path=d/f.html", "bytes=18-", 416, "", map[string]string{"Content-Range": "bytes */18"}},
		{"GET", "path=d/f.html", "bytes=0-1,3-4", 416, "", nil},
		{"GET", "path=empty", "", 200, "", map[string]string{"Content-Length": "0"}},
		{"GET", "path=empty", "bytes=0-", 416, "", nil},
		{"GET", "path=d", "", 409, "", nil},
		{"GET", "path=none", "", 404, "", nil},
		{"HEAD", "path=none", "", 404, "", nil},
		{"GET", "", "", 400, "", nil},
		{"GET", "path=/etc/passwd", "", 400, "", nil},
	} {
		header := http.Header{}
		if c.ranged != "" {
			header.Set("Range", c.ranged)
		}
		resp := b.send(c.method, at+"raw?"+c.query, "alice", header, "")
		got := read(t, resp)
		if resp.StatusCode != c.status || c.status < 400 && string(got) != c.want {
			t.Errorf("%s %s %s answers %d: %s", c.method, c.query, c.ranged, resp.StatusCode, got)
		}
		for name, want := range c.header {
			if resp.Header.Get(name) != want {
				t.Errorf("%s %s %s: %s is %q, want %q", c.method, c.query, c.ranged, name, resp.Header.Get(name), want)
			}
		}
	}
	for query, want := range map[string]struct {
		status int
		media  string
	}{
		"path=d": {200, "application/x-tar"}, "path=d&format=tar.gz": {200, "application/gzip"}, "path=&format=zip": {200, "application/zip"}, "": {200, "application/x-tar"},
		"path=d&format=rar": {400, "application/json"}, "path=none": {404, "application/json"}, "path=..": {400, "application/json"}, "path=d&x=y": {400, "application/json"},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			resp := b.send(method, at+"archive?"+query, "alice", nil, "")
			if got := read(t, resp); resp.StatusCode != want.status || resp.Header.Get("Content-Type") != want.media {
				t.Errorf("%s archive %s answers %d, %s: %.100s", method, query, resp.StatusCode, resp.Header.Get("Content-Type"), got)
			}
		}
	}
	for _, c := range []struct{ method, path string }{{"GET", "raw?path=d/f.html"}, {"PUT", "raw?path=new"}, {"GET", "archive"}, {"GET", "space"}} {
		resp := b.send(c.method, at+c.path, "bob", nil, "")
		if read(t, resp); resp.StatusCode != 404 {
			t.Errorf("%s %s of another user answers %d", c.method, c.path, resp.StatusCode)
		}
	}
}

// A body larger than the workspace is refused by its Content-Length, or once it exceeds the limit.
func TestRawFileTooLarge(t *testing.T) {
	b := newEngine(t)
	var s belljar.Session
	b.ask(200, "POST", "/sessions", "alice", `{"spec_version": "1.0", "base_image": "host", "resources": {"workspace_mb": 1}}`, &s)
	for name, header := range map[string]http.Header{"announced": nil, "in chunks": {"Transfer-Encoding": {"chunked"}}} {
		resp := b.send("PUT", api.Prefix+"/sessions/"+s.ID+"/fs/raw?path=x", "alice", header, strings.Repeat("x", 1<<20+1))
		if got := read(t, resp); resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d %s", name, resp.StatusCode, got)
		}
	}
	b.ask(404, "POST", "/sessions/"+s.ID+"/fs/stat", "alice", `{"path": "x"}`, nil)
}

// unreadable is a workspace with a file that cannot be packed.
type unreadable struct{ belljar.Files }

func (unreadable) Archive(_ context.Context, _, _ string, _ belljar.UploadFormat, w io.Writer) error {
	_, _ = io.WriteString(w, "begun")
	return &belljar.Error{Code: belljar.CodeConflict, Message: "no permission", Details: map[string]any{"path": "d/secret"}}
}

// The log has the reason for an archive that breaks off.
func TestArchiveBreaksOff(t *testing.T) {
	var log bytes.Buffer
	w, opts, edge := worldly(func(_ *rest.Options, e *api.EdgeOptions) { e.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	w.workspace = unreadable{}
	h := handler(t, opts, edge)
	r := httptest.NewRequest("GET", prefix+"/sessions/x/fs/archive", nil)
	r.Header.Set("X-API-KEY", "alice")
	defer func() {
		if v := recover(); v != http.ErrAbortHandler || !strings.Contains(log.String(), `"err":"no permission","file":"d/secret"`) {
			t.Errorf("%v, log %s", v, log.String())
		}
	}()
	h.ServeHTTP(httptest.NewRecorder(), r)
}
