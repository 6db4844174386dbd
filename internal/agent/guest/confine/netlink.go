//go:build linux

// Package confine bounds what programs can have of the kernel that it charges to no cgroup: netlink sockets and file locks.
package confine

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"strconv"
	"unsafe"

	"github.com/belljar/belljar/internal/agent/guest/identity"
	"golang.org/x/sys/unix"
)

// maxNetlink is how many netlink sockets a sandbox may have: the kernel charges no cgroup for what waits in them, about 200 KiB
// each. Programs need one at a time, to list network interfaces.
const maxNetlink = 64

// supervisor makes the netlink sockets that programs ask for, as long as there are few. The kernel hands it every such call,
// by a seccomp filter that all processes of the sandbox inherit. It counts the sockets of the network namespace, and not of
// processes, which can pass them on; and it makes each itself, one at a time, so that none is made between two counts.
//
// It also lets calls for file locks continue, as long as there are few.
type supervisor struct {
	calls  *os.File // the filter's listener
	secret secret
	locks  *ledger
}

// secret is what the supervisor's own calls carry, in arguments that socket(2) does not have: the filter lets them through.
type secret [3]uint32

// notification is struct seccomp_notif: a call that waits for its answer.
type notification struct {
	id   uint64
	pid  uint32
	_    uint32
	nr   int32
	_    uint32 // architecture
	_    uint64 // instruction pointer
	args [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	val   int64
	error int32
	flags uint32
}

// addition is struct seccomp_notif_addfd.
type addition struct {
	id         uint64
	flags      uint32
	from, to   uint32
	descriptor uint32 // its flags
}

// arguments is where they begin in struct seccomp_data, after the call's number at 0. Of each the lower half comes first.
const arguments = 16

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func unless(value uint32, skip uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: skip, K: value}
}

// netlinkFilter answers the calls for netlink sockets with what, unless they carry the secret, and allows all others.
func netlinkFilter(own secret, what uint32) []unix.SockFilter {
	return []unix.SockFilter{
		load(0), unless(unix.SYS_SOCKET, 8),
		load(arguments), unless(unix.AF_NETLINK, 6), // the kernel reads no more of the family
		load(arguments + 3*8), unless(own[0], 5),
		load(arguments + 4*8), unless(own[1], 3),
		load(arguments + 5*8), unless(own[2], 1),
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET | unix.BPF_K, K: what},
	}
}

// Bound puts the filter in force for all threads of this process. Where the kernel has no supervisor for calls, or
// a supervisor of an outer container already, there are no netlink sockets, and locks have no bound.
func Bound(locksFD int) error {
	if identity.NoFileIDs() {
		return nil // gVisor's kernel, whose sockets are memory of its own
	}
	locks := newLedger(locksFD)
	var own secret
	// Not crypto/rand, whose packages are a tenth of the agent.
	if _, err := unix.Getrandom((*[unsafe.Sizeof(own)]byte)(unsafe.Pointer(&own))[:], 0); err != nil {
		return err
	}
	fd, err := install(append(locks.filter(), netlinkFilter(own, unix.SECCOMP_RET_USER_NOTIF)...), unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH)
	if err == unix.EBUSY || err == unix.EINVAL {
		_, err = install(netlinkFilter(own, unix.SECCOMP_RET_ERRNO|uint32(unix.EAFNOSUPPORT)), 0)
		return err
	}
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // waits in the poller
		return err
	}
	// From Linux 6.6 on: the caller's processor continues with the supervisor, at a tenth of the time. Elsewhere it is slower.
	const setFlags, syncWakeUp = 0x40082104, 1 // SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
	unix.Syscall(unix.SYS_IOCTL, uintptr(fd), setFlags, syncWakeUp)
	c := &supervisor{calls: os.NewFile(uintptr(fd), "netlink"), secret: own, locks: locks}
	go c.serve()
	return nil
}

