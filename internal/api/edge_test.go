package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// recorder records events and log lines.
type recorder struct {
	mu     sync.Mutex
	log    bytes.Buffer
	events []event.Event
}

func (h *recorder) Record(e event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *recorder) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.Write(p)
}

func (h *recorder) lines(t *testing.T, msg string) []map[string]any {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []map[string]any
	for line := range strings.Lines(h.log.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if m["msg"] == msg {
			found = append(found, m)
		}
	}
	return found
}

func newEdge(t *testing.T, opts api.EdgeOptions) (*api.Edge, *recorder) {
	t.Helper()
	h := &recorder{}
	opts.Logger = slog.New(slog.NewJSONHandler(h, &slog.HandlerOptions{Level: slog.LevelDebug}))
	opts.Events = h
	e, err := api.NewEdge(opts)
	if err != nil {
		t.Fatal(err)
	}
	return e, h
}

// keyIsUser authenticates every request with an X-API-KEY; the key is the user's id.
type keyIsUser struct{}

func (keyIsUser) Authenticate(r *http.Request) (belljar.Caller, error) {
	name := r.Header.Get("X-API-KEY")
	if name == "" {
		return belljar.Caller{}, &belljar.Error{Code: belljar.CodeUnauthorized, Message: "not authenticated"}
	}
	c := belljar.Caller{ID: name, Role: belljar.RoleUser}
	if name == "root" {
		c.Role = belljar.RoleAdmin
	}
	return c, nil
}

func ask(h http.Handler, method, target string, header map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for name, value := range header {
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestEdgeSetsTheCaller(t *testing.T) {
	edge, recorder := newEdge(t, api.EdgeOptions{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	var got belljar.Caller
	mux := http.NewServeMux()
	mux.Handle("GET /runs/{id}", api.Guard(keyIsUser{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = api.CallerOf(r.Context())
		io.WriteString(w, "hello")
	})))
	w := ask(edge.Wrap(mux), "GET", "/runs/0198-abc?token=sesame", map[string]string{
		"X-API-KEY": "ann", "X-Request-Id": "req-1", "Traceparent": parent, "X-Belljar-Source": "IDE",
		"X-Belljar-Model": "some-model", "X-Belljar-Context-Id": "bad\x01", "X-Forwarded-For": "6.6.6.6, 203.0.113.9, 192.0.2.7",
	})
	want := belljar.Caller{
		ID: "ann", Role: belljar.RoleUser, Source: "IDE", Model: "some-model", Address: "203.0.113.9",
		RequestID: "req-1", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
	}
	if got != want {
		t.Errorf("caller is %+v, want %+v", got, want)
	}
	if w.Header().Get("X-Request-Id") != "req-1" || w.Header().Get("Traceparent") != parent {
		t.Errorf("answer's headers: %v", w.Header())
	}
	lines := recorder.lines(t, "request")
	if len(lines) != 1 {
		t.Fatalf("%d log lines", len(lines))
	}
	for name, value := range map[string]any{
		"method": "GET", "path": "/runs/{id}", "status": 200.0, "bytes": 5.0, "user_id": "ann",
		"request_id": "req-1", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "address": "203.0.113.9",
	} {
		if lines[0][name] != value {
			t.Errorf("log line has %s = %v, want %v", name, lines[0][name], value)
		}
	}
	if s := recorder.log.String(); strings.Contains(s, "sesame") || strings.Contains(s, "0198-abc") {
		t.Errorf("log has secrets: %s", s)
	}
	if len(recorder.events) != 1 || recorder.events[0].Kind != "GET /runs/{id}" || recorder.events[0].Reason != "200" || recorder.events[0].Caller != want {
		t.Errorf("events: %+v", recorder.events)
	}
}

// Every line of the audit trail names a source.
func TestEdgeNamesASource(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{})
	var got belljar.Caller
	h := edge.Wrap(api.Guard(keyIsUser{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = api.CallerOf(r.Context()) })))
	for header, want := range map[string]string{"": "rest", "MCP": "MCP"} {
		ask(h, "GET", "/", map[string]string{"X-API-KEY": "ann", "X-Belljar-Source": header})
		if got.ID != "ann" || got.Source != want {
			t.Errorf("header %q: source %q of %q, want %q", header, got.Source, got.ID, want)
		}
	}
}

func TestRouteOfAMuxBehindTheGuard(t *testing.T) {
	edge, recorder := newEdge(t, api.EdgeOptions{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /things/{id}", func(http.ResponseWriter, *http.Request) {})
	h := edge.Wrap(api.Guard(keyIsUser{}, mux))
	ask(h, "GET", "/things/7", map[string]string{"X-API-KEY": "ann"})
	ask(h, "GET", "/nothing/0198f2b2-7d1c-7000-8000-000000000000/x", map[string]string{"X-API-KEY": "ann"})
	lines := recorder.lines(t, "request")
	if lines[0]["path"] != "/things/{id}" || lines[1]["path"] != "/nothing/…/x" {
		t.Errorf("paths: %v, %v", lines[0]["path"], lines[1]["path"])
	}
	if recorder.events[1].Kind != "unmatched" {
		t.Errorf("route of nothing: %q", recorder.events[1].Kind)
	}
}

func TestRequestIDsFitForALog(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{})
	h := edge.Wrap(http.NotFoundHandler())
	for given, kept := range map[string]bool{
		"abc-123_X.y:z": true, strings.Repeat("a", 128): true, "": false, strings.Repeat("a", 129): false,
		"a b": false, "a\"b": false, "<script>": false, "é": false,
	} {
		got := ask(h, "GET", "/", map[string]string{"X-Request-Id": given}).Header().Get("X-Request-Id")
		if kept != (got == given) || got == "" {
			t.Errorf("id %q became %q", given, got)
		}
	}
}

func TestTraceparent(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{})
	var got string
	h := edge.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = api.CallerOf(r.Context()).TraceID }))
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for value, want := range map[string]string{
		parent:                      id,
		"01" + parent[2:]:           id,
		"cc" + parent[2:] + "-more": id,
		parent + "-more":            "",
		"cc" + parent[2:] + "x":     "",
		"ff" + parent[2:]:           "",
		strings.ToUpper(parent):     "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": "",
		parent[:54]: "", "": "", "00_" + parent[3:]: "", strings.Replace(parent, "f", "g", 1): "",
	} {
		got = "unset"
		w := ask(h, "GET", "/", map[string]string{"Traceparent": value})
		if got != want {
			t.Errorf("%q: trace %q, want %q", value, got, want)
		}
		if echo := w.Header().Get("Traceparent"); (echo == value && value != "") != (want != "") {
			t.Errorf("%q: echoed %q", value, echo)
		}
	}
}

