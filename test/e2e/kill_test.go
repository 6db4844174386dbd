//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar/test/tier"
)

// TestKill kills a busy server repeatedly, at any moment, also while it starts or ends, and checks each time that its promises
// hold: see [promise]. At the end nothing is left on this machine.
func TestKill(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	args := []string{"--set", "max_concurrent_runs=3", "--set", "cancel_grace_seconds=0.5", "--set", "quota_sessions=0"}
	w := &witness{}
	for round := range tier.Rounds(t, 2, 100) {
		if round%4 == 3 { // while it recovers the work of the previous server
			s, _ := launch(t, data, args...)
			time.Sleep(rand.N(120 * time.Millisecond))
			s.kill()
		}
		s := serve(t, data, args...)
		w.hold(s, fmt.Sprintf("round %d", round))
		if t.Failed() {
			t.Logf("the log of the server:\n%s", s.output)
			return
		}
		crowd := w.harass(s, round)
		time.Sleep(rand.N(250 * time.Millisecond))
		if round%5 == 4 { // while it ends
			_ = s.cmd.Process.Signal(syscall.SIGTERM)
			time.Sleep(rand.N(250 * time.Millisecond))
		}
		s.kill()
		crowd.Wait()
	}
	s := serve(t, data, append(args, "--set", "end_sessions=true")...) // also sessions that no response has named
	w.hold(s, "the end")
	w.holdAll(s)
	if code := s.stop(); code != 0 {
		t.Errorf("the last server ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}
