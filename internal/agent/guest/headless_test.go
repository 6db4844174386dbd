//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// beHeadless runs a program whose first thread ends while another one continues.
func beHeadless() {
	first := os.Getpid()
	go func() {
		runtime.LockOSThread()
		for unix.Gettid() == first { // this is the first thread: use another one
			runtime.UnlockOSThread()
			runtime.Gosched()
			runtime.LockOSThread()
		}
		gone := fmt.Sprintf("/proc/%d/task/%d/stat", first, first)
		for {
			raw, err := os.ReadFile(gone)
			var pid int
			var name string
			var state rune
			if _, e := fmt.Sscanf(string(raw), "%d %s %c", &pid, &name, &state); err != nil || e != nil || state == 'Z' {
				break
			}
			time.Sleep(time.Millisecond)
		}
		fmt.Println(first)
		fmt.Println("up")
		for {
			time.Sleep(time.Hour)
		}
	}()
	runtime.LockOSThread() // package testing calls on the main goroutine, which TestMain's caller has not locked to a thread
	for unix.Gettid() != first {
		runtime.UnlockOSThread()
		runtime.Gosched()
		runtime.LockOSThread()
	}
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0) // not a raw call: with a single processor the other thread needs this one's
}

// A program whose first thread has ended looks dead in /proc, but still ends with its command.
func TestTimeoutKillsTheHeadless(t *testing.T) {
	modes(t, func(t *testing.T, config func(*testing.T) guest.Config) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		h := begin(t, config(t))
		l := h.exec(wire.Exec{
			ID: "a", Argv: []string{self}, Env: []string{"GUEST_TEST_HEADLESS=1"}, UID: os.Getuid(), GID: os.Getgid(),
		})
		l.started()
		var pid int
		if _, err := fmt.Sscan(l.await("up\n"), &pid); err != nil {
			t.Fatal(err)
		}
		if !h.ask(wire.Request{Op: wire.OpSignal, ID: "a", Kill: &wire.Kill{End: true}}).reply().Done {
			t.Fatal("not done")
		}
		if exit := l.exit(); exit.Cause != wire.CauseEnded || exit.Signal != int(unix.SIGKILL) {
			t.Errorf("exit %+v", exit)
		}
		h.gone(pid)
	})
}
