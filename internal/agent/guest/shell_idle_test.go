//go:build linux

package guest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// idleShell returns a shell without commands. Its agent starts no processes.
func idleShell() *shell {
	a := &Agent{closing: true}
	sh := &shell{a: a, last: make(chan struct{}), proc: &shellProcess{exec: newExec(a, wire.Exec{})}}
	close(sh.last)
	close(sh.proc.exec.empty) // it has left no process
	sh.living = sh.proc
	return sh
}

// A shell that was idle too long, and is about to end, gets no further command.
func TestShellThatIsEndingGetsNoCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := idleShell()
		idle := sh.proc
		c := &command{e: newExec(sh.a, wire.Exec{Shell: &wire.ShellRun{}}), shell: sh}
		sh.retire(time.Hour)
		provided := make(chan error, 1)
		go func() { provided <- c.provide() }()
		synctest.Wait()
		select {
		case err := <-provided:
			t.Fatalf("the command has a shell that is ending: %t, %v", c.proc == idle, err)
		default:
		}
		close(idle.exec.exited)
		if err := <-provided; err == nil || sh.proc != nil || !c.replaced {
			t.Errorf("the shell that has ended remains: %v", err)
		}
	})
}

// The time for which a shell may be idle begins with the end of its last command, even if that of an earlier one is noted later.
func TestShellIsIdleSinceItsLastCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := idleShell()
		sh.a.closing = false
		sh.rest(time.Hour)
		sh.rest(time.Hour)
		time.Sleep(time.Hour / 2)
		sh.busy(true)
		sh.rest(time.Hour)
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		if sh.leaves(sh.proc) {
			t.Error("the shell ends too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !sh.leaves(sh.proc) || len(sh.proc.exec.ends) != 1 {
			t.Error("the shell does not end")
		}
	})
}
