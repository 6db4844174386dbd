//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// notify asks for signals about the files of a folder, and for leases.
func notify(r *report, _ []string) {
	folder, err := unix.Open("/bin", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	r.works("open /bin", err)
	const access, multishot = 1, 1 << 31
	_, err = unix.FcntlInt(uintptr(folder), unix.F_NOTIFY, access|multishot)
	r.refused("F_NOTIFY", err, unix.EINVAL)
	file, err := os.CreateTemp("/tmp", "lease")
	r.works("a file", err)
	for _, kind := range []int{unix.F_RDLCK, unix.F_WRLCK} {
		_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, kind)
		r.refused(fmt.Sprintf("a lease of kind %d", kind), err, unix.EINVAL)
	}
	_, err = unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	r.works("F_GETFL", err)
}

// await waits for changes of files whose queue of those who wait is the whole host's.
func await(r *report, _ []string) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	r.works("epoll", err)
	for _, name := range []string{"/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/proc/swaps"} {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil { // otherwise it is hidden
			err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLPRI})
			r.refused("to wait for a change of "+name, err, unix.EPERM)
		}
	}
}

// marks makes as many inotify instances as it can, each of which watches the same file.
func marks(r *report, args []string) {
	most, err := strconv.Atoi(args[0])
	r.works("parse", err)
	n := 0
	for ; n <= most; n++ {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			r.refused(fmt.Sprintf("instance %d", n+1), err, unix.EMFILE)
			break
		}
		_, err = unix.InotifyAddWatch(fd, "/bin/sh", unix.IN_OPEN)
		r.works("to watch", err)
	}
	if n == 0 || n > most {
		r.breach("%d watches of one file, and not %d at most", n, most)
	}
}

// alien searches for device nodes of the host, by the inodes in LANE_DEVICES: in /dev, and among the covers of files in /proc.
func alien(r *report, _ []string) {
	hosts := strings.Fields(os.Getenv("LANE_DEVICES"))
	if len(hosts) == 0 {
		r.breach("control: no inodes")
	}
	for _, name := range []string{
		"dev/null", "dev/zero", "dev/full", "dev/random", "dev/urandom", "dev/tty", "proc/kcore", "proc/keys", "proc/timer_list",
		"proc/locks", "proc/cmdline", "proc/sys/fs/file-nr",
	} {
		var s unix.Stat_t
		if err := unix.Stat("/"+name, &s); err == unix.ENOENT && strings.HasPrefix(name, "proc/") {
			continue // not every kernel has all
		} else if err != nil {
			r.works("stat "+name, err)
		} else if slices.Contains(hosts, fmt.Sprintf("%d:%d", s.Dev, s.Ino)) {
			r.breach("/%s is the host's", name)
		}
	}
}
