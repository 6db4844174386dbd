//go:build linux

package guest_test

import (
	"testing"
	"time"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// An idle shell is not counted; a command in it, its jobs, a kernel and an exec are.
func TestRunning(t *testing.T) {
	t.Run("agent", func(t *testing.T) { countsPrograms(t, begin(t, guest.Config{})) })
	t.Run("init", func(t *testing.T) { countsPrograms(t, beginInit(t, 0)) })
}

func countsPrograms(t *testing.T, h *host) {
	s := h.shell()
	running := func(what string, want int) {
		t.Helper()
		got := -1
		for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(time.Millisecond) { // processes take a moment to disappear after their end
			if got = h.ask(wire.Request{Op: wire.OpPrograms}).reply().Programs; got == want {
				return
			}
		}
		t.Errorf("%s: %d programs, want %d", what, got, want)
	}
	running("none", 0)
	s.want("x=1", "", 0)
	running("an idle shell", 0)
	s.want("sleep 1000 & true", "", 0)
	running("a job", 1)
	s.want("kill $!; wait $! 2>/dev/null; true", "", 0)
	running("a job that has ended", 0)
	l := h.exec(h.sh("a", "echo up; sleep 1000; true"))
	l.await("up\n")
	running("a command and its child", 2)
	h.ask(wire.Request{Op: wire.OpSignal, ID: "a", Kill: &wire.Kill{End: true}})
	running("a command that has ended", 0)
	e := s.command("y=1")
	e.Shell.Name = "context/c"
	l = h.exec(e)
	l.exit()
	running("an idle shell of a context", 1)
}
