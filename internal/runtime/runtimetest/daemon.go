package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// Restarting returns the New and the Restart of [Options] for runtimes over a state, such as a folder. fresh makes a state, open returns a
// runtime over it, and end ends a daemon.
func Restarting[S any](fresh func(*testing.T) S, open func(*testing.T, S) runtime.Runtime, end func(*testing.T, runtime.Runtime)) (
	create func(*testing.T) runtime.Runtime, restart func(*testing.T, runtime.Runtime) runtime.Runtime,
) {
	var states sync.Map // by runtime
	over := func(t *testing.T, state S) runtime.Runtime {
		r := open(t, state)
		states.Store(r, state)
		return r
	}
	restart = func(t *testing.T, r runtime.Runtime) runtime.Runtime {
		end(t, r)
		state, _ := states.Load(r)
		return over(t, state.(S))
	}
	return func(t *testing.T) runtime.Runtime { return over(t, fresh(t)) }, restart
}

// Daemon returns a runtime like that of a daemon.
type Daemon interface {
	runtime.Runtime
	Sweep(ctx context.Context) (int, error)
	Close() error
}

// CloseAfter removes a runtime's sandboxes after the test, and closes it.
func CloseAfter(t testing.TB, d Daemon) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		ids, err := d.List(ctx)
		for _, id := range ids {
			err = errors.Join(err, d.Remove(ctx, id))
		}
		if err := errors.Join(err, d.Close()); err != nil {
			t.Error(err)
		}
	})
}

// Killed runs the test's program again, as a daemon that makes a sandbox over dir and is killed then. It returns the sandbox's id. The
// program finds the id in BELLJAR_TEST_ABANDON, dir in BELLJAR_TEST_DIR and the sandbox's lifetime in BELLJAR_TEST_LIFE.
func Killed(t *testing.T, dir string, life runtime.Lifetime) string {
	t.Helper()
	id := belljar.NewID()
	daemon := exec.Command(os.Args[0])
	daemon.Env = append(os.Environ(), "BELLJAR_TEST_ABANDON="+id, "BELLJAR_TEST_DIR="+dir, "BELLJAR_TEST_LIFE="+string(life))
	daemon.Stderr = os.Stderr
	if err := daemon.Run(); !strings.Contains(fmt.Sprint(err), "killed") {
		t.Fatalf("the daemon ended with %v, want killed", err)
	}
	return id
}

// Survived checks that the next daemon finds the detached sandbox of a killed one, and can remove it.
func Survived(t *testing.T, next Daemon, id string) {
	t.Helper()
	box, err := next.Attach(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := agent.New(box.Dial).Ping(t.Context()); err != nil || info.Pid != 1 {
		t.Fatalf("agent answered %+v, %v", info, err)
	}
	if n, err := next.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("a living sandbox was swept: %d, %v", n, err)
	}
	if err := box.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if exit, err := box.Wait(t.Context()); err != nil || exit.Reason != runtime.ExitDestroyed {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

// Ended checks that the sandbox of a killed creator ends with it, without help, and that the next daemon removes what is left on disk.
// The processes of the sandbox hold its lock file until the last one has ended.
func Ended(t *testing.T, next Daemon, lock string) {
	t.Helper()
	f, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_EX), f.Close()); err != nil {
		t.Fatal(err)
	}
	if n, err := next.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("swept %d, %v; want 1", n, err)
	}
}

// Execute runs a command in a sandbox to its end, and returns what it printed.
func Execute(t testing.TB, dial func(context.Context) (net.Conn, error), e wire.Exec) (string, wire.Exit) {
	t.Helper()
	p, err := agent.New(dial).Exec(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var out strings.Builder
	exit, err := p.Output(t.Context(), func(_ int64, _ wire.Stream, b []byte) error {
		out.Write(b)
		return nil
	})
	if err != nil {
		t.Fatalf("%q: %v, after %.300q", e.Argv, err, out.String())
	}
	return out.String(), exit
}
