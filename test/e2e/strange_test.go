//go:build linux

package e2e

import (
	"strings"
	"testing"

	"github.com/belljar/belljar/test/apitest"
)

// TestStrangeNames checks that an invalid id or filter is an error of the request, never an internal one, with everything real below
// the API.
func TestStrangeNames(t *testing.T) {
	s := serve(t, t.TempDir())
	for _, request := range apitest.StrangeRequests() {
		method, path, _ := strings.Cut(request, " ")
		if status, _, body := s.send(method, api+path, s.Key, ""); !apitest.StrangeStatus(request, status) {
			t.Errorf("%.60s answers %d: %.300s", request, status, body)
		}
	}
}
