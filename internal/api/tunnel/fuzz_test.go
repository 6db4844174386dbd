//go:build linux

package tunnel_test

import (
	"net/http"
	"testing"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/tunnel"
	"github.com/belljar/belljar/test/apitest"
)

// whole returns the door with an engine that runs nothing, and its routes.
func whole(f *testing.F) (http.Handler, []apitest.Route) {
	f.Helper()
	door, err := tunnel.New(tunnel.Options{Engine: apitest.Still{}, Auth: apitest.Callers(), OriginAllowed: func(*http.Request) bool { return true }})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = door.Close() }) // it never fails
	var routes []apitest.Route
	for _, port := range []string{"3000", "0", "x", "-1", "65536", "99999999999999999999", "%2f"} {
		routes = append(routes, apitest.Route{Method: "GET", Path: api.Prefix + "/sessions/" + apitest.ID + "/ports/" + port + "/tunnel"})
	}
	return apitest.Handler(f, api.EdgeOptions{}, door), routes
}

func FuzzQuery(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzQuery(f, h, routes, "token="+apitest.ID, "token=a&token=b", "port=1")
}

func FuzzHeader(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzHeader(f, h, routes, "websocket", "Upgrade", "13", "dGhlIHNhbXBsZSBub25jZQ==")
}
