//go:build linux

package security

import (
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// takes keeps another sandbox alive meanwhile that has taken all that it could get of one of the probe's budgets. What is
// left must be enough for the host, on which the attack then is tried once.
func takes(budget string) hook {
	return func(t *testing.T, tr *trial) func(outcome) {
		other := tr.lane.trial(t)
		other.flags = []string{"--workspace-exec", "--file", built.Probe + ":probe"}
		end := other.hold("mkfifo /tmp/took; ./probe take " + budget + " >/tmp/took & head -n 1 /tmp/took >&2")
		return func(outcome) {
			if err := oneMore(budget); err != nil {
				t.Errorf("the host has no more of %s: %v", budget, err)
			}
			end()
		}
	}
}

// oneMore takes one of a budget and gives it back.
func oneMore(budget string) error {
	var errno unix.Errno
	switch budget {
	case "aio":
		var context uintptr
		if _, _, errno = unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&context)), 0); errno == 0 {
			unix.Syscall(unix.SYS_IO_DESTROY, context, 0, 0)
		}
	case "inotify":
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		unix.Close(fd)
		return err
	case "queues":
		name, err := unix.BytePtrFromString("belljar-test-" + strings.Repeat("x", 8))
		if err != nil {
			return err
		}
		fd, _, e := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
		if errno = e; e == 0 {
			unix.Close(int(fd))
			unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0)
		}
	case "signals":
		event := struct {
			value          uint64
			signal, notify int32
			_              [48]byte
		}{signal: int32(unix.SIGURG)}
		var id int32
		_, _, errno = unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id)))
		if errno == 0 {
			unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(id), 0, 0)
		}
	default:
		return errors.New("unknown")
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// bootID tells the attack what must not be known.
func bootID(t *testing.T, tr *trial) func(outcome) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	tr.flags = append(tr.flags, "--env", "LANE_BOOT="+strings.TrimSpace(string(id)))
	return func(outcome) {}
}
