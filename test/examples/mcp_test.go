//go:build linux

package examples

import (
	"strings"
	"testing"

	"github.com/belljar/belljar/test/served"
)

// TestServerConfiguration calls a server with the documented configuration.
func TestServerConfiguration(t *testing.T) {
	s := served.Start(t, built.Belljar)
	out, err := bash(t, "../../examples/mcp", "python3 check.py server.mcp.json", "BELLJAR_SERVER="+s.URL, "BELLJAR_API_KEY="+s.User(t, "host"))
	if err != nil || !strings.Contains(out, "server.mcp.json: belljar is belljar and has ") || !strings.Contains(out, "sandbox_fs_write") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = bash(t, "../../examples/mcp", "python3 check.py server.mcp.json", "BELLJAR_SERVER="+s.URL, "BELLJAR_API_KEY=wrong")
	if err == nil || !strings.Contains(out, "does not work: HTTP Error 401") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = bash(t, "../../examples/mcp", "python3 check.py server.mcp.json")
	if err == nil || !strings.Contains(out, "needs BELLJAR_SERVER") {
		t.Errorf("%v\n%s", err, out)
	}
}
