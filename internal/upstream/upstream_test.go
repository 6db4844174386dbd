package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/upstream"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

const token = "secret-token-of-the-server"

// serve starts a server and a guard of it that allows /a and paths below /b.
func serve(t *testing.T, h http.HandlerFunc, change func(*upstream.Options)) *upstream.Guard {
	t.Helper()
	s := httptest.NewServer(h)
	o := upstream.Options{URL: s.URL, Token: token, Patience: time.Minute, Allow: []upstream.Rule{
		{Methods: []string{"GET", "POST"}, Path: "/a"}, {Methods: []string{"GET"}, Path: "/b", Below: true},
		{Methods: []string{"GET"}, Path: "/healthz"}, {Methods: []string{"GET"}, Path: "/__meta/version"},
	}}
	if change != nil {
		change(&o)
	}
	g, err := upstream.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close(); s.CloseClientConnections(); s.Close() })
	return g
}

func json(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, body)
}

func TestAddresses(t *testing.T) {
	for _, good := range []string{"http://127.0.0.1:8080", "https://api.sprites.dev", "https://api.sprites.dev/base/", "http://[::1]:80/x", "http://a-b.internal", "https://10.0.0.1"} {
		if _, err := upstream.ParseURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "api.sprites.dev", "ftp://x", "file:///etc/passwd", "http://", "http://user@host", "http://user:pass@host", "http://@host", "http://host?x", "http://host?", "http://host#f", "http://host#",
		"http://host/../x", "http://host/a//b", "http://host/%2e%2e", "http://host/a%2fb", "http://host/a;b", "http://host:0", "http://host:65536", "http://host:", "http://host:http",
		"http://169.254.169.254", "http://0.0.0.0", "http://0", "http://2130706433", "http://0x7f000001", "http://0x7f.1", "http://127.1", "http://017700000001", "http://1.2.3.4.5", "http://256.1.1.1",
		"http://[::]", "http://[fe80::1]", "http://[fe80::1%25eth0]", "http://[ff02::1]", "http://[::ffff:169.254.169.254]", "http://[::ffff:0.0.0.0]", "http://[64:ff9b::7f00:1]", "http://[2002:7f00:1::]",
		"http://[2001::1]", "http://[::127.0.0.1]", "http://[fd00:ec2::254]", "http://255.255.255.255", "http://host name", "http://host\\evil", "http://ho\nst", "http://ⓔxample.com", "http://a..b",
	} {
		if u, err := upstream.ParseURL(bad); err == nil {
			t.Errorf("%q is accepted as %s", bad, u)
		}
	}
}

// A request that is not on the list does not leave this machine.
func TestAllowList(t *testing.T) {
	var seen atomic.Int32
	g := serve(t, func(w http.ResponseWriter, r *http.Request) { seen.Add(1); json(w, "{}") }, nil)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another server was asked") }))
	defer other.Close()
	base := g.URL("", nil)
	host := strings.TrimPrefix(base, "http://")
	for _, bad := range []string{
		"DELETE " + base + "/a", "POST " + base + "/b/x", "GET " + base + "/c", "GET " + base + "/a/x", "GET " + base + "/ab", "GET " + base + "/", "GET " + base,
		"GET " + base + "/b/../c", "GET " + base + "/b/%2e%2e/c", "GET " + base + "/b%2f..%2fc", "GET " + base + "/b//x", "GET " + base + "/b/%5c..%5cc", "GET " + base + "/b/a;b", "GET " + base + "/b/%00",
		"GET " + other.URL + "/a", "GET https://" + host + "/a", "GET http://user:pass@" + host + "/a", "GET http://127.0.0.1:1/a", "GET http://localhost/a",
	} {
		method, address, _ := strings.Cut(bad, " ")
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.RoundTrip(&http.Request{Method: method, URL: u, Header: http.Header{}})
		if upstream.ReasonOf(err) != upstream.Refused {
			t.Errorf("%s: %v", bad, err)
		}
	}
	u, _ := url.Parse(base + "/a")
	if _, err := g.RoundTrip(&http.Request{Method: "GET", URL: u, Host: "evil.example", Header: http.Header{}}); upstream.ReasonOf(err) != upstream.Refused {
		t.Errorf("another Host: %v", err)
	}
	if seen.Load() != 0 {
		t.Errorf("%d requests were sent", seen.Load())
	}
	for _, below := range []string{"/a", "/b", "/b/x/y"} {
		if _, err := g.Do(t.Context(), upstream.Call{Path: below}); err != nil {
			t.Errorf("%s: %v", below, err)
		}
	}
	if g.Circuit() != upstream.Closed {
		t.Errorf("refused requests count against the server: %s", g.Circuit())
	}
}

