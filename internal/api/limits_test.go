package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

func newClock() *clock { return &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func TestBuckets(t *testing.T) {
	at := newClock()
	b := api.NewBuckets(60, 2, at.now)
	for i := range 60 {
		if wait := b.Take("a"); wait != 0 {
			t.Fatalf("token %d: wait %v", i, wait)
		}
	}
	if wait := b.Peek("a"); wait != time.Second {
		t.Errorf("empty: wait %v", wait)
	}
	at.pass(500 * time.Millisecond)
	if wait := b.Take("a"); wait != 500*time.Millisecond {
		t.Errorf("half a token: wait %v", wait)
	}
	at.pass(500 * time.Millisecond)
	if first, second := b.Peek("a"), b.Peek("a"); first != 0 || second != 0 || b.Take("a") != 0 || b.Take("a") == 0 {
		t.Error("one token is not one")
	}
	// Two keys are tracked: b and c evict a, which then has a full bucket.
	if b.Take("b") != 0 || b.Take("c") != 0 || b.Take("a") != 0 {
		t.Error("an evicted key does not get a full bucket")
	}
	at.pass(time.Hour)
	for range 60 {
		b.Take("a")
	}
	if b.Take("a") == 0 {
		t.Error("a bucket holds more than a minute's worth")
	}
	var none *api.Buckets
	if none.Take("x") != 0 || api.NewBuckets(0, 0, nil).Take("x") != 0 {
		t.Error("no limit is one")
	}
}

// door returns a handler wrapped in an edge, limits and a guard.
func door(t *testing.T, opts api.LimitsOptions, proxies ...netip.Prefix) (http.Handler, *api.Limits) {
	t.Helper()
	limits := api.NewLimits(opts)
	edge, _ := newEdge(t, api.EdgeOptions{Limits: limits, Now: opts.Now, TrustedProxies: proxies})
	return edge.Wrap(api.Guard(limits.Guarded(keyIsUser{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			if err := limits.Connect(r); err != nil {
				api.Fail(w, r, err)
			}
		}
	}))), limits
}

