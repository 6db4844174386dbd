package api_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar/internal/api"
)

func TestWebSocketsThroughTheEdge(t *testing.T) {
	edge, heard := newEdge(t, api.EdgeOptions{WriteIdle: 500 * time.Millisecond})
	mux := http.NewServeMux()
	mux.Handle("GET /echo/{id}", api.Guard(somebody{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !edge.OriginAllowed(r) {
			http.Error(w, "origin", http.StatusForbidden)
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the edge has looked
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
	s := serve(t, edge.Wrap(mux))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	header := http.Header{"X-Api-Key": {"ann"}, "Origin": {s.URL}}
	conn, _, err := websocket.Dial(ctx, s.URL+"/echo/1", &websocket.DialOptions{HTTPHeader: header})
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
		<-time.After(600 * time.Millisecond) // longer than any deadline of an answer
	}
	conn.Close(websocket.StatusNormalClosure, "")
	header.Set("Origin", "http://evil.example")
	if _, answer, err := websocket.Dial(ctx, s.URL+"/echo/1", &websocket.DialOptions{HTTPHeader: header}); err == nil || answer.StatusCode != 403 {
		t.Errorf("another page: %v, %v", answer, err)
	}
	s.Close()
	for _, line := range heard.lines(t, "request") {
		if line["path"] != "/echo/{id}" || line["status"] != 101.0 && line["status"] != 403.0 {
			t.Errorf("log line: %v", line)
		}
	}
}

func TestHTTP2(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{MaxBody: 100})
	s := httptest.NewUnstartedServer(edge.Wrap(reader(0)))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	for size, status := range map[int]int{100: 200, 101: 413} {
		answer, err := s.Client().Post(s.URL, "text/plain", strings.NewReader(strings.Repeat("x", size)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != status || answer.ProtoMajor != 2 {
			t.Errorf("%d bytes: %s %s %s, %v", size, answer.Proto, answer.Status, text, err)
		}
	}
}