// A limit that one caller has reached does not block the others.
func TestLimitsOfOne(t *testing.T) {
	g := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, nil)
	for range 10 {
		if _, err := g.Do(t.Context(), upstream.Call{Method: "POST", Path: "/a"}); upstream.ReasonOf(err) != upstream.Unreachable || g.Circuit() != upstream.Closed {
			t.Fatalf("%v, and the circuit is %s", err, g.Circuit())
		}
	}
}

func TestHeaders(t *testing.T) {
	got := make(chan http.Header, 1)
	g := serve(t, func(w http.ResponseWriter, r *http.Request) { got <- r.Header; json(w, "{}") }, nil)
	req, err := http.NewRequestWithContext(t.Context(), "GET", g.URL("/a", nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"Authorization", "Cookie", "X-Api-Key", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "Proxy-Authorization", "Te", "Keep-Alive", "Upgrade", "Trailer", "X-Hop",
	} {
		req.Header.Set(name, "browser")
	}
	req.Header.Set("Connection", "X-Hop, keep-alive")
	req.Header.Set("X-Request-Id", "r-1")
	resp, err := g.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	h := <-got
	if h.Get("Authorization") != "Bearer "+token || h.Get("X-Request-Id") != "r-1" {
		t.Errorf("%v", h)
	}
	for name, values := range h {
		if slices.Contains(values, "browser") {
			t.Errorf("%s is sent on", name)
		}
	}
	if req.Header.Get("Cookie") != "browser" {
		t.Error("the caller's request was changed")
	}
}

// Each fault of a server has a reason, and no error contains its text.
func TestFaults(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		handle   http.HandlerFunc
		reason   upstream.Reason
		attempts int32
	}{
		"unauthorized": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(401)
			io.WriteString(w, "no "+r.Header.Get("Authorization"))
		}, upstream.Auth, 1},
		"forbidden": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403); json(w, `{"t":"`+token+`"}`) }, upstream.Auth, 1},
		"not found": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) }, upstream.BadPath, 1},
		"redirect":  {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, upstream.BadPath, 1},
		"to a file": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusTemporaryRedirect)
		}, upstream.BadPath, 1},
		"html":         {func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>"+token) }, upstream.BadPath, 1},
		"html as JSON": {func(w http.ResponseWriter, r *http.Request) { json(w, "<html>"+token) }, upstream.BadPath, 1},
		"503":          {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503); io.WriteString(w, token) }, upstream.Unreachable, 3},
		"429":          {func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Retry-After", "0"); w.WriteHeader(429) }, upstream.Unreachable, 3},
		"429, long": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(429)
		}, upstream.Unreachable, 1},
		"429, for ever": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "10000000000")
			w.WriteHeader(429)
		}, upstream.Unreachable, 1},
		"disconnect": {func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, upstream.Unreachable, 3},
		"cut": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			json(w, "{")
		}, upstream.Unreachable, 3},
		"long": {func(w http.ResponseWriter, r *http.Request) { json(w, `"`+strings.Repeat(token, 100)+`"`) }, upstream.Refused, 1},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 1024)); err != nil {
					return
				}
			}
		}, upstream.Refused, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			g := serve(t, func(w http.ResponseWriter, r *http.Request) { n.Add(1); c.handle(w, r) }, func(o *upstream.Options) { o.MaxBytes = 1000 })
			var into any
			_, err := g.Do(t.Context(), upstream.Call{Path: "/a", Into: &into})
			if upstream.ReasonOf(err) != c.reason || n.Load() != c.attempts {
				t.Errorf("%v after %d attempts, want %s after %d", err, n.Load(), c.reason, c.attempts)
			}
			if err != nil && (strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "127.0.0.1")) {
				t.Errorf("the error tells: %v", err)
			}
			n.Store(0)
			if _, err := g.Do(t.Context(), upstream.Call{Method: "POST", Path: "/a", Into: &into}); err == nil || n.Load() != 1 {
				t.Errorf("a POST: %v after %d attempts", err, n.Load())
			}
		})
	}
}