func TestPanicsAreAnswered(t *testing.T) {
	edge, recorder := newEdge(t, api.EdgeOptions{})
	w := ask(edge.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret detail") })), "GET", "/", nil)
	if w.Code != 500 || strings.Contains(w.Body.String(), "secret") || !strings.Contains(w.Body.String(), `"internal"`) {
		t.Errorf("answer: %d %s", w.Code, w.Body)
	}
	line := recorder.lines(t, "door panicked")
	if len(line) != 1 || line[0]["panic"] != "secret detail" || !strings.Contains(line[0]["stack"].(string), "TestPanicsAreAnswered") {
		t.Errorf("log: %v", line)
	}
	if got := recorder.lines(t, "request"); len(got) != 1 || got[0]["status"] != 500.0 {
		t.Errorf("request line: %v", got)
	}

	aborted := func() (v any) {
		defer func() { v = recover() }()
		ask(edge.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "half an answ")
			panic("too late")
		})), "GET", "/", nil)
		return nil
	}()
	if aborted != http.ErrAbortHandler {
		t.Errorf("a half-made answer ended with %v, the client takes it for whole", aborted)
	}
}

// The log has the reason for a partial response, and the file, unless the client left.
func TestAbort(t *testing.T) {
	for level, failed := range map[string]*belljar.Error{
		"WARN":  {Code: belljar.CodeConflict, Message: "no permission", Details: map[string]any{"path": "d/secret"}},
		"DEBUG": {Code: belljar.CodeCanceled, Message: "the client stopped reading"},
	} {
		edge, recorder := newEdge(t, api.EdgeOptions{})
		server := httptest.NewServer(edge.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "half an answ")
			_ = http.NewResponseController(w).Flush()
			api.Abort(r.Context(), failed)
		})))
		resp, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); string(got) != "half an answ" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("body: %q, %v", got, err)
		}
		resp.Body.Close()
		server.Close() // the log is complete
		line := recorder.lines(t, "response broken off")
		if len(line) != 1 || line[0]["level"] != level || line[0]["err"] != failed.Message || line[0]["file"] != failed.Details["path"] || line[0]["request_id"] == nil {
			t.Errorf("%s: %v", level, line)
		}
	}
}

