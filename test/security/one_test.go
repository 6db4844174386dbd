//go:build linux

package security

import (
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Each function takes one of a kernel budget on the host, and gives it back.

func oneContext() error {
	var context uintptr
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&context)), 0); errno != 0 {
		return errno
	}
	unix.Syscall(unix.SYS_IO_DESTROY, context, 0, 0)
	return nil
}

func oneInotify() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	unix.Close(fd)
	return err
}

func oneQueue() error {
	name, err := unix.BytePtrFromString("belljar-test-" + strings.Repeat("x", 8))
	if err != nil {
		return err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	unix.Close(int(fd))
	unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0)
	return nil
}

func oneTimer() error {
	event := struct {
		value          uint64
		signal, notify int32
		_              [48]byte
	}{signal: int32(unix.SIGURG)}
	var id int32
	if _, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id))); errno != 0 {
		return errno
	}
	unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(id), 0, 0)
	return nil
}

func oneInFlight() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	return unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(0), nil, 0)
}

func oneKey() error {
	const processRing = -2
	id, err := unix.AddKey("user", "belljar-test", []byte("data"), processRing)
	if err != nil {
		return err
	}
	_, err = unix.KeyctlInt(unix.KEYCTL_UNLINK, id, processRing, 0, 0)
	return err
}

func oneLabel() error {
	const manager, get, create, exclusive = 32, 0, 1, 1 // IPV6_FLOWLABEL_MGR
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var request [32]byte // struct in6_flowlabel_req: an address, a label, action, sharing, flags, times
	request[15] = 1
	request[20], request[21], request[22] = get, exclusive, create
	return unix.SetsockoptString(fd, unix.IPPROTO_IPV6, manager, string(request[:]))
}

func oneLocked() error {
	const lock = 11 // SHM_LOCK
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 1<<19, 0o600|unix.IPC_CREAT)
	if err != nil {
		return err
	}
	_, err = unix.SysvShmCtl(id, lock, nil)
	unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	return err
}

func onePipe() error {
	const whole = 64 << 10
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	size, err := unix.FcntlInt(uintptr(ends[0]), unix.F_GETPIPE_SZ, 0)
	if err == nil && size < whole {
		return fmt.Errorf("a pipe of %d bytes", size)
	}
	return err
}

func oneWatch() error {
	instance, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(instance)
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.EpollCtl(instance, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN})
}
