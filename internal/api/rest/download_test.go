package rest_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/rest"
)

// withArtifacts adds run-1, of alice, with artifacts.
func (b *bench) withArtifacts(files map[string]string) *bench {
	b.world.runs["run-1"] = belljar.Run{ID: "run-1", UserID: "alice", Phase: belljar.PhaseCompleted}
	b.world.artifacts = files
	return b
}

func (b *bench) fetch(method, name string, header http.Header) (*http.Response, []byte) {
	b.t.Helper()
	resp := b.send(method, prefix+"/runs/run-1/artifacts/"+name, "alice", header, "")
	return resp, read(b.t, resp)
}

func ranged(r string) http.Header { return http.Header{"Range": {r}} }

func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // never fails
	return string(b)
}

// If a proxy strips a path, download URLs and the document's server still contain it.
func TestURLsUnderAPath(t *testing.T) {
	b := newBench(t, func(o *rest.Options, _ *api.EdgeOptions) { o.BasePath = "/jar" }).withArtifacts(map[string]string{"a b": "x"})
	if list := b.get(prefix+"/runs/run-1/artifacts", "alice"); !bytes.Contains(list, []byte(`"/jar`+prefix+`/runs/run-1/artifacts/a%20b"`)) {
		t.Errorf("%s", list)
	}
	if doc := b.get("/openapi.json", ""); !bytes.Contains(doc, []byte(`"url": "/jar/"`)) {
		t.Errorf("the document has another server: %.200s", doc[bytes.Index(doc, []byte(`"servers"`)):])
	}
	for _, link := range []string{`href="/`, `src="/`} {
		if bytes.Contains(b.get("/docs", ""), []byte(link)) {
			t.Errorf("the page has %s", link)
		}
	}
}

func TestRange(t *testing.T) {
	content := noise(12345)
	b := newBench(t).withArtifacts(map[string]string{"data.bin": content, "empty": ""})
	for given, want := range map[string]struct {
		body, header string
	}{
		"bytes=0-1023":      {content[:1024], "bytes 0-1023/12345"},
		"bytes=4000-4999":   {content[4000:5000], "bytes 4000-4999/12345"},
		"bytes=3072-3072":   {content[3072:3073], "bytes 3072-3072/12345"},
		"bytes=3000-3100":   {content[3000:3101], "bytes 3000-3100/12345"},
		"bytes=12000-":      {content[12000:], "bytes 12000-12344/12345"},
		"bytes=-5":          {content[12340:], "bytes 12340-12344/12345"},
		"bytes=12344-99999": {content[12344:], "bytes 12344-12344/12345"},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			resp, body := b.fetch(method, "data.bin", ranged(given))
			if resp.StatusCode != http.StatusPartialContent || resp.Header.Get("Content-Range") != want.header || resp.ContentLength != int64(len(want.body)) {
				t.Errorf("%s %s answers %d, %v", method, given, resp.StatusCode, resp.Header)
			}
			if method == "GET" && string(body) != want.body || method == "HEAD" && len(body) > 0 {
				t.Errorf("%s %s: other bytes", method, given)
			}
		}
	}
	for given, want := range map[string]string{
		"bytes=12345-":      "not in the file",
		"bytes=2-1":         "cannot be read",
		"bytes=zero-":       "cannot be read",
		"bytes=0-1,4-5":     `"code":"invalid_request","message":"Multi-range not supported","details":{"field":"Range","ranges":2}`,
		"bytes=0-0,1-1,2-2": `"ranges":3`,
	} {
		resp, body := b.fetch("GET", "data.bin", ranged(given))
		if resp.StatusCode != http.StatusRequestedRangeNotSatisfiable || resp.Header.Get("Content-Range") != "bytes */12345" || !bytes.Contains(body, []byte(want)) {
			t.Errorf("%s answers %d, %v: %s", given, resp.StatusCode, resp.Header, body)
		}
	}
	header := ranged("bytes=0-1,4-5")
	header.Set("Accept", "application/problem+json")
	if resp, body := b.fetch("GET", "data.bin", header); resp.Header.Get("Content-Type") != "application/problem+json" || !bytes.Contains(body, []byte(`"status":416`)) {
		t.Errorf("as a problem: %v: %s", resp.Header, body)
	}
	if resp, _ := b.fetch("GET", "empty", ranged("bytes=0-")); resp.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("of an empty file answers %d", resp.StatusCode)
	}
	if resp, body := b.fetch("GET", "empty", nil); resp.StatusCode != http.StatusOK || len(body) > 0 || resp.ContentLength != 0 {
		t.Errorf("an empty file answers %d, %d bytes", resp.StatusCode, len(body))
	}
	if resp, body := b.fetch("GET", "data.bin", ranged("lines=1-2")); resp.StatusCode != http.StatusOK || string(body) != content {
		t.Errorf("another unit answers %d", resp.StatusCode)
	}
}

func TestConditions(t *testing.T) {
	content := noise(5000)
	b := newBench(t).withArtifacts(map[string]string{"data.bin": content, "text.txt": strings.Repeat("a line of text\n", 1000)})
	resp, _ := b.fetch("HEAD", "data.bin", nil)
	tag := resp.Header.Get("ETag")
	if resp.StatusCode != http.StatusOK || tag != `"`+digest(content)+`"` || resp.ContentLength != 5000 {
		t.Fatalf("HEAD answers %d, %v", resp.StatusCode, resp.Header)
	}
	for given, status := range map[string]int{tag: 304, "W/" + tag: 304, `"a", ` + tag: 304, "*": 304, `"a"`: 200, tag[1:]: 200, strings.TrimSuffix(tag, `"`) + `-gzip"`: 304} {
		resp, body := b.fetch("GET", "data.bin", http.Header{"If-None-Match": {given}})
		if resp.StatusCode != status || status == 304 && len(body) > 0 || resp.Header.Get("ETag") != tag {
			t.Errorf("If-None-Match %s answers %d", given, resp.StatusCode)
		}
	}
	for given, status := range map[string]int{tag: 206, `"a"`: 200, "W/" + tag: 200, "Sat, 21 Nov 2026 12:00:00 GMT": 200} {
		header := ranged("bytes=1-2")
		header.Set("If-Range", given)
		if resp, _ := b.fetch("GET", "data.bin", header); resp.StatusCode != status {
			t.Errorf("If-Range %s answers %d, want %d", given, resp.StatusCode, status)
		}
	}
}

