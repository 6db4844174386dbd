package api_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/linetest"
)

// reader is a door that reads the whole body and responds with its length.
func reader(limit int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if limit > 0 {
			api.LimitBody(w, r, limit)
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			api.Fail(w, r, err)
			return
		}
		fmt.Fprint(w, len(b))
	}
}

func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.Config = api.NewServer(h, nil)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func TestBodiesAreBounded(t *testing.T) {
	linetest.Serve(t, func(t *testing.T) http.Handler {
		edge, _ := newEdge(t, api.EdgeOptions{MaxBody: 10})
		mux := http.NewServeMux()
		mux.Handle("/plain", reader(0))
		mux.Handle("/more", reader(100))
		mux.Handle("/less", reader(5))
		return edge.Wrap(mux)
	}, boundedBodies)
}

func boundedBodies(t *testing.T, l *linetest.Line) {
	client := l.Client()
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		path   string
		size   int
		status int
	}{
		{"/plain", 0, 200}, {"/plain", 10, 200}, {"/plain", 11, 413}, {"/plain", 1 << 20, 413},
		{"/more", 100, 200}, {"/more", 101, 413}, {"/less", 5, 200}, {"/less", 6, 413},
	} {
		for _, chunked := range []bool{false, true} {
			var body io.Reader = strings.NewReader(strings.Repeat("x", c.size))
			if chunked {
				body = io.MultiReader(body)
			}
			answer, err := client.Post("http://line"+c.path, "text/plain", body)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || answer.StatusCode != c.status {
				t.Errorf("%s with %d bytes: %d %s %v", c.path, c.size, answer.StatusCode, text, err)
			}
			if c.status == 200 && string(text) != fmt.Sprint(c.size) {
				t.Errorf("%s with %d bytes: read %s", c.path, c.size, text)
			}
			if c.status == 413 && !strings.Contains(string(text), "payload_too_large") {
				t.Errorf("%s: %s", c.path, text)
			}
		}
	}
}

// Many clients send the whole body before they read. A reset would destroy the response.
func TestRefusedUploadKeepsItsResponse(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{MaxBody: 10})
	s := serve(t, edge.Wrap(reader(0)))
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const size = 64 << 20 // more than sockets hold
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: line\r\nContent-Length: %d\r\n\r\n", size)
	if n, err := io.CopyN(conn, zeros{}, size); err != nil {
		t.Fatalf("reset after %d bytes: %v", n, err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), "payload_too_large") {
		t.Errorf("%s: %s, %v", response.Status, text, err)
	}
}

// The rest of a refused body is not read forever.
func TestRefusedUploadEnds(t *testing.T) {
	linetest.Serve(t, func(t *testing.T) http.Handler {
		edge, _ := newEdge(t, api.EdgeOptions{MaxBody: 10})
		return edge.Wrap(reader(0))
	}, func(t *testing.T, l *linetest.Line) {
		for name, pause := range map[string]time.Duration{"steady": 500 * time.Millisecond, "stalled": time.Hour} {
			conn, begun := l.Dial(), time.Now()
			fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: line\r\nContent-Length: 1000000000\r\n\r\n")
			go func() {
				for {
					if _, err := conn.Write(make([]byte, 1<<10)); err != nil {
						return
					}
					select {
					case <-t.Context().Done():
						return
					case <-time.After(pause):
					}
				}
			}()
			response, err := io.ReadAll(conn) // ends when the server closes
			if took := time.Since(begun); err != nil || !strings.Contains(string(response), "payload_too_large") || took > 15*time.Second {
				t.Errorf("%s: %v: %s, %v", name, took, response, err)
			}
			conn.Close()
		}
	})
}

func TestWriterKeepsFlushAndHijack(t *testing.T) {
	edge, recorder := newEdge(t, api.EdgeOptions{})
	mux := http.NewServeMux()
	mux.HandleFunc("/flush", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "a")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		w.(http.Flusher).Flush()
		io.Copy(w, strings.NewReader("bc"))
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\nraw")
		conn.Close()
	})
	done := make(chan struct{}, 2)
	h := edge.Wrap(mux)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		done <- struct{}{}
	}))
	answer, err := http.Get(s.URL + "/flush")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || string(b) != "abc" {
		t.Errorf("%q, %v", b, err)
	}
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /hijack HTTP/1.1\r\nHost: h\r\n\r\n")
	if b, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(b), "\r\n\r\nraw") {
		t.Errorf("%q, %v", b, err)
	}
	<-done
	<-done
	got := map[any]any{}
	for _, line := range recorder.lines(t, "request") {
		got[line["path"]] = []any{line["status"], line["bytes"]}
	}
	if fmt.Sprint(got) != "map[/flush:[200 3] /hijack:[101 0]]" {
		t.Errorf("log: %v", got)
	}
}

func TestSlowReaders(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{WriteIdle: 50 * time.Millisecond})
	ended := make(chan error, 2)
	mux := http.NewServeMux()
	mux.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		_, err := w.Write(make([]byte, 32<<20))
		ended <- err
	})
	mux.HandleFunc("/copy", func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(w, io.LimitReader(zeros{}, 32<<20))
		ended <- err
	})
	s := serve(t, edge.Wrap(mux))
	for _, path := range []string{"/write", "/copy"} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n") // and reads nothing
		select {
		case err := <-ended:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v", path, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s waits for ever", path)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestWholeAnswers(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{})
	const size = 3<<20 + 17
	name := filepath.Join(t.TempDir(), "f")
	text := strings.Repeat("0123456789abcdef", size/16) + "x"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, name) })
	mux.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, text) })
	mux.HandleFunc("/copy", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, strings.NewReader(text)) })
	mux.HandleFunc("/exact", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, strings.NewReader(text[:2<<20])) })
	s := serve(t, edge.Wrap(mux))
	for path, want := range map[string]string{"/file": text, "/write": text, "/copy": text, "/exact": text[:2<<20]} {
		answer, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
	r, err := http.NewRequest("GET", s.URL+"/file", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Range", "bytes=5-1500000")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got, err := io.ReadAll(answer.Body); err != nil || string(got) != text[5:1500001] {
		t.Errorf("range: %d bytes, %v", len(got), err)
	}
}

func TestLimitBodyWithoutAnEdge(t *testing.T) {
	w := httptest.NewRecorder()
	reader(3)(w, httptest.NewRequest("POST", "/", strings.NewReader("four")))
	if w.Code == 200 {
		t.Errorf("read %s", w.Body)
	}
}

// A compressed body is refused because of its header, not as invalid JSON.
func TestReadBodyEncoding(t *testing.T) {
	for coding, refused := range map[string]bool{"": false, "identity": false, "gzip": true, "br": true} {
		r := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
		r.Header.Set("Content-Encoding", coding)
		_, _, err := (*api.Shares)(nil).ReadBody(httptest.NewRecorder(), r, 10)
		if refused != (belljar.CodeOf(err) == belljar.CodeInvalidRequest) || refused != strings.Contains(fmt.Sprint(err), "content encoding") {
			t.Errorf("%q: %v", coding, err)
		}
	}
}
