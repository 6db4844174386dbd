//go:build linux

package guest_test

import (
	"os"
	"testing"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// busy returns commands that use CPU time in different ways and never end.
func busy() map[string]string {
	return map[string]string{
		"alone":          "while :; do :; done",
		"children":       "for i in 1 2 3; do (while :; do :; done) & done; wait",
		"outlived":       "(setsid sh -c 'while :; do :; done' &); exec sleep 1000",
		"waited for":     "while :; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done",
		"quick":          "while :; do /bin/true; done",
		"no remains":     "trap '' CHLD; while :; do sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done' & sleep 0.01; done",
		"takes no hints": "trap '' TERM; while :; do :; done",
		"stays short":    "while :; do i=0; while [ $i -lt 500 ]; do i=$((i+1)); done; sleep 0.001; done",
	}
}

// The time of all processes counts, and the command ends as it does by a timeout.
func TestCPUTimeEndsEverything(t *testing.T) {
	modes(t, func(t *testing.T, config func(*testing.T) guest.Config) {
		for name, script := range busy() {
			t.Run(name, func(t *testing.T) {
				h := begin(t, config(t))
				e := h.sh("a", script)
				e.CPUTimeMS, e.GraceMS, e.TimeoutMS = 100, 20, 4*patience.Milliseconds()
				l := h.exec(e)
				l.started()
				exit := l.exit()
				if exit.Cause != wire.CauseCPUTime || exit.Signal == 0 {
					t.Errorf("exit %+v", exit)
				}
				// On a busy machine the end may come late, but time of children that is missed costs many seconds.
				if used := exit.Usage.UserMicros + exit.Usage.SystemMicros; used < 100_000 || used > 3_000_000 {
					t.Errorf("ended after %d of 100,000 microseconds: %+v", used, exit.Usage)
				}
			})
		}
	})
}

// A command that ended on its own has exceeded its limit if its usage exceeds it: hosts report that usage.
func TestCPUTimeAgreesWithUsage(t *testing.T) {
	modes(t, func(t *testing.T, config func(*testing.T) guest.Config) {
		h := begin(t, config(t))
		for i, id := range []string{"a", "b", "c", "d", "e", "f"} {
			e := h.sh(id, "i=0; while [ $i -lt $1 ]; do i=$((i+1)); done")
			e.Argv = append(e.Argv, []string{"0", "10000", "20000", "40000", "80000", "400000"}[i])
			e.CPUTimeMS = 20
			l := h.exec(e)
			l.started()
			exit := l.exit()
			over := exit.Usage.UserMicros+exit.Usage.SystemMicros > 20_000
			if over != (exit.Cause == wire.CauseCPUTime) {
				t.Errorf("exit %+v", exit)
			}
		}
	})
}

// A sleeping command uses no time, however low its limit.
func TestCPUTimeOfSleep(t *testing.T) {
	modes(t, func(t *testing.T, config func(*testing.T) guest.Config) {
		h := begin(t, config(t))
		e := h.sh("a", "sleep 0.5")
		e.CPUTimeMS = 200
		l := h.exec(e)
		l.started()
		if exit := l.exit(); exit.Cause != wire.CauseExited || exit.Code != 0 {
			t.Errorf("exit %+v", exit)
		}
	})
}

func TestCPUTimeRefused(t *testing.T) {
	h := begin(t, guest.Config{})
	e := h.sh("a", "true")
	e.CPUTimeMS = -1
	h.ask(wire.Request{Op: wire.OpExec, Exec: &e}).failure(wire.CodeInvalid)
	shell := wire.Exec{ID: "b", Shell: &wire.ShellRun{Cmd: []byte("true")}, Env: []string{}, UID: os.Getuid(), GID: os.Getgid(), CPUTimeMS: 100}
	h.ask(wire.Request{Op: wire.OpExec, Exec: &shell}).failure(wire.CodeInvalid)
}