func TestHeaders(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{})
	w := ask(edge.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	})), "GET", "/", nil)
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
		"Content-Security-Policy": "frame-ancestors 'none'", "Referrer-Policy": "no-referrer",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestHostIsSane(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{})
	h := edge.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, ok := range map[string]bool{
		"localhost:8080": true, "[::1]:80": true, "a.example": true,
		"": false, "a b": false, "a/b": false, "u@h": false, "a\"": false, strings.Repeat("a", 256): false,
	} {
		w := ask(h, "GET", "/", map[string]string{"Host": host})
		if (w.Code == 200) != ok {
			t.Errorf("host %q: %d", host, w.Code)
		}
	}
}

func TestEdgeRefusesBadOptions(t *testing.T) {
	for _, opts := range []api.EdgeOptions{
		{PublicURL: "example.com"}, {PublicURL: "ftp://example.com"}, {PublicURL: "https://u:p@example.com"},
		{PublicURL: "https://example.com/?a"}, {PublicURL: "https://"},
		{AllowedOrigins: []string{"example.com"}}, {AllowedOrigins: []string{"https://*.example.com"}},
		{AllowedOrigins: []string{"https://example.com/path"}},
	} {
		if _, err := api.NewEdge(opts); err == nil {
			t.Errorf("%+v was accepted", opts)
		}
	}
}

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		public, host, proto, want, ws string
	}{
		{"", "h:1", "", "http://h:1/x?y=z", "ws://h:1/x?y=z"},
		{"", "h", "https", "https://h/x?y=z", "wss://h/x?y=z"},
		{"https://pub.example/base/", "h:1", "http", "https://pub.example/base/x?y=z", "wss://pub.example/base/x?y=z"},
	} {
		edge, _ := newEdge(t, api.EdgeOptions{PublicURL: c.public, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
		var got, ws string
		h := edge.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got, ws = edge.URL(r, "/x?y=z"), edge.WebSocketURL(r, "/x?y=z")
		}))
		ask(h, "GET", "/", map[string]string{"Host": c.host, "X-Forwarded-Proto": c.proto})
		if path := edge.BasePath(); strings.HasSuffix(path, "/") || !strings.HasSuffix(got, path+"/x?y=z") || (path == "") != (c.public == "") {
			t.Errorf("%+v: base path %q", c, path)
		}
		if got != c.want || ws != c.ws {
			t.Errorf("%+v: %s, %s", c, got, ws)
		}
	}
}

func TestForwardedForIsBelievedFromProxiesOnly(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, c := range []struct{ peer, header, want string }{
		{"198.51.100.1:5", "1.2.3.4", "198.51.100.1"},
		{"10.0.0.1:5", "", "10.0.0.1"},
		{"10.0.0.1:5", "1.2.3.4", "1.2.3.4"},
		{"10.0.0.1:5", "9.9.9.9, 1.2.3.4", "1.2.3.4"},
		{"10.0.0.1:5", "1.2.3.4, 10.9.9.9", "1.2.3.4"},
		{"10.0.0.1:5", "10.1.1.1, 10.9.9.9", "10.1.1.1"},
		{"10.0.0.1:5", "1.2.3.4, junk", "10.0.0.1"},
		{"10.0.0.1:5", "1.2.3.4:99", "1.2.3.4"},
		{"[fd00::1]:5", "[2001:db8::7]:99", "2001:db8::7"},
		{"[::ffff:10.0.0.1]:5", "1.2.3.4", "1.2.3.4"},
		{"@", "1.2.3.4", ""},
	} {
		edge, _ := newEdge(t, api.EdgeOptions{TrustedProxies: proxies})
		var got string
		h := edge.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = api.CallerOf(r.Context()).Address }))
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		r.Header.Set("X-Forwarded-For", c.header)
		h.ServeHTTP(httptest.NewRecorder(), r)
		if got != c.want {
			t.Errorf("%s with %q: %q, want %q", c.peer, c.header, got, c.want)
		}
	}
}

