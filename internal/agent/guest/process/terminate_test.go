//go:build linux

package process

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"
)

// TestTerminate tests that a process that is missing in the first reading of the table gets TERM as well, and that
// none gets two.
func TestTerminate(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	round := 0
	signaled := Terminate(func() []*Process {
		if round++; round == 1 {
			return nil
		}
		x, ok := ReadEntry(cmd.Process.Pid)
		if !ok || x.Zombie {
			return nil
		}
		if p := Open(x); p != nil {
			return []*Process{p}
		}
		return nil
	})
	if len(signaled) != 1 || round < 2 {
		t.Errorf("%d processes in %d rounds", len(signaled), round)
		_ = cmd.Process.Kill()
	}
	for _, p := range signaled {
		p.Close()
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Error(err)
	}
}
