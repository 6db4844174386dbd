package api_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/linetest"
)

// send sends text and returns the first response, its body, and the error of the next read.
func send(t *testing.T, conn net.Conn, text string) (*http.Response, string, error) {
	t.Helper()
	defer conn.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(conn, text) // a response may arrive before all of it is sent
	}()
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
	_ = conn.Close()
	<-sent
	return answer, string(body), err
}

// withEdge wraps doors in an edge with the default limits.
func withEdge(t *testing.T, doors map[string]http.HandlerFunc) http.Handler {
	t.Helper()
	edge, _ := newEdge(t, api.EdgeOptions{})
	mux := http.NewServeMux()
	for path, door := range doors {
		mux.Handle(path, door)
	}
	return edge.Wrap(mux)
}

func TestHeadersAreBounded(t *testing.T) {
	linetest.Serve(t, func(*testing.T) http.Handler { return http.NotFoundHandler() }, func(t *testing.T, l *linetest.Line) {
		answer, _, _ := send(t, l.Dial(), "GET / HTTP/1.1\r\nHost: h\r\nX: "+strings.Repeat("x", 80<<10)+"\r\n\r\n")
		if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("80 KiB of headers: %d", answer.StatusCode)
		}
	})
}

// A client that stops in the middle of a body is disconnected, even if the door responds early or does not read it.
func TestSlowBodies(t *testing.T) {
	for path, want := range map[string]struct {
		status int
		within time.Duration // the connection must end
		text   string
	}{
		"/read": {400, 31 * time.Second, "too slowly"}, "/ignore": {401, time.Second, ""}, "/begin": {200, 31 * time.Second, "xx"},
	} {
		t.Run(path, func(t *testing.T) {
			linetest.Serve(t, func(t *testing.T) http.Handler {
				return withEdge(t, map[string]http.HandlerFunc{
					"/read":   reader(0),
					"/ignore": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
					"/begin":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 1<<16)) },
				})
			}, func(t *testing.T, l *linetest.Line) {
				begun := time.Now()
				answer, body, err := send(t, l.Dial(), "POST "+path+" HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nx")
				if took := time.Since(begun); err != io.EOF || took > want.within {
					t.Errorf("ends with %v after %v", err, took)
				}
				if answer.StatusCode != want.status || !strings.Contains(body, want.text) {
					t.Errorf("%d %.100q", answer.StatusCode, body)
				}
			})
		})
	}
}

// A client that sends one byte per second is never idle, but is below the minimum rate.
func TestTricklingBodies(t *testing.T) {
	linetest.Serve(t, func(t *testing.T) http.Handler { return withEdge(t, map[string]http.HandlerFunc{"/": reader(0)}) }, func(t *testing.T, l *linetest.Line) {
		conn := l.Dial()
		defer conn.Close()
		begun := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
			for err == nil {
				_, err = io.WriteString(conn, "x")
				<-time.After(time.Second)
			}
		}()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if took := time.Since(begun); err != nil || answer.StatusCode != 400 || took < 30*time.Second || took > time.Minute {
			t.Errorf("%v, %v after %v", answer, err, took)
		}
		_ = conn.Close()
		<-ended
	})
}

// The deadline of the body must not limit the response.
func TestLongAnswersAfterABody(t *testing.T) {
	door := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		select { // well after the deadline of the last read
		case <-r.Context().Done():
			t.Error("the request was given up")
		case <-time.After(time.Hour):
		}
		_, _ = io.WriteString(w, "done")
	}
	linetest.Serve(t, func(t *testing.T) http.Handler { return withEdge(t, map[string]http.HandlerFunc{"/": door}) }, func(t *testing.T, l *linetest.Line) {
		c := l.Client()
		defer c.CloseIdleConnections()
		answer, err := c.Post("http://line", "text/plain", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if b, err := io.ReadAll(answer.Body); err != nil || string(b) != "done" {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// A connection is reused long after the deadline of its last response.
func TestConnectionsAreUsedAgain(t *testing.T) {
	doors := map[string]http.HandlerFunc{
		"/some": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") },
		"/none": func(http.ResponseWriter, *http.Request) {},
		"/own": func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, "x")
		},
	}
	linetest.Serve(t, func(t *testing.T) http.Handler { return withEdge(t, doors) }, func(t *testing.T, l *linetest.Line) {
		conn := l.Dial()
		defer conn.Close()
		in := bufio.NewReader(conn)
		for _, path := range []string{"/some", "/none", "/own", "/none", "/some"} {
			if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(in, nil)
			if err != nil || answer.StatusCode != 200 {
				t.Fatalf("%s: %v", path, err)
			}
			if _, err := io.ReadAll(answer.Body); err != nil {
				t.Fatal(err)
			}
			<-time.After(100 * time.Second) // longer than the limit of a response, shorter than that of an idle connection
		}
	})
}

// A WebSocket outlives the deadlines of responses.
func TestWebSocketsThroughTheEdge(t *testing.T) {
	var recorder *recorder
	linetest.Serve(t, func(t *testing.T) http.Handler {
		var edge *api.Edge
		edge, recorder = newEdge(t, api.EdgeOptions{})
		mux := http.NewServeMux()
		mux.Handle("GET /echo/{id}", api.Guard(keyIsUser{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !edge.OriginAllowed(r) {
				http.Error(w, "origin", http.StatusForbidden)
				return
			}
			conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the edge has checked it
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.CloseNow()
			for {
				kind, text, err := conn.Read(r.Context())
				if err != nil {
					return
				}
				if err := conn.Write(r.Context(), kind, text); err != nil {
					t.Error(err)
				}
			}
		})))
		return edge.Wrap(mux)
	}, func(t *testing.T, l *linetest.Line) {
		c := l.Client()
		defer c.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		header := http.Header{"X-Api-Key": {"ann"}, "Origin": {"http://line"}}
		conn, _, err := websocket.Dial(ctx, "http://line/echo/1", &websocket.DialOptions{HTTPHeader: header, HTTPClient: c})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := conn.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
				t.Fatal(err)
			}
			if _, text, err := conn.Read(ctx); err != nil || string(text) != "hello" {
				t.Fatalf("%s, %v", text, err)
			}
			<-time.After(10 * time.Minute) // longer than any deadline of a response or a body
		}
		_ = conn.Close(websocket.StatusNormalClosure, "")
		header.Set("Origin", "http://evil.example")
		_, answer, err := websocket.Dial(ctx, "http://line/echo/1", &websocket.DialOptions{HTTPHeader: header, HTTPClient: c})
		if err == nil || answer.StatusCode != 403 {
			t.Errorf("another page: %v, %v", answer, err)
		}
	})
	lines := recorder.lines(t, "request")
	for _, line := range lines {
		if line["path"] != "/echo/{id}" || line["status"] != 101.0 && line["status"] != 403.0 {
			t.Errorf("log line: %v", line)
		}
	}
	if len(lines) != 2 {
		t.Errorf("%d log lines", len(lines))
	}
}
