//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// budgets are fixed numbers of kernel objects: each function takes one more.
func budgets() map[string]func() error {
	return map[string]func() error{
		"aio":     func() error { return takeAIO(64) },
		"flight":  inFlight(),
		"inotify": takeInotify,
		"keys":    takeKey,
		"labels":  takeLabel,
		"locked":  takeLocked,
		"pipes":   takePipe,
		"queues":  takeQueue,
		"signals": takeTimer,
		"watches": watches(),
	}
}

// take takes as much as it can of a budget, up to a number, reports it in its first line and holds it.
func take(r *report, args []string) {
	most, err := strconv.Atoi(args[1])
	if err != nil {
		r.breach("control: %v", err)
		return
	}
	switch args[0] { // a process's own limit comes first for these
	case "flight":
		most = min(most, 3000)
	case "watches":
		most = min(most, 30_000)
	}
	n, one := 0, budgets()[args[0]]
	for n < most && err == nil {
		if err = one(); err == nil {
			n++
		}
	}
	fmt.Printf("took %d of %s: %v\n", n, args[0], err)
	unix.Pause()
}

// use takes as much of a budget as an ordinary program needs.
func use(r *report, args []string) {
	n, err := strconv.Atoi(args[1])
	r.works("parse", err)
	one := budgets()[args[0]]
	for i := range n {
		if err := one(); err != nil {
			r.breach("%s: %d and no more: %v", args[0], i, err)
			return
		}
	}
	fmt.Printf("%d of %s\n", n, args[0])
}

func takeInotify() error {
	_, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	return err
}

// takeTimer makes a POSIX timer, which holds a queued signal.
func takeTimer() error {
	event := struct {
		value          uint64
		signal, notify int32
		_              [48]byte
	}{signal: 40}
	var id int32
	return call(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id)))
}

var queues int

func takeQueue() error {
	queues++
	name, err := unix.BytePtrFromString(fmt.Sprintf("belljar-%d-%d", os.Getpid(), queues))
	if err != nil {
		return err
	}
	err = call(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0)
	return err
}

func takeAIO(events int) error {
	var context uintptr
	return call(unix.SYS_IO_SETUP, uintptr(events), uintptr(unsafe.Pointer(&context)))
}

// filters loads programs into the kernel: as filters of sockets and of system calls.
func filters(r *report, _ []string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	r.works("socket", err)
	code := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000}} // allow
	prog := unix.SockFprog{Len: 1, Filter: &code[0]}
	for _, option := range []int{unix.SO_ATTACH_FILTER, unix.SO_ATTACH_REUSEPORT_CBPF} {
		r.refused(fmt.Sprintf("socket option %d", option), unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, option, &prog), unix.EPERM)
	}
	for _, option := range []int{unix.SO_ATTACH_BPF, unix.SO_ATTACH_REUSEPORT_EBPF} {
		r.refused(fmt.Sprintf("socket option %d", option), unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, -1), unix.EPERM)
	}
	runtime.LockOSThread()
	r.works("no new privileges", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	err = call(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	r.refused("a seccomp filter", err, unix.EINVAL)
	r.refused("a seccomp filter by prctl", unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0), unix.EINVAL)
	if !ownKernel() {
		action := uint32(unix.SECCOMP_RET_ERRNO)
		err = call(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
		r.works("to ask for an action", err)
	}
}

// netlinks opens netlink sockets endlessly, from many threads at the same time, and hides some in
// flight.
func netlinks(r *report, args []string) {
	most, err := strconv.Atoi(args[0])
	r.works("parse", err)
	_, err = net.Interfaces()
	r.works("to list interfaces", err)
	open := func() (got []int) {
		var busy sync.WaitGroup
		var mu sync.Mutex
		for range 32 {
			busy.Go(func() {
				for over := false; !over; {
					fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
					mu.Lock()
					if err == nil {
						got = append(got, fd)
					}
					over = err != nil || len(got) > most
					mu.Unlock()
				}
			})
		}
		busy.Wait()
		return got
	}
	got := open()
	fmt.Printf("%d netlink sockets\n", len(got))
	if len(got) > most {
		r.breach("more than %d netlink sockets", most)
		return
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	r.works("socket pair", err)
	r.works("to pass them on", unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(got...), nil, 0))
	for _, fd := range got {
		unix.Close(fd)
	}
	if n := len(open()); n > 0 {
		r.breach("%d more while others are in flight", n)
	}
}

// buffers leaves as many bytes as it can in unread TCP sockets.
func buffers(r *report, args []string) {
	most, err := strconv.Atoi(args[0])
	r.works("parse", err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.breach("control: %v", err)
		return
	}
	sent := 0
	junk := make([]byte, 64<<10)
	for range 60 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			break
		}
		if _, err := l.Accept(); err != nil {
			break
		}
		raw, err := c.(*net.TCPConn).SyscallConn()
		r.works("raw", err)
		raw.Write(func(fd uintptr) bool {
			for {
				n, err := unix.Write(int(fd), junk)
				if err != nil {
					return true
				}
				sent += n
			}
		})
		heldConns = append(heldConns, c)
	}
	fmt.Printf("%d MiB wait in sockets\n", sent>>20)
	if sent>>20 > most {
		r.breach("%d MiB wait in sockets, more than %d", sent>>20, most)
	}
}

var heldConns []net.Conn // kept until the end