func call(h http.Handler, address, user string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = address
	if user != "" {
		r.Header.Set("X-API-KEY", user)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestLimitPerUser(t *testing.T) {
	at := newClock()
	h, _ := door(t, api.LimitsOptions{PerUser: 2, Now: at.now})
	for i, want := range []int{200, 200, 429} {
		if w := call(h, fmt.Sprintf("192.0.2.%d:1", i), "ann"); w.Code != want {
			t.Fatalf("request %d: %d", i, w.Code)
		}
	}
	w := call(h, "192.0.2.1:1", "ann")
	if w.Header().Get("Retry-After") != "30" || !strings.Contains(w.Body.String(), `"rate_limited"`) || !strings.Contains(w.Body.String(), `"scope":"user"`) {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
	if w := call(h, "192.0.2.1:1", "bob"); w.Code != 200 {
		t.Errorf("bob pays for ann: %d", w.Code)
	}
	for range 5 {
		if w := call(h, "192.0.2.1:1", "root"); w.Code != 200 {
			t.Errorf("an operator: %d", w.Code)
		}
	}
	at.pass(30 * time.Second)
	if w := call(h, "192.0.2.1:1", "ann"); w.Code != 200 {
		t.Errorf("after Retry-After: %d", w.Code)
	}
}

func TestLimitPerAddress(t *testing.T) {
	at := newClock()
	h, _ := door(t, api.LimitsOptions{PerAddress: 2, Now: at.now}, netip.MustParsePrefix("10.0.0.0/8"))
	for i, want := range []int{401, 200, 429, 429} { // for every caller, authenticated or not
		user := []string{"", "ann", "bob", "root"}[i]
		if w := call(h, "192.0.2.1:1", user); w.Code != want {
			t.Errorf("request %d: %d", i, w.Code)
		}
	}
	for i, want := range []int{200, 200, 429} {
		if w := call(h, fmt.Sprintf("[2001:db8::%d]:1", i+1), "ann"); w.Code != want {
			t.Errorf("request %d of a network: %d", i, w.Code)
		}
	}
	for i, want := range []int{200, 200, 429} {
		if w := call(h, "10.0.0.1:1", "ann", "X-Forwarded-For", "198.51.100.1"); w.Code != want {
			t.Errorf("request %d through a proxy: %d", i, w.Code)
		}
	}
	for range 5 {
		for _, own := range []string{"127.0.0.1:1", "[::1]:1", "@"} {
			if w := call(h, own, "ann"); w.Code != 200 {
				t.Errorf("%s: %d", own, w.Code)
			}
		}
	}
}

func TestLimitOfWebSockets(t *testing.T) {
	at := newClock()
	h, limits := door(t, api.LimitsOptions{PerUser: 4, Connects: 2, Now: at.now})
	for i, want := range []int{200, 200, 429} {
		if w := call(h, "192.0.2.1:1", "ann", "Upgrade", "WebSocket"); w.Code != want {
			t.Errorf("connection %d: %d", i, w.Code)
		}
	}
	// Every request for a WebSocket also counts as a request.
	for i, want := range []int{200, 429} {
		if w := call(h, "192.0.2.1:1", "ann", "Upgrade", []string{"", "websocket"}[i]); w.Code != want || want == 429 && !strings.Contains(w.Body.String(), `"user"`) {
			t.Errorf("request %d in addition to connections: %d %s", i, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r = r.WithContext(api.WithCaller(r.Context(), belljar.Caller{Address: "192.0.2.5"}))
	if first, second := limits.Connect(r), limits.Connect(r); first != nil || second != nil || limits.Connect(r) == nil {
		t.Error("strangers are not counted by address")
	}
	var none *api.Limits
	if none.Connect(r) != nil || none.Guarded(keyIsUser{}) != api.Authenticator(keyIsUser{}) {
		t.Error("no limits are some")
	}
}

// TestLimitOfOpenRequests checks that the open requests of one caller, or one address, leave room for others. Each counts until it
// ends.
func TestLimitOfOpenRequests(t *testing.T) {
	limits := api.NewLimits(api.LimitsOptions{Open: 2})
	edge, _ := newEdge(t, api.EdgeOptions{Limits: limits})
	inside, end := make(chan struct{}), make(chan struct{})
	handler := edge.Wrap(api.Guard(limits.Guarded(keyIsUser{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			inside <- struct{}{}
			<-end
		}
	})))
	for scope, held := range map[string][2][2]string{ // address and user
		"user":    {{"192.0.2.1:1", "ann"}, {"192.0.2.2:1", "ann"}},
		"address": {{"192.0.2.3:1", "bob"}, {"192.0.2.3:1", "cleo"}},
	} {
		var wait sync.WaitGroup
		for _, one := range held {
			wait.Go(func() { call(handler, one[0], one[1], "Upgrade", "websocket") })
			<-inside
		}
		again := held[1]
		if scope == "user" {
			again[0] = "127.0.0.1:1"
		} else {
			again[1] = "dan"
		}
		w := call(handler, again[0], again[1])
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), fmt.Sprintf(`"scope":%q`, scope)) {
			t.Errorf("%s: one more: %d %v %s", scope, w.Code, w.Header(), w.Body)
		}
		for _, other := range [][2]string{{"192.0.2.9:1", "eve"}, {"127.0.0.1:1", "root"}} {
			if w := call(handler, other[0], other[1]); w.Code != http.StatusOK {
				t.Errorf("%s: another pays for it: %d %s", scope, w.Code, w.Body)
			}
		}
		end <- struct{}{}
		end <- struct{}{}
		wait.Wait()
		if w := call(handler, again[0], again[1]); w.Code != http.StatusOK {
			t.Errorf("%s: after the others: %d %s", scope, w.Code, w.Body)
		}
	}
}

func TestOrigins(t *testing.T) {
	for _, c := range []struct {
		name    string
		allowed []string
		public  string
		origin  []string
		want    bool
	}{
		{"no browser", nil, "", nil, true},
		{"own page", nil, "", []string{"http://example.com"}, true},
		{"own page, explicit port", nil, "", []string{"http://example.com:80"}, true},
		{"own host, other scheme", nil, "", []string{"https://example.com"}, false},
		{"own host, other port", nil, "", []string{"http://example.com:81"}, false},
		{"other page", nil, "", []string{"http://evil.example"}, false},
		{"own host as a beginning", nil, "", []string{"http://example.com.evil.example"}, false},
		{"credentials in front", nil, "", []string{"http://example.com@evil.example"}, false},
		{"null", nil, "", []string{"null"}, false},
		{"empty", nil, "", []string{""}, false},
		{"two", nil, "", []string{"http://example.com", "http://evil.example"}, false},
		{"listed", []string{"https://ide.example"}, "", []string{"https://ide.example"}, true},
		{"listed, in capitals", []string{"https://IDE.example/"}, "", []string{"https://ide.EXAMPLE"}, true},
		{"sub of listed", []string{"https://ide.example"}, "", []string{"https://x.ide.example"}, false},
		{"all", []string{"*"}, "", []string{"http://evil.example"}, true},
		{"public URL", nil, "https://pub.example/x", []string{"https://pub.example"}, true},
		{"not the public URL", nil, "https://pub.example/x", []string{"http://example.com"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			edge, _ := newEdge(t, api.EdgeOptions{AllowedOrigins: c.allowed, PublicURL: c.public})
			r := httptest.NewRequest("GET", "/", nil)
			r.Header["Origin"] = c.origin
			if c.origin == nil {
				r.Header.Del("Origin")
			}
			if got := edge.OriginAllowed(r); got != c.want {
				t.Errorf("allowed: %v", got)
			}
		})
	}
}

func TestCORS(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{AllowedOrigins: []string{"https://ide.example"}})
	open, _ := newEdge(t, api.EdgeOptions{AllowedOrigins: []string{"*", "https://ide.example"}})
	guarded := api.Guard(keyIsUser{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	preflight := map[string]string{"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "idempotency-key"}
	for _, c := range []struct {
		name, method, origin string
		edge                 *api.Edge
		header               map[string]string
		status               int
		allow, credentials   string
	}{
		{"preflight of a listed page", "OPTIONS", "https://ide.example", edge, preflight, 204, "https://ide.example", "true"},
		{"preflight of another", "OPTIONS", "https://evil.example", edge, preflight, 204, "", ""},
		{"preflight, all may", "OPTIONS", "https://evil.example", open, preflight, 204, "*", ""},
		{"preflight, all may, listed", "OPTIONS", "https://ide.example", open, preflight, 204, "https://ide.example", "true"},
		{"call of a listed page", "GET", "https://ide.example", edge, map[string]string{"X-API-KEY": "ann"}, 200, "https://ide.example", "true"},
		{"call of another", "GET", "https://evil.example", edge, map[string]string{"X-API-KEY": "ann"}, 200, "", ""},
		{"no preflight", "OPTIONS", "https://ide.example", edge, nil, 401, "https://ide.example", "true"},
		{"no page", "GET", "", edge, map[string]string{"X-API-KEY": "ann"}, 200, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := map[string]string{}
			maps.Copy(header, c.header)
			if c.origin != "" {
				header["Origin"] = c.origin
			}
			w := ask(c.edge.Wrap(guarded), c.method, "/", header)
			h := w.Header()
			if w.Code != c.status || h.Get("Access-Control-Allow-Origin") != c.allow || h.Get("Access-Control-Allow-Credentials") != c.credentials {
				t.Errorf("%d %v", w.Code, h)
			}
			if c.origin != "" && !strings.Contains(strings.Join(h.Values("Vary"), ","), "Origin") {
				t.Error("Vary does not name Origin")
			}
			if exposed := h.Get("Access-Control-Expose-Headers"); c.status == 200 && c.allow != "" && !strings.Contains(exposed, "X-Belljar-Mode") {
				t.Errorf("exposed: %s", exposed)
			}
			for _, name := range []string{"Idempotency-Key", "Mcp-Method", "Mcp-Name"} {
				if c.status == 204 && c.allow != "" && !strings.Contains(h.Get("Access-Control-Allow-Headers"), name) {
					t.Errorf("headers without %s: %v", name, h)
				}
			}
		})
	}
}

// TestRefusedPages checks that a page can read a rate limit error and when to retry, and that its preflights pass.
func TestRefusedPages(t *testing.T) {
	edge, _ := newEdge(t, api.EdgeOptions{
		AllowedOrigins: []string{"https://ide.example"}, Limits: api.NewLimits(api.LimitsOptions{PerAddress: 1, Now: newClock().now}),
	})
	h := edge.Wrap(api.Guard(keyIsUser{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	page := map[string]string{"Origin": "https://ide.example", "X-API-KEY": "ann"}
	for i, want := range []int{200, 429} {
		got := ask(h, "GET", "/", page)
		if got.Code != want || got.Header().Get("Access-Control-Allow-Origin") != page["Origin"] {
			t.Errorf("request %d: %d %v", i, got.Code, got.Header())
		}
	}
	preflight := map[string]string{"Origin": "https://ide.example", "Access-Control-Request-Method": "GET"}
	if got := ask(h, "OPTIONS", "/", preflight); got.Code != 204 || got.Header().Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("preflight: %d %v", got.Code, got.Header())
	}
}