// install puts a filter in force for all threads of this process.
func install(code []unix.SockFilter, flags uintptr) (fd int, err error) {
	prog := &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	r, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags|unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(prog)))
	if e != 0 {
		return 0, e
	}
	return int(r), nil
}

// serve takes calls until the process ends.
func (c *supervisor) serve() {
	conn, err := c.calls.SyscallConn()
	var n notification
	for err == nil {
		var e unix.Errno
		wait := 0
		if n.nr == unix.SYS_FCNTL {
			wait = 5 // milliseconds: another often follows, and Go's poller takes ten times as long as the kernel
		}
		err = conn.Read(func(fd uintptr) bool {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if ready, err := unix.Poll(poll, wait); ready == 0 && err == nil {
				return false // the kernel would wait for the next call
			}
			n = notification{} // as the kernel demands
			_, _, e = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n)))
			return true
		})
		if err != nil || e != 0 { // interrupted, or the caller was killed
			continue
		}
		if refused := c.answer(n); refused != nil && refused != unix.ENOENT { // that is a caller that is gone
			c.refuse(n, refused)
		}
	}
}

// answer does what a call asks for, or states why not.
func (c *supervisor) answer(n notification) error {
	switch n.nr {
	case unix.SYS_CLONE:
		c.locks.share()
	case unix.SYS_FCNTL:
		if !c.locks.admit() {
			return unix.ENOLCK
		}
	default:
		return c.make(n)
	}
	const goOn = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE; what the filter looked at is in registers, and stays
	_, err := c.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer{id: n.id, flags: goOn}))
	return err
}

// make makes the socket that n asks for, and gives it to the caller.
func (c *supervisor) make(n notification) error {
	living, err := netlinkSockets()
	if err != nil {
		return unix.ENOBUFS
	}
	if living >= maxNetlink {
		return unix.EMFILE
	}
	kind := int(int32(n.args[1]))
	r, _, e := unix.RawSyscall6(unix.SYS_SOCKET, unix.AF_NETLINK, uintptr(kind|unix.SOCK_CLOEXEC), uintptr(n.args[2]),
		uintptr(c.secret[0]), uintptr(c.secret[1]), uintptr(c.secret[2]))
	if e != 0 {
		return e
	}
	fd := int(r)
	defer unix.Close(fd)
	const send = 2 // SECCOMP_ADDFD_FLAG_SEND: it is the answer, too
	add := addition{id: n.id, flags: send, from: uint32(fd)}
	if kind&unix.SOCK_CLOEXEC != 0 {
		add.descriptor = unix.O_CLOEXEC
	}
	_, err = c.ioctl(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&add))
	if err == unix.EINVAL { // before Linux 5.14
		add.flags = 0
		var got int
		if got, err = c.ioctl(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&add)); err == nil {
			_, err = c.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer{id: n.id, val: int64(got)}))
		}
	}
	return err
}

// refuse answers with an error.
func (c *supervisor) refuse(n notification, err error) {
	e, ok := err.(unix.Errno)
	if !ok {
		e = unix.EIO
	}
	c.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer{id: n.id, error: -int32(e)}))
}

func (c *supervisor) ioctl(request uintptr, at unsafe.Pointer) (result int, err error) {
	conn, err := c.calls.SyscallConn()
	if err != nil {
		return 0, err
	}
	fail := conn.Control(func(fd uintptr) {
		r, _, e := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(at))
		result = int(r)
		if e != 0 {
			err = e
		}
	})
	return result, cmp.Or(fail, err)
}

// netlinkSockets is how many there are in our network namespace, wherever their descriptors are.
func netlinkSockets() (int, error) {
	table, err := os.ReadFile("/proc/self/net/protocols")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(table) {
		if fields := bytes.Fields(line); len(fields) > 2 && string(fields[0]) == "NETLINK" {
			return strconv.Atoi(string(fields[2]))
		}
	}
	return 0, errors.New("the kernel does not count netlink sockets")
}
