//go:build linux

package guest_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// An interrupt directly after the request ends that command, and neither the interpreter nor the next command.
func TestInterruptedAtOnce(t *testing.T) {
	for name, of := range map[string]struct {
		kernel, set, show string
		endless           []string
	}{
		"python": {wire.KernelPython, "x = 41", "print(x)", []string{"while True: pass", "import time; time.sleep(1000)"}},
		"node":   {wire.KernelNode, "x = 41", "console.log(x)", []string{"while (true) {}", "await new Promise(() => {})"}},
		"bash":   {"", "x=41", "echo $x", []string{"while :; do :; done", "sleep 1000"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := begin(t, guest.Config{}).notebook(of.kernel)
			l := n.exec(n.cell(of.set))
			pid := l.started().Pid
			n.follow(l, "")
			interrupted := func(code string) {
				t.Helper()
				l := n.exec(n.cell(code))
				l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{End: true, GraceMS: enough}})
				l.started()
				waits := n.exec(n.cell(of.show))
				if c := n.follow(l, ""); c.exit.Cause != wire.CauseEnded || c.exit.Shell.Replaced {
					t.Fatalf("%q: %+v", code, c)
				}
				if c := n.follow(waits, ""); c.out != "41\n" || c.exit.Cause != wire.CauseExited || c.exit.Code != 0 || c.exit.Shell.Replaced {
					t.Fatalf("after %q: %+v", code, c)
				}
			}
			for range 20 {
				for _, code := range of.endless {
					interrupted(code)
				}
			}
			// An interpreter that is slow to begin the command gets the interrupt again.
			if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			interrupted(of.endless[0])
		})
	}
}

// Python ignores an interrupt between its last instruction before a system call and that call. A later one ends the call.
func TestLostInterrupt(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.wants("x = 41", "")
	l := n.exec(n.cell(`import signal, time
own = signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, own))
print("up", flush=True)
time.sleep(1000)`))
	n.follow(l, "up")
	l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{End: true, GraceMS: 2000}})
	if c := n.follow(l, ""); c.exit.Cause != wire.CauseEnded || c.exit.Shell.Replaced {
		t.Errorf("%+v", c)
	}
	n.wants("x", "41")
	// It does not interrupt what the cell does about the first.
	l = n.exec(n.cell(`import os, signal
said, heard = os.pipe()
os.set_blocking(heard, False)
try:
    print("up", flush=True)
    while True: pass
except KeyboardInterrupt:
    signal.set_wakeup_fd(heard)
    os.read(said, 1)
    signal.set_wakeup_fd(-1)
    x = 42`))
	n.follow(l, "up")
	l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{End: true, GraceMS: 2000}})
	if c := n.follow(l, ""); c.exit.Cause != wire.CauseEnded || c.exit.Shell.Replaced || c.errs != "" {
		t.Errorf("%+v", c)
	}
	n.wants("x", "42")
}
