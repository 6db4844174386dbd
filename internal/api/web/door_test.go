package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/belljar/belljar/internal/api"
	built "github.com/belljar/belljar/web"
)

const page = `<base href="__BASE__"><meta name="csp-nonce" content="__NONCE__"><p>page`

func squeezed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const script = "console.log('script')"

// newServer returns a server with the page, stand-ins for other doors, and the edge in front.
func newServer(t *testing.T, public string) http.Handler {
	t.Helper()
	edge, err := api.NewEdge(api.EdgeOptions{PublicURL: public})
	if err != nil {
		t.Fatal(err)
	}
	door, err := New(Options{BasePath: edge.BasePath(), Files: fstest.MapFS{
		"index.html":                 {Data: []byte(page)},
		"icon.svg.gz":                {Data: squeezed(t, "<svg/>")},
		"assets/main-1a.js.gz":       {Data: squeezed(t, script)},
		"assets/_style-2b.css.gz":    {Data: squeezed(t, "p{}")},
		"assets/inner/font.woff2.gz": {Data: squeezed(t, "font")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	door.Register(mux)
	for _, prefix := range []string{"/api/v1/sandbox/", "/v1/", "/mcp", "/thread/", "/healthz", "/docs"} {
		mux.HandleFunc(prefix, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "door "+prefix) })
	}
	mux.Handle("GET /{$}", door.Home(http.RedirectHandler("/docs", http.StatusFound)))
	mux.Handle("/", api.NoRoute(mux, "hint"))
	return edge.Wrap(mux)
}

func send(t *testing.T, h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPage(t *testing.T) {
	h := newServer(t, "")
	nonces := map[string]bool{}
	for _, path := range []string{"/webui/", "/webui/sandbox", "/webui/sandbox/runs/0198b2ff-7a3c-7000-8000-000000000000", "/webui/a/b/c/", "/webui/api/v1/sandbox/me"} {
		w := send(t, h, "GET", path)
		found := regexp.MustCompile(`^<base href="/webui/"><meta name="csp-nonce" content="([A-Za-z0-9_-]{22})"><p>page$`).FindStringSubmatch(w.Body.String())
		if w.Code != http.StatusOK || found == nil {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		if nonces[found[1]] {
			t.Errorf("nonce %s again", found[1])
		}
		nonces[found[1]] = true
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-" + found[1] + "'; style-src-attr 'unsafe-inline'; " +
				"img-src 'self' blob:; font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'; " +
				"require-trusted-types-for 'script'; trusted-types svelte-trusted-html belljar",
			"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"Permissions-Policy": disabledFeatures, "Access-Control-Allow-Origin": "", "Set-Cookie": "",
		} {
			if got := w.Header().Values(name); strings.Join(got, "|") != want {
				t.Errorf("%s: %s: %q", path, name, got)
			}
		}
	}
}

func TestBasePath(t *testing.T) {
	for public, want := range map[string]string{
		"https://x.example":            "/webui/",
		"https://x.example/jar/":       "/jar/webui/",
		"https://x.example/a%22%3Eb&c": "/a%22%3Eb&amp;c/webui/",
	} {
		h := newServer(t, public)
		if got := send(t, h, "GET", "/webui/").Body.String(); !strings.HasPrefix(got, `<base href="`+want+`"><meta`) {
			t.Errorf("%s: %s", public, got)
		}
		root := strings.ReplaceAll(want, "&amp;", "&")
		if got := send(t, h, "GET", "/webui"); got.Code != http.StatusMovedPermanently || got.Header().Get("Location") != root {
			t.Errorf("%s: without slash %d %s", public, got.Code, got.Header())
		}
		if got := send(t, h, "GET", "/", "Accept", "text/html,*/*"); got.Code != http.StatusFound || got.Header().Get("Location") != root || got.Header().Get("Vary") != "Accept" {
			t.Errorf("%s: root %d %s", public, got.Code, got.Header())
		}
		if got := send(t, h, "GET", "/", "Accept", "*/*"); got.Code != http.StatusFound || got.Header().Get("Location") != "/docs" {
			t.Errorf("%s: root for others %d %s", public, got.Code, got.Header())
		}
	}
}

// The page never responds in place of another door, for any spelling of a path.
func TestNoShadow(t *testing.T) {
	h := newServer(t, "")
	for _, path := range []string{
		"/api/v1/sandbox/runs", "/api/v1/sandbox/nothing", "/v1/sessions", "/mcp", "/thread/health", "/healthz", "/docs",
		"/nothing", "/webuix", "/Webui/", "/api/webui/",
		"/webui/../api/v1/sandbox/runs", "/webui/%2e%2e/healthz", "/webui/..%2fhealthz", "/webui/%2e%2e%2fhealthz", "/webui/assets/../../healthz",
		"/webui/..;/healthz", "/webui/assets/%2e%2e/index.html", "/webui//../healthz",
		"/webui/index.html", "/webui/assets/", "/webui/assets/none", "/webui/assets/none-1a.js", "/webui/main-1a.js", "/webui/assets/main-1a.js.gz",
		"/webui/assets//main-1a.js", "/webui/etc/passwd.txt", "/webui/assets/inner", "/webui/icon.svg%00.js", "/webui/.env",
	} {
		w := send(t, h, "GET", path)
		if strings.Contains(w.Body.String(), "<p>page") {
			t.Errorf("%s is the page", path)
		}
		if strings.HasPrefix(path, "/webui/") && w.Code != http.StatusNotFound && w.Code != http.StatusMovedPermanently && w.Code != http.StatusTemporaryRedirect {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if w.Code == http.StatusNotFound && !strings.Contains(w.Body.String(), `"code":"not_found"`) {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
}

func TestFiles(t *testing.T) {
	h := newServer(t, "")
	w := send(t, h, "GET", "/webui/assets/main-1a.js")
	tag := w.Header().Get("ETag")
	if w.Body.String() != script || w.Header().Get("Content-Encoding") != "" || w.Header().Get("Vary") != "Accept-Encoding" || len(tag) != 30 ||
		w.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" || w.Header().Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("plain: %s %s", w.Header(), w.Body)
	}
	// A worker has the policy of its script.
	for name, want := range map[string]string{"Content-Security-Policy": policy(""), "Cross-Origin-Resource-Policy": "same-origin", "X-Content-Type-Options": "nosniff"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	w = send(t, h, "GET", "/webui/assets/main-1a.js", "Accept-Encoding", "br, gzip;q=0.8")
	packedTag := w.Header().Get("ETag")
	if got := w.Header(); got.Get("Content-Encoding") != "gzip" || packedTag == tag || got.Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
		t.Errorf("gzip: %s", got)
	}
	in, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(in); err != nil || string(text) != script {
		t.Errorf("unpacked: %q, %v", text, err)
	}
	for _, encoding := range []string{"", "identity", "gzip;q=0", "gzip; q=0.000", "xgzip", "br"} {
		if got := send(t, h, "GET", "/webui/assets/main-1a.js", "Accept-Encoding", encoding); got.Body.String() != script {
			t.Errorf("%q: %s", encoding, got.Header())
		}
	}
	for encoding, tag := range map[string]string{"": tag, "gzip": packedTag} {
		for _, given := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			if got := send(t, h, "GET", "/webui/assets/main-1a.js", "If-None-Match", given, "Accept-Encoding", encoding); got.Code != http.StatusNotModified || got.Body.Len() > 0 {
				t.Errorf("unchanged %q: %d", encoding, got.Code)
			}
		}
	}
	for path, want := range map[string]string{
		"/webui/assets/_style-2b.css": "text/css; charset=utf-8", "/webui/assets/inner/font.woff2": "font/woff2", "/webui/icon.svg": "image/svg+xml",
	} {
		if got := send(t, h, "GET", path); got.Code != http.StatusOK || got.Header().Get("Content-Type") != want {
			t.Errorf("%s: %d %s", path, got.Code, got.Header())
		}
	}
	if got := send(t, h, "GET", "/webui/icon.svg").Header().Get("Cache-Control"); got != "no-cache" {
		t.Errorf("a file whose content changes: %s", got)
	}
}

func TestMethods(t *testing.T) {
	h := newServer(t, "")
	for _, path := range []string{"/webui/", "/webui/sandbox/runs", "/webui/assets/main-1a.js"} {
		get, head := send(t, h, "GET", path), send(t, h, "HEAD", path)
		if head.Code != http.StatusOK || head.Body.Len() != 0 || head.Header().Get("Content-Type") != get.Header().Get("Content-Type") {
			t.Errorf("HEAD %s: %d %s", path, head.Code, head.Header())
		}
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "TRACE"} {
			if got := send(t, h, method, path); got.Code != http.StatusMethodNotAllowed || got.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d %s", method, path, got.Code, got.Header())
			}
		}
	}
}

func TestNew(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"no page":       {"x.js": {}},
		"no nonce":      {"index.html": {Data: []byte("__BASE__")}},
		"no base":       {"index.html": {Data: []byte("__NONCE__")}},
		"strange media": {"index.html": {Data: []byte(page)}, "x.exe.gz": {}},
		"not packed":    {"index.html": {Data: []byte(page)}, "x.js": {}},
	} {
		if _, err := New(Options{Files: files}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no files are accepted")
	}
	files, err := built.Files()
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(Options{Files: files})
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`(?i)<script[^>]*>[^<]|\son[a-z]+=|\sstyle=|https?://`).MatchString(d.index) {
		t.Errorf("the page has something that its policy forbids: %s", d.index)
	}
}
