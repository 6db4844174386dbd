//go:build linux

// Package confine limits kernel memory that no cgroup is charged for: netlink sockets, file locks, connections that no program has accepted,
// and parts of datagrams.
package confine

import (
	"cmp"
	"os"
	"slices"
	"unsafe"

	"github.com/belljar/belljar/internal/agent/guest/identity"
	"golang.org/x/sys/unix"
)

// maxNetlink is the maximum number of netlink sockets in a sandbox. The kernel charges no cgroup for their queues, about 200 KiB
// each. Programs need one at a time, to list network interfaces.
const maxNetlink = 64

// supervisor creates the netlink sockets of programs, up to the limit. A seccomp filter that all processes of the sandbox inherit
// notifies it of each such call. It counts the sockets of the network namespace, not of processes, which can pass sockets on. It
// creates each socket itself, one at a time, so that none appears between two counts.
//
// It also admits calls for file locks, and for listening and UDP sockets, up to their limits.
type supervisor struct {
	calls     *os.File // the filter's listener
	secret    secret
	locks     *ledger
	listening gauge
	datagrams gauge
}

// secret marks the agent's own calls, in arguments that socket(2) and listen(2) do not have, so that the filter allows them.
type secret [3]uint32

// notification is struct seccomp_notif: a call that waits for its response.
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

// arguments is the offset of the arguments in struct seccomp_data, after the call's number at 0. The lower half of each comes
// first.
const arguments = 16

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func unless(value uint32, skip uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: skip, K: value}
}

// netlinkFilter returns what for calls that create netlink sockets without the secret, and allows all others.
func netlinkFilter(own secret, what uint32) []unix.SockFilter {
	return append([]unix.SockFilter{
		load(0), unless(unix.SYS_SOCKET, 8),
		load(arguments), unless(unix.AF_NETLINK, 6), // the kernel reads only 32 bits of the family
	}, own.filter(what)...)
}

// filter returns what for a call without the secret, and allows others.
func (s secret) filter(what uint32) []unix.SockFilter {
	return []unix.SockFilter{
		load(arguments + 3*8), unless(s[0], 5),
		load(arguments + 4*8), unless(s[1], 3),
		load(arguments + 5*8), unless(s[2], 1),
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET | unix.BPF_K, K: what},
	}
}

// Bound installs the filter in all threads of this process. If the kernel supports no supervisor, or an outer container has one
// already, netlink sockets are forbidden, and the other limits are missing.
func Bound(locksFD int) error {
	if identity.NoFileIDs() {
		return nil // gVisor's kernel, whose sockets are its own memory
	}
	locks := newLedger(locksFD)
	// crypto/rand would add a tenth to the size of the agent.
	if _, err := unix.Getrandom((*[unsafe.Sizeof(own)]byte)(unsafe.Pointer(&own))[:], 0); err != nil {
		return err
	}
	fd, err := install(slices.Concat(socketFilter(own), locks.filter(), netlinkFilter(own, unix.SECCOMP_RET_USER_NOTIF)), unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH)
	if err == unix.EBUSY || err == unix.EINVAL {
		_, err = install(netlinkFilter(own, unix.SECCOMP_RET_ERRNO|uint32(unix.EAFNOSUPPORT)), 0)
		return err
	}
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // to use the poller
		return err
	}
	// Since Linux 6.6, the kernel can switch directly to the supervisor on the caller's processor, which takes a tenth of the
	// time.
	const setFlags, syncWakeUp = 0x40082104, 1 // SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
	unix.Syscall(unix.SYS_IOCTL, uintptr(fd), setFlags, syncWakeUp)
	c := &supervisor{calls: os.NewFile(uintptr(fd), "netlink"), secret: own, locks: locks, listening: gauge{most: maxListening, count: listening},
		datagrams: gauge{most: maxDatagrams, count: datagrams}}
	go c.serve()
	return nil
}

// install installs a filter in all threads of this process.
func install(code []unix.SockFilter, flags uintptr) (fd int, err error) {
	prog := &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	r, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags|unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(prog)))
	if e != 0 {
		return 0, e
	}
	return int(r), nil
}

// serve handles calls until the process ends.
func (c *supervisor) serve() {
	conn, err := c.calls.SyscallConn()
	var n notification
	for err == nil {
		var e unix.Errno
		wait := 0
		if n.nr == unix.SYS_FCNTL {
			wait = 5 // milliseconds: another call often follows, and Go's poller takes ten times as long as the kernel
		}
		err = conn.Read(func(fd uintptr) bool {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if ready, err := unix.Poll(poll, wait); ready == 0 && err == nil {
				return false // the kernel would wait for the next call
			}
			n = notification{} // the kernel requires zeros
			_, _, e = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n)))
			return true
		})
		if err != nil || e != 0 { // interrupted, or the caller was killed
			continue
		}
		if refused := c.answer(n); refused != nil && refused != unix.ENOENT { // ENOENT means that the caller has ended
			c.refuse(n, refused)
		}
	}
}

// answer performs a call, or returns its error.
func (c *supervisor) answer(n notification) error {
	switch n.nr {
	case unix.SYS_CLONE:
		c.locks.share()
	case unix.SYS_FCNTL:
		if !c.locks.admit() {
			return unix.ENOLCK
		}
	case unix.SYS_LISTEN:
		if !c.listening.admit() {
			return unix.ENOBUFS
		}
	default:
		if uint32(n.args[0]) == unix.AF_NETLINK {
			return c.make(n)
		}
		if !c.datagrams.admit() {
			return unix.ENOBUFS
		}
	}
	const goOn = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE; the filter checked registers only, which cannot change
	_, err := c.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer{id: n.id, flags: goOn}))
	return err
}

// make creates the requested socket and installs it in the caller.
func (c *supervisor) make(n notification) error {
	living, err := sockets(func(protocol string) bool { return protocol == "NETLINK" })
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
	const send = 2 // SECCOMP_ADDFD_FLAG_SEND: it is also the response
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

// refuse responds with an error.
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
