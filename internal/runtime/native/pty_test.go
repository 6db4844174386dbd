//go:build linux

package native_test

import (
	"context"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/runtime/runtimetest"
	"github.com/belljar/belljar/test/need"
)

// With NoPTYs, programs have the terminals of the agent only, and those belong to their user.
func TestNoPTYs(t *testing.T) {
	r := open(t, t.TempDir())
	for _, c := range []struct {
		name   string
		none   bool
		opened string
	}{
		{"programs make pseudo-terminals", false, "opened\nopened\n"},
		{"programs make none", true, "refused\nrefused\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.none && r.Jars.IDs.Mode == idmap.ModeSingle {
				need.Missing(t, "a user id for programs that is not the agent's")
			}
			r.NoPTYs = c.none
			box, err := r.Create(t.Context(), spec())
			if err != nil {
				t.Fatal(err)
			}
			defer box.Destroy(context.Background())
			const try = `for path in /dev/ptmx /dev/pts/ptmx; do (: <>$path) 2>/dev/null && echo opened || echo refused; done`
			if got := output(t, box, "sh", "-c", try); got != c.opened {
				t.Errorf("%q, want %q", got, c.opened)
			}
			out, exit := runtimetest.Execute(t, box.Dial, wire.Exec{
				ID: belljar.NewID(), Argv: []string{"sh", "-c", "stat -c '%U %G %a' $(tty); : >$(tty); stty size"}, UID: 1000, GID: 1000, KillAll: true,
				PTY: &wire.Size{Cols: 91, Rows: 27},
			})
			if want := "sandbox sandbox 620\r\n27 91\r\n"; exit.Code != 0 || strings.TrimSpace(out) != strings.TrimSpace(want) {
				t.Errorf("the agent's terminal: %q, %+v, want %q", out, exit, want)
			}
		})
	}
}

// Programs that have the agent's user id could open what is the agent's.
func TestNoPTYsWithSharedIDs(t *testing.T) {
	r := open(t, t.TempDir())
	r.NoPTYs, r.Jars.IDs.Mode = true, idmap.ModeSingle
	if box, err := r.Create(t.Context(), spec()); err == nil {
		box.Destroy(context.Background())
		t.Error("a sandbox was made")
	} else if !strings.Contains(err.Error(), "pseudo-terminals") {
		t.Error(err)
	}
}
