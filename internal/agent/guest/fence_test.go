//go:build linux

package guest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// An agent whose snapshot is restored on a kernel that is not fenced refuses requests, reports why, and ends.
func TestFenceIsGone(t *testing.T) {
	h := begin(t, guest.Config{Fenced: true})
	failure := h.ask(wire.Request{Op: wire.OpPing}).failure(wire.CodeInternal)
	if !strings.Contains(failure.Message, "belljar-runsc is older than belljar") {
		t.Errorf("it reports %q", failure.Message)
	}
	select {
	case <-h.agent.Done():
	case <-time.After(patience):
		t.Error("it continues")
	}
	if err := guest.Confine(guest.Config{Fenced: true}); err == nil {
		t.Error("it begins")
	}
}
