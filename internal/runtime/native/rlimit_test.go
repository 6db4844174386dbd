//go:build linux

package native_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/test/need"
)

// If the hard limit of belljar itself is below a sandbox's, sandboxes can still be made, and run a command with a lower limit. A command
// with a higher limit is refused, with that reason.
func TestHardLimitOfProcesses(t *testing.T) {
	need.Root(t) // an ordinary user may already have that many processes
	const low, name = 100, "BELLJAR_TEST_HARD_LIMIT"
	if os.Getenv(name) == "" { // a process cannot raise the limit again
		again := exec.Command(os.Args[0], "-test.run=^TestHardLimitOfProcesses$")
		again.Env = append(os.Environ(), name+"=1")
		if text, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		return
	}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: low, Max: low}); err != nil {
		t.Fatal(err)
	}
	box, err := open(t, t.TempDir()).Create(context.Background(), spec())
	if err != nil {
		t.Fatal(err)
	}
	run := func(processes uint64) error {
		p, err := agent.New(box.Dial).Exec(context.Background(), wire.Exec{
			ID: belljar.NewID(), Argv: []string{"/bin/true"}, UID: 1000, GID: 1000, KillAll: true, Rlimits: map[string]uint64{"nproc": processes},
		})
		if err == nil {
			p.Close()
		}
		return err
	}
	if err := run(low / 2); err != nil {
		t.Error(err)
	}
	var refused *wire.Error
	if err := run(2 * low); !errors.As(err, &refused) || refused.Step != wire.StepRlimits {
		t.Errorf("more processes than belljar may have: %v", err)
	}
}
