//go:build linux

package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/test/apitest"
)

// TestPlainStrangeNames checks that an invalid id or filter is an error of the request, never an internal one.
func TestPlainStrangeNames(t *testing.T) {
	b := newEngine(t, func(*service.Options) {})
	for _, request := range apitest.StrangeRequests() {
		method, path, _ := strings.Cut(request, " ")
		resp := b.send(method, prefix+path, "root", nil, "")
		if body := read(t, resp); !apitest.StrangeStatus(request, resp.StatusCode) {
			t.Errorf("%.60s answers %d: %.300s", request, resp.StatusCode, body)
		}
	}
	b.ask(404, "GET", "/runs/"+strings.Repeat("0", 36), "alice", "", nil)
	resp := b.send("PUT", prefix+"/admin/quotas/%00", "root", nil, `{"concurrent_runs": 1, "cpu_seconds_per_day": 1, "artifact_mb": 1}`)
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a quota for NUL answers %d: %s", resp.StatusCode, read(t, resp))
	}
}

// TestAccept checks that the response is JSON for any Accept header.
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
