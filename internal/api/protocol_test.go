package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/api"
)

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

// A refusal offers a WebSocket in the header of HTTP/1, where alone such a header is allowed.
func TestOfferedWebSocket(t *testing.T) {
	for major, offer := range map[int]string{1: "websocket Upgrade", 2: " "} {
		edge, _ := newEdge(t, api.EdgeOptions{})
		s := httptest.NewUnstartedServer(edge.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			api.Fail(w, r, api.RequireWebSocket(w, r, ""))
		})))
		s.EnableHTTP2 = major == 2
		s.StartTLS()
		t.Cleanup(s.Close)
		answer, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := answer.Header.Get("Upgrade") + " " + answer.Header.Get("Connection"); got != offer || answer.ProtoMajor != major || answer.StatusCode != 400 {
			t.Errorf("%s %s: %q, want %q", answer.Proto, answer.Status, got, offer)
		}
	}
}