func TestSilence(t *testing.T) {
	release := make(chan struct{})
	g := serve(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}, func(o *upstream.Options) { o.Patience = 20 * time.Millisecond })
	defer close(release)
	_, err := g.Do(t.Context(), upstream.Call{Method: "POST", Path: "/a"})
	if upstream.ReasonOf(err) != upstream.Unreachable || !strings.Contains(err.Error(), "in time") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Do(ctx, upstream.Call{Path: "/a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A caller that leaves, for any reason, does not affect the server's state.
func TestCallersLeave(t *testing.T) {
	arrived := make(chan struct{}, 1)
	g := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	}, func(o *upstream.Options) { o.Breaker = &upstream.Breaker{Failures: 1} })
	for _, cause := range []error{nil, errors.New("the user has cancelled it")} {
		ctx, leave := context.WithCancelCause(t.Context())
		result := make(chan error, 1)
		go func() {
			_, err := g.Do(ctx, upstream.Call{Path: "/a"})
			result <- err
		}()
		<-arrived
		leave(cause)
		if err := <-result; !errors.Is(err, context.Cause(ctx)) || g.Circuit() != upstream.Closed {
			t.Errorf("%v: %v, and the circuit is %s", cause, err, g.Circuit())
		}
	}
}

// A name that resolves to a forbidden address, or to addresses of different classes, is refused. One resolution serves
// several requests.
func TestRebinding(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { json(w, "{}") }))
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	for name, c := range map[string]struct {
		scheme string
		addrs  []string
		ok     bool
	}{
		"loopback":           {"http", []string{"127.0.0.1"}, true},
		"mapped loopback":    {"http", []string{"::ffff:127.0.0.1"}, true},
		"metadata":           {"http", []string{"169.254.169.254"}, false},
		"mapped metadata":    {"http", []string{"::ffff:169.254.169.254"}, false},
		"translated":         {"http", []string{"64:ff9b::7f00:1"}, false},
		"6to4":               {"http", []string{"2002:7f00:1::"}, false},
		"link-local":         {"http", []string{"fe80::1"}, false},
		"one of two":         {"http", []string{"127.0.0.1", "169.254.169.254"}, false},
		"two networks":       {"http", []string{"127.0.0.1", "10.0.0.1"}, false},
		"public, in clear":   {"http", []string{"93.184.216.34"}, false},
		"public to loopback": {"https", []string{"93.184.216.34", "127.0.0.1"}, false},
		"nothing":            {"http", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			lookups := 0
			g, err := upstream.New(upstream.Options{
				URL: c.scheme + "://sandbox.example:" + port, Allow: []upstream.Rule{{Methods: []string{"GET"}, Path: "/a"}},
				Lookup: func(context.Context, string) (list []netip.Addr, err error) {
					lookups++
					for _, a := range c.addrs {
						list = append(list, netip.MustParseAddr(a))
					}
					return list, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			for range 3 { // over one resolution
				_, err = g.Do(t.Context(), upstream.Call{Path: "/a"})
				if (err == nil) != c.ok {
					t.Fatalf("%v", err)
				}
			}
			if c.ok && lookups != 1 {
				t.Errorf("%d lookups", lookups)
			}
		})
	}
}

func TestBreaker(t *testing.T) {
	now := time.Unix(1000, 0)
	b := &upstream.Breaker{Failures: 2, Rest: 10 * time.Second, Now: func() time.Time { return now }}
	state := func(want string) {
		t.Helper()
		if got := b.State(); got != want {
			t.Errorf("it is %s, not %s", got, want)
		}
	}
	allow := func(want bool) {
		t.Helper()
		if b.Allow() != want {
			t.Errorf("allowed is %v", !want)
		}
	}
	state(upstream.Closed)
	allow(true)
	b.Done(false)
	state(upstream.Closed)
	allow(true)
	b.Done(true) // a success resets the count
	allow(true)
	b.Done(false)
	allow(true)
	b.Done(false)
	state(upstream.Open)
	allow(false)
	now = now.Add(9 * time.Second)
	allow(false)
	now = now.Add(6 * time.Second)
	state(upstream.HalfOpen)
	allow(true)
	allow(false) // one at a time
	b.Done(false)
	state(upstream.Open)
	now = now.Add(15 * time.Second)
	allow(true)
	b.Forget()
	allow(true)
	b.Done(true)
	state(upstream.Closed)
	allow(true)
}

// While the circuit is open no request is sent, and one success closes it.
func TestCircuit(t *testing.T) {
	var seen atomic.Int32
	var well atomic.Bool
	now := atomic.Int64{}
	var noted []upstream.Observation
	g := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		if !well.Load() {
			w.WriteHeader(503)
			return
		}
		json(w, "{}")
	}, func(o *upstream.Options) {
		o.Breaker = &upstream.Breaker{Failures: 3, Rest: time.Hour, Now: func() time.Time { return time.Unix(now.Load(), 0) }}
		o.Observe = func(x upstream.Observation) { noted = append(noted, x) }
	})
	ask := func() error { _, err := g.Do(t.Context(), upstream.Call{Path: "/a"}); return err }
	if ask() == nil || g.Circuit() != upstream.Open || seen.Load() != 3 {
		t.Errorf("%s after %d", g.Circuit(), seen.Load())
	}
	if err := ask(); upstream.ReasonOf(err) != upstream.Unreachable || seen.Load() != 3 {
		t.Errorf("%v after %d", err, seen.Load())
	}
	well.Store(true)
	now.Add(7200)
	if g.Circuit() != upstream.HalfOpen || ask() != nil || g.Circuit() != upstream.Closed {
		t.Errorf("%s", g.Circuit())
	}
	if len(noted) != 4 || noted[0].Status != 503 || noted[0].Reason != upstream.Unreachable || noted[3].Status != 200 || noted[3].Reason != "" {
		t.Errorf("%+v", noted)
	}
}

