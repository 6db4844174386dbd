package api_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belljar/belljar"
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

// A handshake that the WebSocket library would refuse in plain text gets the API's envelope.
func TestMalformedHandshake(t *testing.T) {
	const key = "dGhlIHNhbXBsZSBub25jZQ=="
	for name, c := range map[string]struct {
		proto, version string
		keys           []string
		field          string
	}{
		"good":           {"HTTP/1.1", "13", []string{key}, ""},
		"HTTP/1.0":       {"HTTP/1.0", "13", []string{key}, "Upgrade"},
		"older version":  {"HTTP/1.1", "8", []string{key}, "Sec-WebSocket-Version"},
		"no version":     {"HTTP/1.1", "", []string{key}, "Sec-WebSocket-Version"},
		"no key":         {"HTTP/1.1", "13", nil, "Sec-WebSocket-Key"},
		"two keys":       {"HTTP/1.1", "13", []string{key, key}, "Sec-WebSocket-Key"},
		"short key":      {"HTTP/1.1", "13", []string{"YQ=="}, "Sec-WebSocket-Key"},
		"key not base64": {"HTTP/1.1", "13", []string{"!"}, "Sec-WebSocket-Key"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Proto = c.proto
		r.ProtoMajor, r.ProtoMinor, _ = http.ParseHTTPVersion(c.proto)
		r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Key": c.keys}
		if c.version != "" {
			r.Header.Set("Sec-WebSocket-Version", c.version)
		}
		w := httptest.NewRecorder()
		err := api.RequireWebSocket(w, r, "")
		if c.field == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != belljar.CodeInvalidRequest || e.Details["field"] != c.field || e.Hint == "" {
			t.Errorf("%s: %#v, want field %s", name, err, c.field)
		}
		if offered := w.Header().Get("Sec-WebSocket-Version") == "13"; offered != (c.field == "Sec-WebSocket-Version") {
			t.Errorf("%s: header %v", name, w.Header())
		}
	}
}
