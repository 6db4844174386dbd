//go:build linux

package sprites

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar/internal/agent/guest/health"
)

// The sprite of [Deployed].
const (
	ServiceToken = "0123456789abcdef0123456789abcdef"
	Agent        = "/srv/workspace-api/belljar-agent"
	Secrets      = "/srv/workspace-api/run/secrets"
	Workspace    = "/home/sprite/workspace"
)

// Deployed starts the API of a sprite called box, in the state after deploy_workspace_service.sh: with an agent and its folders, and with
// the workspace service at an address of this machine, below /internal/v1. Both end with the test.
func Deployed(t testing.TB, agent []byte) (s *Server, service string) {
	t.Helper()
	s = New("box", t.TempDir())
	t.Cleanup(s.End)
	for _, dir := range []string{Secrets, Workspace} {
		if err := os.MkdirAll(filepath.Join(s.Dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.Dir, Agent), agent, 0o755); err != nil {
		t.Fatal(err)
	}
	h, err := health.New("/internal/v1", ServiceToken)
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
		_ = h.Serve(l)
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return s, l.Addr().String()
}
