package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/linetest"
)

// answers is a handler: GET /KIB answers with JSON of that size at once, /stream/KIB as a part of a stream.
func answers(t *testing.T) http.Handler {
	edge, _ := newEdge(t, api.EdgeOptions{Answers: api.NewShares(2<<20, 0)})
	return edge.Wrap(api.Guard(keyIsUser{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, streams := strings.CutPrefix(r.URL.Path, "/stream")
		var kib int
		if _, err := fmt.Sscanf(path, "/%d", &kib); err != nil {
			t.Error(err)
		}
		if streams {
			_, _ = io.WriteString(w, "begun") // fails only if the client is gone
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write(make([]byte, kib<<10))
			return
		}
		if r.Header.Get("Reads") != "" {
			api.OnlyReads(r.Context())
		}
		w.Header().Set("ETag", `"x"`)
		api.WriteJSON(w, http.StatusOK, strings.Repeat("x", kib<<10))
	})))
}

// query sends a request without a body and reads nothing.
func query(t *testing.T, l *linetest.Line, user, method, path, header string) net.Conn {
	t.Helper()
	conn := l.Dial()
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: h\r\nX-API-KEY: %s\r\n%s\r\n", method, path, user, header); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return conn
}

// got reads a response to its end.
func got(t *testing.T, conn net.Conn) (*http.Response, string, error) {
	t.Helper()
	defer conn.Close()
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return r, string(body), err
}

// A user's unread answers are bounded. Further large ones are refused, and streams are cut at a large piece.
func TestUnreadAnswers(t *testing.T) {
	linetest.Serve(t, answers, func(t *testing.T, l *linetest.Line) {
		first, second := query(t, l, "ann", "GET", "/1000", ""), query(t, l, "ann", "GET", "/1000", "")
		for _, c := range []struct {
			user, method, path, header string
			status                     int
			text                       string
		}{
			{"ann", "GET", "/1000", "", 429, `"code":"rate_limited"`},
			{"ann", "POST", "/1000", "", 413, "the request was executed"}, // clients would repeat it after 429
			{"ann", "POST", "/1000", "Idempotency-Key: k\r\n", 429, `"code":"rate_limited"`},
			{"ann", "POST", "/1000", "Reads: yes\r\n", 429, `"code":"rate_limited"`},
			{"ann", "GET", "/200", "", 200, "xxx"},
			{"ann", "GET", "/stream/900", "", 200, "begun"},
			{"bob", "GET", "/1000", "", 200, "xxx"},
		} {
			r, body, err := got(t, query(t, l, c.user, c.method, c.path, c.header))
			if r.StatusCode != c.status || !strings.Contains(body, c.text) || err != nil {
				t.Errorf("%s %s %s: %d %.200s, %v", c.user, c.method, c.path, r.StatusCode, body, err)
			}
			if c.status >= 400 && (r.Header.Get("ETag") != "" || r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("X-Request-Id") == "") {
				t.Errorf("%s %s: %v", c.method, c.path, r.Header)
			}
		}
		if _, body, err := got(t, query(t, l, "ann", "GET", "/stream/1100", "")); err == nil || body != "begun" {
			t.Errorf("a stream without room: %d bytes, %v", len(body), err)
		}
		for _, conn := range []net.Conn{first, second, query(t, l, "ann", "GET", "/5000", "")} { // the last one is refused
			if r, body, err := got(t, conn); err != nil || (len(body) < 1000<<10) != (r.StatusCode == 429) {
				t.Errorf("%d %d bytes, %v", r.StatusCode, len(body), err)
			}
		}
		synctest.Wait()
		if r, body, err := got(t, query(t, l, "ann", "GET", "/5000", "")); r.StatusCode != 200 || len(body) < 5000<<10 || err != nil { // has all of the share
			t.Errorf("after the others: %d %d bytes, %v", r.StatusCode, len(body), err)
		}
	})
}
