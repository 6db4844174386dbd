//go:build linux

package health_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent/guest/health"
	"github.com/belljar/belljar/internal/agent/wire"
)

const token = "0123456789abcdef0123456789abcdef"

func serve(t *testing.T) (address string) {
	s, err := health.New("/internal/v1/", token)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(l)
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestRoutes(t *testing.T) {
	at := serve(t)
	for name, c := range map[string]struct {
		method, path, token string
		status              int
		body                string
	}{
		"health":        {"GET", "/internal/v1/healthz", token, 200, `{"status":"ok"}`},
		"version":       {"GET", "/internal/v1/__meta/version?x=1", token, 200, `"version":"` + wire.WorkspaceAPI + `"`},
		"no token":      {"GET", "/internal/v1/healthz", "", 401, "unauthorized"},
		"another token": {"GET", "/internal/v1/healthz", strings.Replace(token, "0", "1", 1), 401, "unauthorized"},
		"elsewhere":     {"GET", "/healthz", token, 404, "not found"},
		"another route": {"GET", "/internal/v1/api/tree", token, 404, "not found"},
		"method":        {"POST", "/internal/v1/healthz", token, 405, "not allowed"},
		"long":          {"GET", "/" + strings.Repeat("x", 9000), token, 400, "bad request"},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+at+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Request-Id", "r-1")
			if c.token != "" {
				req.Header.Set("Authorization", "Bearer "+c.token)
			}
			resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != c.status || !strings.Contains(string(body), c.body) {
				t.Errorf("%d %s, %v", resp.StatusCode, body, err)
			}
			if resp.Header.Get("X-Workspace-API-Version") != wire.WorkspaceAPI || c.status != 400 && resp.Header.Get("X-Request-Id") != "r-1" {
				t.Errorf("%v", resp.Header)
			}
		})
	}
	if _, err := health.New("", "short"); err == nil {
		t.Error("a short token is accepted")
	}
}

// An invalid request gets an answer, and the next one is served.
func TestNoise(t *testing.T) {
	at := serve(t)
	for _, noise := range []string{"\n", "GET\r\n\r\n", "GET / SMTP\r\n\r\n", strings.Repeat("a", 9000) + "\n"} {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, noise)
		head := make([]byte, 12)
		if _, err := io.ReadFull(conn, head); err == nil && string(head) != "HTTP/1.1 400" {
			t.Errorf("%.10q: %q", noise, head)
		}
		conn.Close()
	}
}
