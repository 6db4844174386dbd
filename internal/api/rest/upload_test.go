package rest_test

import (
	"bytes"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/linetest"
	"github.com/belljar/belljar/internal/api/rest"
)

// withSession adds session-1, of alice.
func (b *bench) withSession() *bench {
	b.world.sessions["session-1"] = belljar.Session{ID: "session-1", UserID: "alice", State: belljar.SessionActive}
	return b
}

const filesPath = prefix + "/sessions/session-1/files"

func (b *bench) upload(query, contentType, body string) (int, string) {
	b.t.Helper()
	resp := b.send("POST", filesPath+query, "alice", http.Header{"Content-Type": {contentType}}, body)
	return resp.StatusCode, string(read(b.t, resp))
}

// form returns a multipart body of parts, each a field name, a file name and content.
func form(t *testing.T, parts ...[3]string) (contentType, body string) {
	t.Helper()
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	for _, p := range parts {
		h := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + p[0] + `"; filename="` + p[1] + `"`}}
		if p[1] == "" {
			h = textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + p[0] + `"`}}
		}
		part, err := w.CreatePart(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(part, p[2]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), buf.String()
}

func TestUpload(t *testing.T) {
	multi, body := form(t, [3]string{"files", "src/main.py", "print()"}, [3]string{"files[]", "b.tar.gz", "gz"}, [3]string{"files", "C.ZIP", "zip"}, [3]string{"files", "d.tgz", "tgz"}, [3]string{"files", "e.tar", "tar"})
	tests := map[string]struct {
		query, contentType, body string
		want                     map[string]string
	}{
		"multipart":          {"", multi, body, map[string]string{"file:src/main.py": "print()", "tar.gz:b.tar.gz": "gz", "zip:C.ZIP": "zip", "tar.gz:d.tgz": "tgz", "tar:e.tar": "tar"}},
		"multipart, as is":   {"?extract=false&dir=in", multi, body, map[string]string{"in/file:src/main.py": "print()", "in/file:b.tar.gz": "gz", "in/file:C.ZIP": "zip", "in/file:d.tgz": "tgz", "in/file:e.tar": "tar"}},
		"tar":                {"?dir=a/b", "application/x-tar", "tar", map[string]string{"a/b/tar:": "tar"}},
		"GNU tar":            {"", "application/x-gtar", "tar", map[string]string{"tar:": "tar"}},
		"packed GNU tar":     {"", "application/x-gtar-compressed", "gz", map[string]string{"tar.gz:": "gz"}},
		"gzip":               {"", "application/gzip", "gz", map[string]string{"tar.gz:": "gz"}},
		"zip":                {"", "application/zip", "zip", map[string]string{"zip:": "zip"}},
		"an archive, as is":  {"?path=x.zip", "application/zip", "zip", map[string]string{"file:x.zip": "zip"}},
		"one file":           {"?path=in/data.bin", "application/octet-stream", "\x00\xff", map[string]string{"file:in/data.bin": "\x00\xff"}},
		"one file, any type": {"?path=a.png", "image/png", "png", map[string]string{"file:a.png": "png"}},
		"one file, empty":    {"?path=empty", "text/plain", "", map[string]string{"file:empty": ""}},
	}
	for name, test := range tests {
		b := newBench(t).withSession()
		if status, answer := b.upload(test.query, test.contentType, test.body); status != http.StatusOK {
			t.Errorf("%s answers %d: %s", name, status, answer)
		}
		if !maps.Equal(b.world.files, test.want) {
			t.Errorf("%s brought %q, want %q", name, b.world.files, test.want)
		}
	}
}

func TestUploadRefused(t *testing.T) {
	multi, body := form(t, [3]string{"files", "a", strings.Repeat("x", 1000)})
	part := func(field, name string) (string, string) { return form(t, [3]string{field, name, "x"}) }
	b := newBench(t).withSession()
	refused := func(name, query, contentType, body, want string) {
		t.Helper()
		status, answer := b.upload(query, contentType, body)
		if status != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("%s answers %d: %s, want %s", name, status, answer, want)
		}
	}
	refused("no place", "", "application/octet-stream", "x", `"field":"path"`)
	refused("no place for text", "", "text/plain", "x", `"field":"path"`)
	refused("another type", "", "application/json", "{}", `"field":"Content-Type"`)
	refused("no real type", "", "x/y/z", "{}", `"field":"Content-Type"`)
	refused("no boundary", "", "multipart/form-data", body, "without a boundary")
	refused("a place for many", "?path=x", multi, body, `"field":"path"`)
	refused("a strange query", "?paht=x", multi, body, `"did_you_mean":"path"`)
	refused("neither true nor false", "?extract=maybe", multi, body, `"field":"extract"`)
	refused("cut off", "", multi, body[:len(body)/2], "cannot be read")
	refused("cut off in a header", "", multi, body[:30], "cannot be read")
	refused("another body", "", multi, "hello", "cannot be read")
	refused("no parts", "", "multipart/form-data; boundary=x", "--x--\r\n", "cannot be read")
	for name, want := range map[string]string{
		"../a": `"field":"files[0].filename"`, "/etc/passwd": "outside /workspace", "a/../../b": "must not contain ..", "..": "..", ".": "the workspace itself", "/workspace": "the workspace itself",
	} {
		contentType, body := part("files", name)
		refused("the name "+name, "", contentType, body, want)
		refused("the path "+name, "?path="+name, "application/octet-stream", "x", `"field":"path"`)
	}
	refused("a NUL", "?path=a%00b", "application/octet-stream", "x", "NUL")
	contentType, field := part("fiels", "a")
	refused("a field of another name", "", contentType, field, `"did_you_mean":"files"`)
	contentType, field = part("files", "")
	refused("a part without a name", "", contentType, field, "has no file name")
	if len(b.world.files) > 0 {
		t.Errorf("brought %q", b.world.files)
	}
}

