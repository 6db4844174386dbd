//go:build linux

package main

import (
	"cmp"

	"golang.org/x/sys/unix"
)

// watches takes epoll watches: each of many instances watches each of many descriptors.
func watches() func() error {
	const each = 400
	var watched []int
	instance, next := -1, each
	return func() error {
		for len(watched) < each {
			fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
			if err != nil {
				return err
			}
			watched = append(watched, fd)
		}
		if next == each {
			fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
			if err != nil {
				return err
			}
			instance, next = fd, 0
		}
		next++
		return unix.EpollCtl(instance, unix.EPOLL_CTL_ADD, watched[next-1], &unix.EpollEvent{Events: unix.EPOLLIN})
	}
}

// takePipe makes the largest pipe possible. The kernel limits the total capacity of a user's pipes; a user above the limit gets
// small ones.
func takePipe() error {
	const whole = 64 << 10 // the capacity of a new one
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	if size, err := unix.FcntlInt(uintptr(ends[0]), unix.F_GETPIPE_SZ, 0); err != nil || size < whole {
		return unix.ENOBUFS
	}
	_, err := unix.FcntlInt(uintptr(ends[0]), unix.F_SETPIPE_SZ, mib)
	return err
}

// inFlight sends descriptors that are never received.
func inFlight() func() error {
	to := -1
	return func() error {
		for {
			if to >= 0 {
				if err := unix.Sendmsg(to, []byte{0}, unix.UnixRights(0), nil, 0); err != unix.EAGAIN {
					return err
				}
				unix.Close(to) // full; the other end keeps the queued data
			}
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				return err
			}
			to = pair[0]
		}
	}
}

// takeLocked locks half a MiB of shared memory, which the kernel counts by user. It stays until the process ends.
func takeLocked() error {
	const lock = 11 // SHM_LOCK
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, mib/2, 0o600|unix.IPC_CREAT)
	if err != nil {
		return err
	}
	_, err = unix.SysvShmCtl(id, lock, nil)
	if err == nil {
		_, err = unix.SysvShmAttach(id, 0, 0)
	}
	if _, gone := unix.SysvShmCtl(id, unix.IPC_RMID, nil); err == nil {
		err = gone
	}
	return err
}

var keys int

// takeKey adds a key to the ring of the process.
func takeKey() error {
	const ring = ^uintptr(1) // KEY_SPEC_PROCESS_KEYRING
	keys++
	return call(unix.SYS_ADD_KEY, cstr("user"), cstr("probe"+itoa(keys)), cstr("data"), 4, ring)
}

// takeLabel takes an IPv6 flow label, which stays for a minute after its socket.
func takeLabel() error {
	const manager, get, create, exclusive, linger = 32, 0, 1, 1, 60 // IPV6_FLOWLABEL_MGR
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var request [32]byte // struct in6_flowlabel_req: an address, a label, action, sharing, flags, times
	request[15] = 1
	request[20], request[21], request[22], request[26] = get, exclusive, create, linger
	return unix.SetsockoptString(fd, unix.IPPROTO_IPV6, manager, string(request[:]))
}

// options makes sockets hold memory that the kernel charges to no cgroup.
func options(r *report, _ []string) {
	r.refused("a flow label", takeLabel(), unix.EPERM)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	r.works("socket", err)
	for _, option := range []int{unix.TCP_MD5SIG, unix.TCP_MD5SIG_EXT, 38, 39, 40} { // and TCP_AO_*
		r.refused("TCP option "+itoa(option), unix.SetsockoptString(fd, unix.IPPROTO_TCP, option, "key"), unix.EPERM)
	}
	if !ownKernel() { // gVisor's kernel has no such protocols
		r.refused("TLS in the kernel", unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_ULP, "tls"), unix.EPERM)
	}
	r.works("TCP_NODELAY", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
}

// flush asks the kernel to flush pending writes to disks, by files that it cannot write to, as often as the host's hook counts. The
// calls must do nothing: they succeed even without a valid file. gVisor's kernel looks for one, but must ask the host for nothing.
func flush(r *report, _ []string) {
	const willNeed, dontNeed = 3, 4 // advice
	for name, nr := range map[string]uintptr{"syncfs": unix.SYS_SYNCFS, "fsync": unix.SYS_FSYNC, "fdatasync": unix.SYS_FDATASYNC} {
		if err := call(nr, ^uintptr(0)); err != nil && !ownKernel() {
			r.breach("%s has looked for a file: %v", name, err)
		}
	}
	if err := call(unix.SYS_FADVISE64, ^uintptr(0), 0, 0, dontNeed); err != nil && !ownKernel() {
		r.breach("fadvise64 has looked for a file to drop from the cache: %v", err)
	}
	file, err := unix.Open("/bin/sh", unix.O_RDONLY, 0)
	r.works("open", err)
	folder, err := unix.Open("/bin", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	r.works("open the folder", err)
	page, err := unix.Mmap(file, 0, 1, unix.PROT_READ, unix.MAP_SHARED)
	r.works("map", err)
	r.works("other advice", call(unix.SYS_FADVISE64, uintptr(file), 0, 0, willNeed))
	own, err := unix.Open("flushed", unix.O_CREAT|unix.O_WRONLY, 0o600)
	r.works("create", err)
	r.works("fsync of its own file", unix.Fsync(own))
	for name, do := range map[string]func() error{
		"fsync":               func() error { return unix.Fsync(file) },
		"fsync of the folder": func() error { return unix.Fsync(folder) },
		"fdatasync":           func() error { return unix.Fdatasync(file) },
		"msync":               func() error { return unix.Msync(page, unix.MS_SYNC) },
		"sync_file_range": func() error {
			return unix.SyncFileRange(file, 0, 1, unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
		},
	} {
		var failed error
		for range 30_000 {
			failed = cmp.Or(failed, do())
		}
		r.works(name, failed)
	}
	for range 1000 { // gVisor's kernel flushes each file that it has open
		err = call(unix.SYS_SYNC)
	}
	r.works("sync", err)
}
