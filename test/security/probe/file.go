//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// fds lists the descriptors of a fresh program: only its three streams, none of them a folder or a socket of the host
// (CVE-2024-21626 began with one leaked folder).
func fds(r *report, _ []string) {
	self, err := os.Open("/proc/self/fd")
	r.works("open /proc/self/fd", err)
	names, err := self.Readdirnames(-1)
	r.works("list /proc/self/fd", err)
	for _, name := range names {
		fd, _ := strconv.Atoi(name)
		var st unix.Stat_t
		if fd == int(self.Fd()) || unix.Fstat(fd, &st) != nil {
			continue
		}
		target, _ := os.Readlink("/proc/self/fd/" + name)
		kind := st.Mode & unix.S_IFMT
		switch {
		case fd <= 2 && (kind == unix.S_IFIFO || target == "/dev/null" || kind == unix.S_IFREG && strings.HasPrefix(target, "/workspace/")):
			fmt.Printf("descriptor %d: %s\n", fd, target)
		case strings.HasPrefix(target, "anon_inode:[event"): // the Go runtime's own
		default:
			r.breach("descriptor %d is %s", fd, target)
		}
		// A descriptor that leads to a folder leads out of it.
		if dir, err := unix.Openat(fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			if fd != int(self.Fd()) {
				r.breach("descriptor %d leads to a folder", fd)
			}
			unix.Close(dir)
		}
	}
}

// descriptors opens files up to the limit, and then tries to raise it.
func descriptors(r *report, args []string) {
	most, err := strconv.Atoi(args[0])
	r.works("parse", err)
	opened := 0
	for ; opened < 10*most; opened++ {
		if _, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			break
		}
	}
	r.refused(fmt.Sprintf("open file number %d", opened), err, unix.EMFILE)
	if opened > most {
		r.breach("%d files open, the limit is %d", opened, most)
	}
	more := unix.Rlimit{Cur: uint64(most) * 2, Max: uint64(most) * 2}
	r.refused("a higher limit", unix.Setrlimit(unix.RLIMIT_NOFILE, &more), unix.EPERM)
}

// fill writes into each place until it is full and prints the total in MiB.
func fill(r *report, args []string) {
	most, err := strconv.Atoi(args[0])
	r.works("parse", err)
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = 0xff
	}
	for _, place := range args[1:] {
		written, err := int64(0), error(nil)
		// Many files, so that a limit on the size of one file does not end it.
		for n := 0; err == nil && written < int64(most)<<20*2; n++ {
			var f *os.File
			if f, err = os.Create(fmt.Sprintf("%s/filler-%d", place, n)); err != nil {
				break
			}
			for range 16 {
				var k int
				k, err = f.Write(data)
				written += int64(k)
				if err != nil {
					break
				}
			}
			f.Close()
		}
		r.refused(fmt.Sprintf("%s after %d MiB", place, written>>20), errnoOf(err), unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EACCES, unix.EPERM, unix.ENOENT)
		if written > int64(most)<<20 {
			r.breach("%s took %d MiB, the cap is %d", place, written>>20, most)
		}
	}
}

// inodes makes empty files in each place until it is full.
func inodes(r *report, args []string) {
	most, err := strconv.Atoi(args[0])
	r.works("parse", err)
	for _, place := range args[1:] {
		made, err := 0, error(nil)
		for ; made <= 2*most; made++ {
			if err = unix.Mknod(place+"/inode-"+strconv.Itoa(made), unix.S_IFREG|0o600, 0); err != nil {
				break
			}
		}
		r.refused(fmt.Sprintf("%s after %d files", place, made), err, unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EACCES, unix.EPERM)
		if made > most {
			r.breach("%s took %d files, the cap is %d", place, made, most)
		}
	}
}

// flood writes n MiB to standard output and as much to standard error.
func flood(r *report, args []string) {
	left, err := strconv.Atoi(args[0])
	if err != nil {
		r.breach("control: %v", err)
	}
	data := []byte(strings.Repeat("0123456789abcde\n", 1<<16))
	for ; left > 0; left-- {
		os.Stdout.Write(data)
		os.Stderr.Write(data)
	}
}

// memory allocates n MiB and touches every page.
func memory(r *report, args []string) {
	left, err := strconv.Atoi(args[0])
	if err != nil {
		r.breach("control: %v", err)
	}
	for ; left > 0; left-- {
		page, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			r.refused("mmap", err)
			os.Exit(3)
		}
		for i := 0; i < len(page); i += 4096 {
			page[i] = 1
		}
	}
	r.breach("all of it was there")
}

// hoard allocates n MiB that belong to no process: files in memory, mapped and shared.
func hoard(r *report, args []string) {
	left, err := strconv.Atoi(args[0])
	r.works("parse", err)
	const size = 16 << 20
	for ; left > 0; left -= size >> 20 {
		fd, err := unix.MemfdCreate("hoard", unix.MFD_CLOEXEC)
		if err == nil {
			err = unix.Ftruncate(fd, size)
		}
		var page []byte
		if err == nil {
			page, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		}
		if err != nil {
			r.refused("memfd", err)
			os.Exit(3)
		}
		for i := 0; i < len(page); i += 4096 {
			page[i] = 1
		}
	}
	r.breach("all of it was there")
}

// forge writes text that imitates the end of a run to every open descriptor of every process.
func forge(r *report, _ []string) {
	lies := []byte("\x00\x00\x00\x10{\"exit\":{\"code\":0}}\n{\"type\":\"exit\",\"code\":0}\n__BELLJAR_EXIT_0__\n\x04")
	open, err := filepath.Glob("/proc/[0-9]*/fd/*")
	r.works("list descriptors", err)
	for fd := 3; fd < 1024; fd++ {
		if _, err := unix.Write(fd, lies); err == nil {
			fmt.Printf("wrote to descriptor %d\n", fd)
		}
	}
	wrote := 0
	for _, path := range open {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			if _, err := unix.Write(fd, lies); err == nil {
				wrote++
			}
			unix.Close(fd)
		}
	}
	fmt.Printf("wrote to %d of %d descriptors by their names\n", wrote, len(open))
	if wrote == 0 {
		r.breach("control: no descriptor can be written to by its name, not even our own output")
	}
}

// swap exchanges the names of each pair as fast as it can until it is killed: half of the time each name is a link.
func swap(r *report, args []string) {
	for i := 0; ; i = (i + 2) % len(args) {
		if err := unix.Renameat2(unix.AT_FDCWD, args[i], unix.AT_FDCWD, args[i+1], unix.RENAME_EXCHANGE); err != nil {
			r.breach("control: renameat2: %v", err)
			return
		}
	}
}

// errnoOf returns the errno at the bottom of err.
func errnoOf(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
