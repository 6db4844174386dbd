package preview

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/linetest"
)

func newDoor(t testing.TB, dial func(context.Context, string) (net.Conn, error)) *Door {
	t.Helper()
	d, err := New(Options{
		Domain: "preview.example.net", Dial: dial,
		Open: func(label string, tokens ...string) (belljar.Preview, error) {
			if label != "abc" {
				return belljar.Preview{}, &belljar.Error{Code: belljar.CodeNotFound}
			}
			if !slices.Contains(tokens, "token") {
				return belljar.Preview{}, &belljar.Error{Code: belljar.CodeUnauthorized}
			}
			return belljar.Preview{Label: label, Port: 3000}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestLabel(t *testing.T) {
	d := newDoor(t, func(context.Context, string) (net.Conn, error) { return nil, errors.New("no") })
	for host, want := range map[string]string{
		"abc.preview.example.net": "abc", "ABC.Preview.Example.NET:8443": "abc", "abc.preview.example.net.": "abc", "abc.preview.example.net.:1": "abc",
		"preview.example.net": "", "preview.example.net.": "", "a.b.preview.example.net": "", ".preview.example.net": "",
	} {
		if label, ours := d.label(host); !ours || label != want {
			t.Errorf("%s: %q, %v", host, label, ours)
		}
	}
	for _, host := range []string{"", "example.net", "xpreview.example.net", "preview.example.net.evil.example", "127.0.0.1:80", "[::1]:80", "[::1]", "abc"} {
		if label, ours := d.label(host); ours {
			t.Errorf("%s: %q", host, label)
		}
	}
}

// If a program cannot be reached, the response is a sentence, not the API's JSON.
func TestFail(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		status int
		text   string
	}{
		"no listener": {&belljar.Error{Code: belljar.CodeNotFound, Details: map[string]any{"port": 3000}}, 502, "No program listens on port 3000"},
		"ended":       {&belljar.Error{Code: belljar.CodeConflict}, 502, "has ended"},
		"busy":        {&belljar.Error{Code: belljar.CodeQuotaExceeded}, 503, "too many connections"},
		"broken":      {errors.New("secret"), 502, "did not answer"},
	} {
		d := newDoor(t, func(context.Context, string) (net.Conn, error) { return nil, tt.err })
		r := httptest.NewRequest("GET", "http://abc.preview.example.net/", nil)
		r.Header.Set("Cookie", cookieName+"=token")
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.text) || strings.Contains(w.Body.String(), "secret") || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestToken(t *testing.T) {
	d := newDoor(t, func(context.Context, string) (net.Conn, error) { return nil, errors.New("no") })
	for name, tt := range map[string]struct {
		method, path string
		status       int
		location     string
	}{
		"good":             {"GET", "/?belljar_token=token", 303, "/"},
		"with more":        {"GET", "/a%20b?x=1&belljar_token=token&y=2", 303, "/a%20b?x=1&y=2"},
		"to another host":  {"GET", "//evil.example?belljar_token=token", 303, "/evil.example"},
		"with a backslash": {"GET", "/%5Cevil.example?belljar_token=token", 303, "/%5Cevil.example"},
		"as it is written": {"GET", "//evil.example/a%2Fb?x=2&belljar%5Ftoken=token&a=1;z&%zz", 303, "/evil.example/a%2Fb?x=2&a=1;z&%zz"},
		"wrong":            {"GET", "/?belljar_token=x", 401, ""},
		"two":              {"GET", "/?belljar_token=x&belljar_token=token", 401, ""},
		"in a form":        {"POST", "/?belljar_token=token", 405, ""},
	} {
		r := httptest.NewRequest(tt.method, "http://abc.preview.example.net/", nil)
		r.URL.RawPath, r.URL.RawQuery, _ = strings.Cut(tt.path, "?")
		r.URL.Path, _ = url.PathUnescape(r.URL.RawPath)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if w.Code != tt.status || w.Header().Get("Location") != tt.location || (w.Header().Get("Set-Cookie") != "") != (tt.status == 303) {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
}

// TestTrailer checks that trailers lose the same fields as headers.
func TestTrailer(t *testing.T) {
	d := newDoor(t, func(context.Context, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			_, _ = http.ReadRequest(bufio.NewReader(far))
			_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Set-Cookie\r\n\r\n1\r\nx\r\n0\r\n"+
				"Set-Cookie: a=b; Domain=example.net\r\nClear-Site-Data: \"*\"\r\nX-Sum: 1\r\n\r\n")
			far.Close()
		}()
		return near, nil
	})
	r := httptest.NewRequest(http.MethodGet, "http://abc.preview.example.net/", nil)
	r.AddCookie(&http.Cookie{Name: cookieName, Value: "token"})
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	got := w.Result()
	if body, _ := io.ReadAll(got.Body); string(body) != "x" {
		t.Fatalf("%d %q", got.StatusCode, body)
	}
	for _, h := range []http.Header{w.Header(), got.Trailer} {
		for name := range h {
			if name = strings.TrimPrefix(name, http.TrailerPrefix); name == "Set-Cookie" || name == "Clear-Site-Data" {
				t.Errorf("%s reaches the browser", name)
			}
		}
	}
	if got.Trailer.Get("X-Sum")+w.Header().Get(http.TrailerPrefix+"X-Sum") == "" {
		t.Errorf("another trailer is lost: %v", w.Header())
	}
}

func TestForeign(t *testing.T) {
	for name, tt := range map[string]struct {
		method string
		header http.Header
		want   bool
	}{
		"no browser":      {"POST", http.Header{}, false},
		"own":             {"POST", http.Header{"Origin": {"https://abc.preview.example.net"}}, false},
		"sibling":         {"GET", http.Header{"Origin": {"https://b.preview.example.net"}, "Sec-Fetch-Site": {"same-origin"}}, true},
		"null":            {"POST", http.Header{"Origin": {"null"}}, true},
		"null, own":       {"POST", http.Header{"Origin": {"null"}, "Sec-Fetch-Site": {"same-origin"}, "Sec-Fetch-Mode": {"navigate"}}, false},
		"null, sibling":   {"POST", http.Header{"Origin": {"null"}, "Sec-Fetch-Site": {"same-site"}, "Sec-Fetch-Mode": {"navigate"}}, true},
		"null, a frame":   {"GET", http.Header{"Origin": {"null"}, "Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"cors"}}, true},
		"null and own":    {"POST", http.Header{"Origin": {"null", "https://abc.preview.example.net"}, "Sec-Fetch-Site": {"same-origin"}}, true},
		"two":             {"GET", http.Header{"Origin": {"https://abc.preview.example.net", "https://evil.example"}}, true},
		"typed":           {"GET", http.Header{"Sec-Fetch-Site": {"none"}, "Sec-Fetch-Mode": {"navigate"}}, false},
		"link":            {"GET", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}, false},
		"form of another": {"POST", http.Header{"Sec-Fetch-Site": {"same-site"}, "Sec-Fetch-Mode": {"navigate"}}, true},
		"image":           {"GET", http.Header{"Sec-Fetch-Site": {"same-site"}, "Sec-Fetch-Mode": {"no-cors"}}, true},
	} {
		r := httptest.NewRequest(tt.method, "https://abc.preview.example.net/", nil)
		r.Header = tt.header
		if got := foreign(r); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// FuzzCookie checks with Go's parser that no cookie reaches beyond its host or has Belljar's name.
func FuzzCookie(f *testing.F) {
	for _, seed := range []string{
		"a=b", "a=b; Domain=example.net; Path=/", "a=b;DOMAIN = x;Secure", cookieName + "=x", "=" + cookieName + "=x", cookieName, ";a=b", "a=b;;domain",
		"a=b; domain=x; domain=y", " " + cookieName + " =x", "a=\"b; Domain=x\"", "a=b\x00; domain=x", "\t=1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := confineCookie(text)
		if !ok {
			return
		}
		if again, ok := confineCookie(got); !ok || again != got {
			t.Errorf("%q, then %q, %v", got, again, ok)
		}
		if c, err := http.ParseSetCookie(got); err == nil && (c.Domain != "" || strings.EqualFold(c.Name, cookieName)) {
			t.Errorf("%q became %+v", text, c)
		}
	})
}

// FuzzRequest sends any path, query, cookie and host to the door. It must respond to each, and must never redirect to
// another host.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{"/?" + tokenParameter + "=token", "//evil.example/?" + tokenParameter + "=token", `/\evil.example?` + tokenParameter + "=token&a=b", "/%2f%2fevil.example?" + tokenParameter + "=token", "/?a;b", "/?%zz"} {
		path, query, _ := strings.Cut(seed, "?")
		f.Add(path, query, cookieName+"=token", "abc.preview.example.net")
	}
	f.Add("/", "", "", "preview.example.net:8443")
	f.Add("/", "", cookieName+"=x; "+cookieName+"=token", "ABC.preview.example.net.")
	d := newDoor(f, func(context.Context, string) (net.Conn, error) { return nil, errors.New("no") })
	f.Fuzz(func(t *testing.T, path, query, cookie, host string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path, r.URL.RawQuery, r.Host = path, query, host
		r.Header.Set("Cookie", cookie)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusUnauthorized, http.StatusBadGateway:
		case http.StatusSeeOther:
			to, err := r.URL.Parse(w.Header().Get("Location"))
			if err != nil || to.Host != "" || to.Scheme != "" || strings.HasPrefix(w.Header().Get("Location"), "//") || to.Query().Has(tokenParameter) {
				t.Errorf("%q?%q redirects to %q: %v", path, query, w.Header().Get("Location"), err)
			}
		default:
			t.Errorf("%q?%q %q at %q: %d %s", path, query, cookie, host, w.Code, w.Body)
		}
	})
}

// FuzzHide checks that a program never gets Belljar's cookie, but gets all others.
func FuzzHide(f *testing.F) {
	f.Add("a=b; " + cookieName + "=x; c=d")
	f.Add(cookieName + "=x;" + strings.ToUpper(cookieName) + " =y")
	f.Add("=;;a")
	f.Fuzz(func(t *testing.T, text string) {
		h := http.Header{"Cookie": {text, "kept=1"}}
		hideCookie(h)
		r := &http.Request{Header: h}
		for _, c := range r.Cookies() {
			if strings.EqualFold(c.Name, cookieName) {
				t.Errorf("%q became %q", text, h.Get("Cookie"))
			}
		}
		if len(r.CookiesNamed("kept")) == 0 {
			t.Errorf("%q lost the other: %q", text, h.Get("Cookie"))
		}
	})
}

// half is a pipe that can end one direction, like TCP.
type half struct{ net.Conn }

func (half) CloseWrite() error { return nil }

// TestStalled closes the door while a client does nothing: its connection must not keep the server from stopping.
func TestStalled(t *testing.T) {
	const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	flood := func(far net.Conn) {
		_, _ = far.Write(make([]byte, 1<<20)) // more than all buffers hold
	}
	for name, tt := range map[string]struct {
		headers, answer string
		program         func(far net.Conn) // after the answer
		live            bool               // the door stays open: a client that stalls for a minute ends
	}{
		"the program sends":            {upgrade, "HTTP/1.1 101 Switching Protocols\r\n" + upgrade, flood, false},
		"the program sends on":         {upgrade, "HTTP/1.1 101 Switching Protocols\r\n" + upgrade, flood, true},
		"the program has ended":        {upgrade, "HTTP/1.1 101 Switching Protocols\r\n" + upgrade, func(net.Conn) {}, false},
		"the program has ended before": {upgrade, "HTTP/1.1 101 Switching Protocols\r\n" + upgrade, func(net.Conn) {}, true},
		"a download":                   {"", "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n", flood, false},
	} {
		t.Run(name, func(t *testing.T) {
			var d *Door
			var served, seen chan struct{}
			linetest.Serve(t, func(t *testing.T) http.Handler {
				served, seen = make(chan struct{}), make(chan struct{})
				d = newDoor(t, func(context.Context, string) (net.Conn, error) {
					near, far := net.Pipe()
					go func() {
						defer far.Close()
						_, _ = http.ReadRequest(bufio.NewReader(far))
						_, _ = io.WriteString(far, tt.answer+"\r\n")
						<-seen // the proxy flushes the head under a mutex, which the fake clock does not know
						tt.program(far)
					}()
					return half{near}, nil
				})
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer close(served)
					if tt.headers != "" {
						w = &api.ConnWrapper{ResponseWriter: w, Wrap: func(c net.Conn) net.Conn { return half{c} }}
					}
					d.ServeHTTP(w, r)
				})
			}, func(t *testing.T, l *linetest.Line) {
				begun := time.Now()
				c := l.Dial()
				defer c.Close()
				_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: abc.preview.example.net\r\nCookie: "+cookieName+"=token\r\n"+tt.headers+"\r\n")
				if got, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil); err != nil || (got.StatusCode == 101) != (tt.headers != "") {
					t.Fatal(got, err)
				}
				close(seen)
				synctest.Wait()
				limit := idleTime
				if !tt.live {
					limit = closeTime
					d.Close()
				}
				<-served
				if took := time.Since(begun); took > limit {
					t.Errorf("ended after %v", took)
				}
			})
		})
	}
}
