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

	"github.com/belljar/belljar/internal/api"
)

// reader is a door that reads the whole body and says how long it was.
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
	edge, _ := newEdge(t, api.EdgeOptions{MaxBody: 10})
	mux := http.NewServeMux()
	mux.Handle("/plain", reader(0))
	mux.Handle("/more", reader(100))
	mux.Handle("/less", reader(5))
	s := serve(t, edge.Wrap(mux))
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
			answer, err := http.Post(s.URL+c.path, "text/plain", body)
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

// raw sends bytes and returns the first answer and what the connection says after it.
func raw(t *testing.T, s *httptest.Server, text string) (*http.Response, string, error) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, err = in.ReadByte()
	return answer, string(body), err
}

func TestSlowBodies(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{BodyIdle: 50 * time.Millisecond})
	mux := http.NewServeMux()
	mux.Handle("/read", reader(0))
	mux.Handle("/ignore", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	mux.Handle("/begin", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // answers before it has read
		io.WriteString(w, strings.Repeat("x", 1<<16))
	}))
	s := serve(t, edge.Wrap(mux))
	for path, status := range map[string]int{"/read": 400, "/ignore": 401, "/begin": 200} {
		answer, body, err := raw(t, s, "POST "+path+" HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nx")
		if answer.StatusCode != status || !errors.Is(err, io.EOF) && !strings.Contains(fmt.Sprint(err), "reset") {
			t.Errorf("%s: %d, then %v", path, answer.StatusCode, err)
		}
		if path == "/read" && !strings.Contains(body, "too slowly") {
			t.Errorf("answer: %s", body)
		}
	}
}

// A bound on the body's pace must not be one on the answer's.
func TestLongAnswersAfterABody(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{BodyIdle: 20 * time.Millisecond})
	s := serve(t, edge.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		select { // well past the deadline of the last read
		case <-r.Context().Done():
			t.Error("the request was given up")
		case <-time.After(200 * time.Millisecond):
		}
		io.WriteString(w, "done")
	})))
	answer, err := http.Post(s.URL, "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if b, err := io.ReadAll(answer.Body); err != nil || string(b) != "done" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestTricklingBodies(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{BodyIdle: 100 * time.Millisecond, MinBodyRate: 1 << 20})
	s := serve(t, edge.Wrap(reader(0)))
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() { // a byte every now and then, never idle for long
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if _, err := io.WriteString(conn, "x"); err != nil {
					return
				}
			}
		}
	}()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	close(stop)
	<-ended
	if err != nil || answer.StatusCode != 400 {
		t.Errorf("%v, %v", answer, err)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	s := serve(t, http.NotFoundHandler())
	answer, _, _ := raw(t, s, "GET / HTTP/1.1\r\nHost: h\r\nX: "+strings.Repeat("x", 80<<10)+"\r\n\r\n")
	if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("80 KiB of headers: %d", answer.StatusCode)
	}
}

func TestWriterCanWhatIsBeneath(t *testing.T) {
	edge, heard := newEdge(t, api.EdgeOptions{})
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
	for _, line := range heard.lines(t, "request") {
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
		_, err := w.Write(make([]byte, 256<<20))
		ended <- err
	})
	mux.HandleFunc("/copy", func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(w, io.LimitReader(zeros{}, 256<<20))
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

// A connection is used again long after the deadline of its last answer.
func TestConnectionsAreUsedAgain(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{WriteIdle: 500 * time.Millisecond})
	mux := http.NewServeMux()
	mux.HandleFunc("/some", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "x") })
	mux.HandleFunc("/none", func(w http.ResponseWriter, r *http.Request) {})
	mux.HandleFunc("/own", func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		io.WriteString(w, "x")
	})
	s := serve(t, edge.Wrap(mux))
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, path := range []string{"/some", "/none", "/own", "/none", "/some"} {
		io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n")
		answer, err := http.ReadResponse(in, nil)
		if err != nil || answer.StatusCode != 200 {
			t.Fatalf("%s: %v", path, err)
		}
		if _, err := io.ReadAll(answer.Body); err != nil {
			t.Fatal(err)
		}
		<-time.After(600 * time.Millisecond)
	}
}

func TestLimitBodyWithoutAnEdge(t *testing.T) {
	w := httptest.NewRecorder()
	reader(3)(w, httptest.NewRequest("POST", "/", strings.NewReader("four")))
	if w.Code == 200 {
		t.Errorf("read %s", w.Body)
	}
}