func TestUploadTooLarge(t *testing.T) {
	b := newBench(t, func(o *rest.Options, _ *api.EdgeOptions) { o.MaxUpload = 1000 }).withSession()
	const most = 1000 + 2<<20 // with the overhead of a form
	multi, body := form(t, [3]string{"files", "a", strings.Repeat("x", most)})
	for name, send := range map[string]func() (int, string){
		"multipart": func() (int, string) { return b.upload("", multi, body) },
		"a file": func() (int, string) {
			return b.upload("?path=a", "application/octet-stream", strings.Repeat("x", most+1))
		},
	} {
		if status, answer := send(); status != http.StatusRequestEntityTooLarge || !strings.Contains(answer, "payload_too_large") || !strings.Contains(answer, `"maximum":`) {
			t.Errorf("%s answers %d: %s", name, status, answer)
		}
	}
	if status, answer := b.upload("?path=a", "application/octet-stream", strings.Repeat("x", most)); status != http.StatusOK {
		t.Errorf("just enough answers %d: %s", status, answer)
	}
}

// TestUploadEncoded: a Content-Encoding is refused, since the server would store the encoded bytes.
func TestUploadEncoded(t *testing.T) {
	b := newBench(t).withSession()
	for coding, want := range map[string]int{"gzip": 400, "x": 400, "identity": 200} {
		resp := b.send("POST", filesPath+"?path=a", "alice", http.Header{"Content-Type": {"text/plain"}, "Content-Encoding": {coding}}, "x")
		if answer := string(read(t, resp)); resp.StatusCode != want || want == 400 && !strings.Contains(answer, `"field":"Content-Encoding"`) {
			t.Errorf("%s answers %d: %s", coding, resp.StatusCode, answer)
		}
	}
}

// TestUploadStreams: the service gets a part before the next byte is sent.
func TestUploadStreams(t *testing.T) {
	b := newBench(t).withSession()
	first := make(chan string, 1)
	b.world.onPart = func(name string) { first <- name }
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	done := make(chan error, 1)
	go func() {
		part, err := form.CreateFormFile("files", "first")
		if err == nil {
			_, err = io.WriteString(part, "1")
		}
		if err == nil {
			_, err = form.CreateFormFile("files", "second") // ends the first
		}
		select {
		case name := <-first:
			if name != "first" {
				t.Errorf("%s came first", name)
			}
		case <-b.context().Done():
			t.Error("the first part waits for the second")
		}
		if err == nil {
			err = form.Close()
		}
		done <- err
		_ = w.CloseWithError(err)
	}()
	req, err := http.NewRequestWithContext(b.context(), "POST", b.url+filesPath, r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", "alice")
	req.Header.Set("Content-Type", form.FormDataContentType())
	resp, err := b.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if body := read(t, resp); resp.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"file_count":2`)) {
		t.Errorf("answers %d: %s", resp.StatusCode, body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestSlowBodies: a client that stops sending gets an error.
func TestSlowBodies(t *testing.T) {
	onLine(t, func(t *testing.T, b *bench, l *linetest.Line) {
		b.withSession()
		for _, request := range []string{
			"POST " + prefix + "/runs HTTP/1.1\r\nHost: x\r\nX-API-KEY: alice\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"comm",
			"POST " + filesPath + "?path=a HTTP/1.1\r\nHost: x\r\nX-API-KEY: alice\r\nContent-Type: application/octet-stream\r\nContent-Length: 100\r\n\r\nabc",
			"POST " + filesPath + " HTTP/1.1\r\nHost: x\r\nX-API-KEY: alice\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n--x\r\n",
		} {
			conn := l.Dial()
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 400")) || !bytes.Contains(answer, []byte("came too slowly")) {
				t.Errorf("%.40q hears %q, %v", request, answer, err)
			}
			_ = conn.Close()
		}
	})
}