func TestInternalErrorsGoToTheLogOnly(t *testing.T) {
	edge, recorder := newEdge(t, api.EdgeOptions{})
	h := edge.Wrap(api.Guard(keyIsUser{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.Fail(w, r, errors.New("dsn password=hunter2"))
	})))
	w := ask(h, "GET", "/", map[string]string{"X-API-KEY": "ann", "X-Request-Id": "r9"})
	var got struct {
		Error struct {
			Code, Message string
			Details       map[string]any
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if w.Code != 500 || got.Error.Code != "internal" || got.Error.Details["request_id"] != "r9" || strings.Contains(w.Body.String(), "hunter2") {
		t.Errorf("answer: %d %s", w.Code, w.Body)
	}
	line := recorder.lines(t, "request failed inside")
	if len(line) != 1 || line[0]["err"] != "dsn password=hunter2" || line[0]["request_id"] != "r9" || line[0]["user_id"] != "ann" {
		t.Errorf("log: %v", line)
	}
}

// A request that ends because its credentials are revoked is not an internal error.
func TestRevokedIsAnswered(t *testing.T) {
	var uses api.Uses
	edge, recorder := newEdge(t, api.EdgeOptions{})
	h := edge.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		uses.Note(r.Context(), uses.Revoked(), "key")
		uses.End("key")
		<-r.Context().Done()
		api.Fail(w, r, fmt.Errorf("wait for a run: %w", r.Context().Err()))
	}))
	w := ask(h, "GET", "/", nil)
	if w.Code != 401 || w.Header().Get("Www-Authenticate") == "" || !strings.Contains(w.Body.String(), "credentials are no longer valid") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if lines := recorder.lines(t, "request failed inside"); len(lines) > 0 {
		t.Errorf("logged: %v", lines)
	}
}

func TestFail(t *testing.T) {
	cases := []struct {
		name        string
		err         error
		status      int
		header, val string
	}{
		{"later", &belljar.Error{Code: belljar.CodeRateLimited, Message: "m", Details: map[string]any{"retry_after_sec": 2.1}}, 429, "Retry-After", "3"},
		{"later, not when", &belljar.Error{Code: belljar.CodeQuotaExceeded, Message: "m"}, 429, "Retry-After", "1"},
		{"unavailable", &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "m", Details: map[string]any{"retry_after_sec": 7}}, 503, "Retry-After", "7"},
		{"never mind", &belljar.Error{Code: belljar.CodeRateLimited, Message: "m", Details: map[string]any{"retry_after_sec": -4}}, 429, "Retry-After", "1"},
		{"who", &belljar.Error{Code: belljar.CodeUnauthorized, Message: "m"}, 401, "Www-Authenticate", `Bearer realm="belljar"`},
		{"bad", &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "m"}, 400, "Retry-After", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			api.Fail(w, httptest.NewRequest("GET", "/", nil), c.err)
			if w.Code != c.status || w.Header().Get(c.header) != c.val {
				t.Errorf("%d, %s: %q", w.Code, c.header, w.Header().Get(c.header))
			}
		})
	}
	t.Run("no details", func(t *testing.T) {
		w := httptest.NewRecorder()
		api.Fail(w, httptest.NewRequest("GET", "/", nil), &belljar.Error{Code: belljar.CodeForbidden, Message: "m"})
		if want := `{"error":{"code":"forbidden","message":"m","details":{}}}` + "\n"; w.Body.String() != want {
			t.Errorf("got %s", w.Body)
		}
	})
	t.Run("problem", func(t *testing.T) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", "application/problem+json, application/json;q=0.5")
		w := httptest.NewRecorder()
		api.Fail(w, r, &belljar.Error{
			Code: belljar.CodeInvalidSpecVersion, Message: "Unsupported spec_version '0.9'",
			Details: map[string]any{"provided": "0.9", "code": "forged"}, Hint: "use 1.0",
		})
		want := `{"detail":"Unsupported spec_version '0.9'","extensions":{"code":"invalid_spec_version","hint":"use 1.0","provided":"0.9"},` +
			`"status":400,"title":"invalid spec version","type":"urn:belljar:error:invalid_spec_version"}` + "\n"
		if w.Body.String() != want || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("got %s %s", w.Header(), w.Body)
		}
	})
	t.Run("angle brackets", func(t *testing.T) {
		w := httptest.NewRecorder()
		api.Fail(w, httptest.NewRequest("GET", "/", nil), &belljar.Error{Code: belljar.CodeUnauthorized, Message: "m", Hint: "send Bearer <key> & more"})
		if !strings.Contains(w.Body.String(), `"send Bearer <key> & more"`) {
			t.Errorf("a person cannot read %s", w.Body)
		}
	})
	t.Run("client gone", func(t *testing.T) {
		edge, recorder := newEdge(t, api.EdgeOptions{})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
		edge.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { api.Fail(w, r, r.Context().Err()) })).ServeHTTP(httptest.NewRecorder(), r)
		if line := recorder.lines(t, "request failed inside"); line[0]["level"] != "DEBUG" {
			t.Errorf("a client that left is an error: %v", line)
		}
	})
}

// clock is a manual clock.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}
