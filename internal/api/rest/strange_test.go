//go:build linux

package rest_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store/sqlite"
)

// TestStrangeNames checks that an invalid id or filter is an error of the request, never an internal one, on every store.
func TestStrangeNames(t *testing.T) {
	for name, change := range map[string]func(*service.Options){
		"memory": func(*service.Options) {},
		"sqlite": func(o *service.Options) {
			s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "store.db")})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			o.Store = s
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEngine(t, change)
			strange := []string{"%00", "%ff", "a%0Ab", "%F0%9F%92%A9", "..%2F..", "%2e%2e", "%27%20OR%201=1--", "%25", "a%2Fb", strings.Repeat("x", 5000), "%E2%80%AE"}
			for _, id := range strange {
				for _, request := range []string{
					"GET /runs/ID", "GET /runs/ID/artifacts", "GET /runs/ID/artifacts/a", "POST /runs/ID/cancel",
					"GET /sessions/ID", "DELETE /sessions/ID", "POST /sessions/ID/files?path=a",
					"GET /admin/runs/ID", "DELETE /admin/tokens/ID", "GET /admin/quotas/ID",
					"GET /runs?q=ID", "GET /runs?session_id=ID", "GET /admin/runs?user_id=ID", "GET /admin/runs?image_digest=ID",
					"GET /admin/idempotency?user_id=ID",
				} {
					method, path, _ := strings.Cut(strings.Replace(request, "ID", id, 1), " ")
					resp := b.send(method, prefix+path, "root", nil, "")
					body := read(t, resp)
					filter := strings.Contains(request, "=ID") || strings.Contains(request, "quotas")
					if s := resp.StatusCode; s != http.StatusBadRequest && s != http.StatusNotFound && !(filter && s == http.StatusOK) {
						t.Errorf("%.60s %.60s answers %d: %.300s", request, id, s, body)
					}
				}
			}
			b.ask(404, "GET", "/runs/"+strings.Repeat("0", 36), "alice", "", nil)
			resp := b.send("PUT", prefix+"/admin/quotas/%00", "root", nil, `{"concurrent_runs": 1, "cpu_seconds_per_day": 1, "artifact_mb": 1}`)
			if resp.StatusCode != http.StatusBadRequest {
				t.Errorf("a quota for NUL answers %d: %s", resp.StatusCode, read(t, resp))
			}
		})
	}
}

// TestAccept checks that the response is JSON whatever the Accept header.
func TestAccept(t *testing.T) {
	b := newBench(t)
	for _, accept := range []string{"", "*/*", "application/json", "application/problem+json", "text/html", "application/json, application/problem+json", "application/cbor", "garbage;;;q=x"} {
		header := http.Header{}
		if accept != "" {
			header.Set("Accept", accept)
		}
		resp := b.send("GET", prefix+"/me", "alice", header, "")
		if body := read(t, resp); resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(string(body), `{"user_id":"alice"`) {
			t.Errorf("Accept %q answers %d, %v: %s", accept, resp.StatusCode, resp.Header, body)
		}
	}
}
