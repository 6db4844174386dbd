//go:build linux

package process

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A killed process may take long to die on a busy machine. Meanwhile it does not count as new, and uses up no rounds.
func TestSweepWaitsForTheDead(t *testing.T) {
	death, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK) // readable like a pidfd, once the process is dead
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(death)
	const slow = 500 * time.Millisecond // longer than the pauses between rounds
	dies := time.AfterFunc(slow, func() { unix.Write(death, []byte{1, 0, 0, 0, 0, 0, 0, 0}) })
	defer dies.Stop()
	isDead := func(fd int) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0
	}
	list := func() []*Process {
		fd, err := unix.FcntlInt(uintptr(death), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil || isDead(fd) {
			unix.Close(fd)
			return nil
		}
		return []*Process{{pid: 1 << 30, start: 1, fd: fd}} // no process has this pid
	}
	pause := func(d time.Duration) bool {
		time.Sleep(d)
		return true
	}
	if !Sweep(8, list, pause) {
		t.Error("the sweep stopped while a process was dying")
	}
}
