//go:build linux

package forkexec_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// The child polls a descriptor that only its own dup has made, through the structure that Store fills.
func TestStoreFillsAStructure(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := forkexec.New()
	defer p.Free()
	poll := forkexec.Alloc[unix.PollFd](p)
	poll.Fd, poll.Events = -1, unix.POLLOUT
	p.Open(unix.SYS_DUP, forkexec.Int(int(w.Fd())))
	p.Store(&poll.Fd)
	p.Call(unix.SYS_PPOLL, forkexec.Ptr(p, poll), forkexec.Int(1), forkexec.Int(0), forkexec.Int(0), forkexec.Int(8))
	p.Call(unix.SYS_WRITE, forkexec.Int(int(w.Fd())), forkexec.Ptr(p, poll), forkexec.Int(8))
	p.Exec("/bin/true", []string{"true"}, nil)
	c, err := p.Start(forkexec.Options{})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	wait(t, c)
	buf := make([]byte, 9)
	n, err := r.Read(buf)
	if err != nil || n != 8 || buf[0] == 0xff || buf[6]&unix.POLLOUT == 0 {
		t.Errorf("child's structure %v (%v), want a ready descriptor", buf[:n], err)
	}
	if poll.Fd != -1 {
		t.Errorf("the parent's own structure changed to %d", poll.Fd)
	}
}
