//go:build linux

package forkexec_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/test/need"
)

// A namespace belongs to the given user. The thread keeps its rights meanwhile, and its own user returns
// afterwards.
func TestOwner(t *testing.T) {
	need.Root(t)
	const owner = 2_000_000_001
	status := func() string {
		var caps [2]unix.CapUserData
		if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &caps[0]); err != nil {
			t.Fatal(err)
		}
		if caps[0].Effective == 0 {
			return "none"
		}
		return "some"
	}
	failure := errors.New("failure")
	if err := forkexec.As(owner, func() error {
		uid := unix.Geteuid()
		if uid != owner || status() != "some" {
			t.Errorf("meanwhile user %d has %s capabilities", uid, status())
		}
		return failure
	}); err != failure {
		t.Errorf("got %v", err)
	}
	if uid := unix.Geteuid(); uid != 0 || status() != "some" {
		t.Errorf("afterwards user %d has %s capabilities", uid, status())
	}

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := forkexec.New()
	defer p.Free()
	p.Call(unix.SYS_DUP3, forkexec.Int(int(r.Fd())), forkexec.Int(0), forkexec.Int(0))
	p.Exec("/bin/cat", []string{"cat"}, nil)
	c, err := p.Start(forkexec.Options{Flags: unix.CLONE_NEWUSER, Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", c.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if uid, err := unix.IoctlGetUint32(int(ns.Fd()), unix.NS_GET_OWNER_UID); err != nil || uid != owner {
		t.Errorf("the namespace belongs to %d, %v", uid, err)
	}
	w.Close()
	wait(t, c)
}