func TestCompression(t *testing.T) {
	text := strings.Repeat("a line of text\n", 1000)
	b := newBench(t).withArtifacts(map[string]string{"a.txt": text, "short.txt": "short", "empty.txt": "",
		"map.geojson": `{"type": "FeatureCollection", "features": []}`, "feed.rss": `<?xml version="1.0"?><rss version="2.0"><channel/></rss>`,
		"pic.svg": `<svg xmlns="http://www.w3.org/2000/svg"/>`, "noise": noise(5000), "data.json": `{"a": "` + strings.Repeat("b", 2000) + `"}`})
	zipped := http.Header{"Accept-Encoding": {"br, gzip;q=0.5"}}
	plain, _ := b.fetch("GET", "a.txt", nil)
	resp, body := b.fetch("GET", "a.txt", zipped)
	if resp.Header.Get("Content-Encoding") != "gzip" || len(body) >= len(text)/2 || resp.Header.Get("ETag") == plain.Header.Get("ETag") || resp.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("%d bytes, %v", len(body), resp.Header)
	}
	if resp, _ := b.fetch("GET", "a.txt", http.Header{"Origin": {"https://ide.example"}}); !slices.Equal(resp.Header.Values("Vary"), []string{"Origin", "Accept-Encoding"}) {
		t.Errorf("to a page: %v", resp.Header)
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); err != nil || string(got) != text {
		t.Errorf("unpacked to %d bytes, %v", len(got), err)
	}
	if resp, body := b.fetch("HEAD", "a.txt", zipped); resp.Header.Get("Content-Encoding") != "gzip" || len(body) > 0 {
		t.Errorf("HEAD: %v", resp.Header)
	}
	for _, name := range []string{"data.json", "short.txt", "map.geojson", "feed.rss", "pic.svg"} {
		if resp, _ := b.fetch("GET", name, zipped); resp.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %v", name, resp.Header)
		}
	}
	for name, header := range map[string]http.Header{
		"empty.txt": zipped, "noise": zipped,
		"a.txt": {"Accept-Encoding": {"gzip;q=0, identity"}},
	} {
		if resp, _ := b.fetch("GET", name, header); resp.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %v", name, resp.Header)
		}
	}
	both := ranged("bytes=0-9")
	both.Set("Accept-Encoding", "gzip")
	if resp, body := b.fetch("GET", "a.txt", both); resp.StatusCode != 206 || resp.Header.Get("Content-Encoding") != "" || string(body) != text[:10] {
		t.Errorf("a range answers %d, %v", resp.StatusCode, resp.Header)
	}
}

// TestNothingRunsOnOurOrigin checks that a browser saves every file from a sandbox.
func TestNothingRunsOnOurOrigin(t *testing.T) {
	b := newBench(t).withArtifacts(map[string]string{
		"page.html": "<!doctype html><script>alert(1)</script>", "pic.svg": `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`,
		"app.js": "alert(1)", "plain": "\x00\x01\x02\x03", "pic.png": "\x89PNG\r\n\x1a\n0000", "grüße\".csv": "a;b",
	})
	for name, want := range map[string]string{
		"page.html": "text/html; charset=utf-8", "pic.svg": "image/svg+xml", "app.js": "text/javascript; charset=utf-8",
		"plain": "application/octet-stream", "pic.png": "image/png", "gr%C3%BC%C3%9Fe%22.csv": "text/csv; charset=utf-8",
	} {
		resp, _ := b.fetch("GET", name, nil)
		h := resp.Header
		if resp.StatusCode != 200 || h.Get("Content-Type") != want || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") ||
			h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s answers %d, %v", name, resp.StatusCode, h)
		}
	}
}

// TestTraversal checks that every spelling of a path that escapes is refused.
func TestTraversal(t *testing.T) {
	b := newBench(t).withArtifacts(map[string]string{"a": "x"})
	for _, path := range []string{
		"..%2F..%2Fetc%2Fpasswd", "%2e%2e/%2e%2e/etc/passwd", "../../etc/passwd", "a/../../b", "..%252F..%252Fetc", "%252e%252e%252fetc",
		"%2Fetc%2Fpasswd", "//etc/passwd", "/etc/passwd", "a%00", "a%0Ab", "a%0d%0aSet-Cookie:x", "..%5C..%5Cetc", "a//b", "./a", "%2e", "..", ".", "a%2F..%2F..%2Fb", "%ff",
	} {
		resp, body := b.fetch("GET", path, nil)
		if resp.StatusCode != http.StatusBadRequest || !bytes.Contains(body, []byte("invalid_request")) {
			t.Errorf("%s answers %d: %s", path, resp.StatusCode, body)
		}
	}
	for _, path := range []string{"~", "$HOME", "a%20", "%20a", "proc/self/environ"} {
		if resp, _ := b.fetch("GET", path, nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s answers %d", path, resp.StatusCode)
		}
	}
}
