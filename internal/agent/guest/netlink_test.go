//go:build linux

package guest_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/guest/confine"
	"github.com/belljar/belljar/test/need"
)

const maxNetlink = 64 // as documented

// A sandbox has at most 64 netlink sockets, whichever process holds them, and each is as requested. The test runs in its own
// process and network namespace, since a filter cannot be removed.
func TestNetlinkSockets(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), "GUEST_TEST_NETLINK=confined")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:   unix.SIGKILL,
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil {
		need.Missing(t, "namespaces: %v", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// beConfined is the process of TestNetlinkSockets, and the programs that it starts: the agent itself opens no such socket.
func beConfined(how string) {
	err := map[string]func() error{"confined": confined, "program": program, "another": another}[how]()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func netlinkSocket(kind int) (int, error) {
	return unix.Socket(unix.AF_NETLINK, kind, unix.NETLINK_ROUTE)
}

// become starts this program as another process.
func become(how string) error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "GUEST_TEST_NETLINK="+how)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", how, err, out)
	}
	return nil
}

func confined() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := guest.Confine(guest.Config{}); err != nil {
		return err
	}
	for range 2 * maxListening { // the agent's own do not count
		l, err := confine.ListenTCP(net.IPv4zero, 0)
		if err != nil {
			return err
		}
		defer l.Close()
	}
	return become("program")
}

func program() error {
	fds, err := asManyAsThereAre()
	if err != nil || len(fds) != maxNetlink {
		return fmt.Errorf("%d sockets, want %d: %v", len(fds), maxNetlink, err)
	}
	if err := become("another"); err != nil {
		return err
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	return errors.Join(asAsked(), otherFamilies(), listeners(), datagrams())
}

// another fails to open a socket while the first process has all.
func another() error {
	if _, err := netlinkSocket(unix.SOCK_RAW); err != unix.EMFILE {
		return fmt.Errorf("one more socket: %v, want %v", err, unix.EMFILE)
	}
	return nil
}

// asManyAsThereAre opens sockets in many threads concurrently until the limit.
func asManyAsThereAre() (fds []int, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				fd, refused := netlinkSocket(unix.SOCK_RAW | unix.SOCK_CLOEXEC)
				mu.Lock()
				if refused == nil {
					fds = append(fds, fd)
				} else if refused != unix.EMFILE {
					err = refused
				}
				over := refused != nil || len(fds) > maxNetlink
				mu.Unlock()
				if over {
					return
				}
			}
		})
	}
	all.Wait()
	return fds, err
}

// asAsked checks sockets: they have the requested type and flags, and errors are the kernel's.
func asAsked() error {
	for _, kind := range []int{unix.SOCK_RAW, unix.SOCK_DGRAM, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK} {
		fd, err := netlinkSocket(kind)
		if err != nil {
			return fmt.Errorf("socket of type %#x: %w", kind, err)
		}
		is, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
		flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		status, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		protocol, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
		if err != nil || is != kind&0xf || protocol != unix.NETLINK_ROUTE ||
			(flags&unix.FD_CLOEXEC != 0) != (kind&unix.SOCK_CLOEXEC != 0) || (status&unix.O_NONBLOCK != 0) != (kind&unix.SOCK_NONBLOCK != 0) {
			return fmt.Errorf("socket of type %#x: type %#x, protocol %d, flags %#x and %#x, %v", kind, is, protocol, flags, status, err)
		}
		unix.Close(fd)
	}
	if _, err := netlinkSocket(unix.SOCK_STREAM); err != unix.ESOCKTNOSUPPORT {
		return fmt.Errorf("a stream of netlink: %v, want %v", err, unix.ESOCKTNOSUPPORT)
	}
	if _, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 1000); err != unix.EPROTONOSUPPORT {
		return fmt.Errorf("netlink of protocol 1000: %v, want %v", err, unix.EPROTONOSUPPORT)
	}
	return nil
}

// otherFamilies checks that the supervisor handles netlink only, and all of it: the kernel reads 32 bits of a family and ignores
// the rest of the register.
func otherFamilies() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	unix.Close(fd)
	fds, err := asManyAsThereAre()
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	if err != nil || len(fds) != maxNetlink {
		return fmt.Errorf("%d sockets after others were closed, want %d: %v", len(fds), maxNetlink, err)
	}
	for _, rest := range [][3]uintptr{{0, 0, 0}, {1, 2, 3}, {^uintptr(0), ^uintptr(0), ^uintptr(0)}} {
		for _, family := range []uintptr{unix.AF_NETLINK, unix.AF_NETLINK | 1<<32} {
			if _, _, errno := unix.Syscall6(unix.SYS_SOCKET, family, unix.SOCK_RAW, 0, rest[0], rest[1], rest[2]); errno != unix.EMFILE {
				return fmt.Errorf("family %#x with %#x: %v, want %v", family, rest, errno, unix.EMFILE)
			}
		}
	}
	return nil
}
