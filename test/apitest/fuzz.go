package apitest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/api"
)

// Door registers its routes on a mux.
type Door interface{ Register(mux *http.ServeMux) }

// Handler returns the doors with the edge in front, as in a server.
func Handler(tb testing.TB, edge api.EdgeOptions, doors ...Door) http.Handler {
	tb.Helper()
	if edge.Logger == nil {
		edge.Logger = slog.New(alarm{slog.DiscardHandler})
	}
	front, err := api.NewEdge(edge)
	if err != nil {
		tb.Fatal(err)
	}
	mux := http.NewServeMux()
	for _, d := range doors {
		d.Register(mux)
	}
	return front.Wrap(mux)
}

// alarm turns a panic that the edge has caught into one that ends the test.
type alarm struct{ slog.Handler }

func (alarm) Enabled(context.Context, slog.Level) bool { return true }

func (alarm) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "door panicked" {
		return nil
	}
	var text strings.Builder
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintln(&text, a)
		return true
	})
	panic(text.String())
}

// recorder is a response writer with deadlines that do nothing.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetReadDeadline(time.Time) error  { return nil }
func (recorder) SetWriteDeadline(time.Time) error { return nil }

// Route is a route to fuzz: a method, a path with a query for when only other parts are fuzzed, and a valid body for the door.
type Route struct{ Method, Path, Body string }

// headers returns the headers that doors and the edge read.
func headers() []string {
	return []string{
		"Accept", "Content-Type", "Content-Encoding", "Content-Length", "Authorization", "Idempotency-Key", "Range", "If-Range", "If-None-Match",
		"Last-Event-Id", "Origin", "Host", "X-Forwarded-For", "X-Forwarded-Proto", "Traceparent", "X-Request-Id", "X-Belljar-Source",
		"X-Belljar-Model", "X-Belljar-Context-Id", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Upgrade", "Connection",
		"Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Protocol", "Sec-Websocket-Extensions", "Accept-Encoding",
	}
}

// FuzzQuery sends any query to each route of a door.
func FuzzQuery(f *testing.F, h http.Handler, routes []Route, seeds ...string) {
	for i := range routes {
		for _, seed := range append(seeds, "", "=", "a=b&a=c", "=&=null", "a%zz", "a;b", "limit=-1", "path=..%2f..", "token=x") {
			f.Add(uint8(i), seed)
		}
	}
	f.Fuzz(func(t *testing.T, route uint8, query string) {
		to := routes[int(route)%len(routes)]
		ask(t, h, to, query, nil, []byte(to.Body))
	})
}

// FuzzHeader sends two headers with any values to each route of a door.
func FuzzHeader(f *testing.F, h http.Handler, routes []Route, seeds ...string) {
	names := headers()
	for j := range names {
		for _, seed := range append(seeds, "", ", ,", "bytes=0-1,5-", "application/problem+json;q=\"", "text/event-stream", "multipart/form-data; boundary=\"x") {
			f.Add(uint8(j), uint8(j), seed, uint8(j+1), "x")
		}
	}
	for i := range routes {
		f.Add(uint8(i), uint8(i), "x", uint8(i+1), "x")
	}
	f.Fuzz(func(t *testing.T, route, first uint8, a string, second uint8, b string) {
		to := routes[int(route)%len(routes)]
		ask(t, h, to, "", [][2]string{{names[int(first)%len(names)], a}, {names[int(second)%len(names)], b}}, []byte(to.Body))
	})
}

// FuzzBody sends any body, with one of the media types that doors accept, to each route of a door.
func FuzzBody(f *testing.F, h http.Handler, routes []Route, seeds ...string) {
	types := []string{
		"", "application/json", "multipart/form-data; boundary=x", "application/x-tar", "application/gzip", "application/zip", "application/octet-stream", "text/plain",
	}
	const form = "--x\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a\"\r\n\r\nb\r\n--x--\r\n"
	for i, r := range routes {
		for _, seed := range append(seeds, r.Body, "", "{}", "[]", "{", `{"a":1}`, `{"path":"../x"}`) {
			f.Add(uint8(i), uint8(1), []byte(seed))
		}
		f.Add(uint8(i), uint8(2), []byte(form))
	}
	f.Fuzz(func(t *testing.T, route, kind uint8, body []byte) {
		ask(t, h, routes[int(route)%len(routes)], "", [][2]string{{"Content-Type", types[int(kind)%len(types)]}}, body)
	})
}

// ask sends a request of an operator. A panic, an internal error, or invalid JSON in a JSON response fails the test,
// whatever was sent.
func ask(t *testing.T, h http.Handler, to Route, query string, header [][2]string, body []byte) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second) // a stream may wait for events
	defer stop()
	r := httptest.NewRequestWithContext(ctx, to.Method, to.Path, strings.NewReader(string(body)))
	r.URL = &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: cmp.Or(query, r.URL.RawQuery)}
	r.Header.Set("X-API-KEY", "root")
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, line := range header {
		switch line[0] {
		case "Host":
			r.Host = line[1]
		default:
			r.Header[line[0]] = []string{line[1]}
		}
	}
	w := recorder{httptest.NewRecorder()}
	if !serve(h, w, r) {
		return
	}
	answer := w.Result()
	switch {
	case answer.StatusCode == http.StatusInternalServerError && ctx.Err() == nil: // after ctx ends, no client reads the answer
		t.Fatalf("%s %s?%q %q %q answers %d: %s", to.Method, to.Path, query, header, body, answer.StatusCode, w.Body)
	case answer.Header.Get("Content-Type") == "application/json" && to.Method != http.MethodHead && !json.Valid(w.Body.Bytes()):
		t.Fatalf("%s %s?%q %q %q answers %d with what is no JSON: %s", to.Method, to.Path, query, header, body, answer.StatusCode, w.Body)
	}
}

// serve reports false if the door has cut the connection.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (whole bool) {
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			panic(v)
		}
	}()
	h.ServeHTTP(w, r)
	return true
}