func TestCheck(t *testing.T) {
	const ours = "0.1.0"
	for name, c := range map[string]struct {
		version, header, health string
		status                  int
		reason                  upstream.Reason
	}{
		"same":           {version: "0.1.0"},
		"patch":          {version: "0.1.7"},
		"header wins":    {version: "9.0.0", header: "0.1.1"},
		"older":          {version: "0.0.9", reason: upstream.VersionMismatch},
		"newer":          {version: "0.2.0", reason: upstream.VersionMismatch},
		"other number":   {version: "1.1.0", reason: upstream.VersionMismatch},
		"none":           {version: "", reason: upstream.VersionMismatch},
		"no number":      {version: "0.x", reason: upstream.VersionMismatch},
		"header differs": {version: "0.1.0", header: "2", reason: upstream.VersionMismatch},
		"auth":           {version: "0.1.0", status: 401, reason: upstream.Auth},
		"path":           {version: "0.1.0", status: 404, reason: upstream.BadPath},
		"page":           {version: "0.1.0", health: "<html>", reason: upstream.BadPath},
		"ill":            {version: "0.1.0", status: 500, reason: upstream.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			asked := atomic.Int32{}
			g := serve(t, func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				if c.status != 0 {
					w.WriteHeader(c.status)
					return
				}
				if r.URL.Path == "/healthz" {
					if c.health == "" {
						c.health = `{"status":"ok"}`
					}
					json(w, c.health)
					return
				}
				if c.header != "" {
					w.Header().Set(upstream.VersionHeader, c.header)
				}
				json(w, fmt.Sprintf(`{"version":%q}`, c.version))
			}, nil)
			var why []upstream.Reason
			check := upstream.NewCheck(upstream.CheckOptions{Guard: g, Version: ours, Observe: func(_ time.Duration, r upstream.Reason) { why = append(why, r) }})
			err := check.Ready(t.Context())
			if upstream.ReasonOf(err) != c.reason || (err == nil) != (c.reason == "") {
				t.Errorf("%v", err)
			}
			n := asked.Load()
			if again := check.Ready(t.Context()); again != err || asked.Load() != n || len(why) != 1 || why[0] != c.reason {
				t.Errorf("%v, %d requests more, %v", again, asked.Load()-n, why)
			}
			if f := (*upstream.Failure)(nil); errors.As(err, &f) && f.Hint() == "" {
				t.Error("no hint")
			}
		})
	}
	gone, err := upstream.New(upstream.Options{URL: "http://127.0.0.1:9", Allow: []upstream.Rule{{Methods: []string{"GET"}, Path: "/healthz"}}})
	if err != nil {
		t.Fatal(err)
	}
	err = upstream.NewCheck(upstream.CheckOptions{Guard: gone, Version: ours}).Ready(t.Context())
	if upstream.ReasonOf(err) != upstream.Unreachable || !strings.Contains(err.Error(), "refuses connections") {
		t.Errorf("%v", err)
	}
}
