//go:build linux

package warden

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// files are the names of a memory cgroup's files.
type files struct {
	usage, limit string
	both         string // limits memory and swap together, never less than limit; "" for none
	cache        [2]string
}

func filesOf(version int) files {
	if version == 1 {
		// The total_ keys include child groups, like the other figures.
		return files{usage: "memory.usage_in_bytes", limit: "memory.limit_in_bytes", both: "memory.memsw.limit_in_bytes",
			cache: [2]string{"total_inactive_file ", "total_active_file "}}
	}
	return files{usage: "memory.current", limit: "memory.max", cache: [2]string{"inactive_file ", "active_file "}}
}

func open(dir, name string, flags int) (int, error) {
	for {
		fd, err := unix.Open(filepath.Join(dir, name), flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		switch err {
		case nil:
			return fd, nil
		case unix.EINTR:
		default:
			return -1, &os.PathError{Op: "open", Path: filepath.Join(dir, name), Err: err}
		}
	}
}

// text reads a file from its beginning.
func text(fd int, buf []byte) ([]byte, error) {
	for {
		n, err := unix.Pread(fd, buf, 0)
		if err != unix.EINTR {
			return buf[:max(n, 0)], err
		}
	}
}

func number(fd int) (int64, error) {
	var buf [32]byte
	b, err := text(fd, buf[:])
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
}

// sum adds up the numbers after some keys in a file of "key number" lines, which fits into buf.
func sum(fd int, keys []string, buf []byte) (total int64, err error) {
	b, err := text(fd, buf)
	if err != nil {
		return 0, err
	}
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte("\n"))
		for _, key := range keys {
			if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
				n, err := strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
				if err != nil {
					return 0, err
				}
				total += n
			}
		}
	}
	return total, nil
}

// statfs is [unix.Statfs] for a path that ends with a zero. It allocates no memory.
func statfs(path []byte, st *unix.Statfs_t) error {
	if _, _, errno := unix.Syscall(unix.SYS_STATFS, uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(st)), 0); errno != 0 {
		return errno
	}
	return nil
}

// device returns the file system of a path that ends with a zero. It allocates no memory.
func device(path []byte) (uint64, error) {
	var st unix.Statx_t
	at := unix.AT_FDCWD
	if _, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(at), uintptr(unsafe.Pointer(&path[0])), unix.AT_STATX_DONT_SYNC,
		0, uintptr(unsafe.Pointer(&st)), 0); errno != 0 {
		return 0, errno
	}
	return unix.Mkdev(st.Dev_major, st.Dev_minor), nil
}

func write(fd int, value []byte) error {
	for {
		_, err := unix.Pwrite(fd, value, 0)
		if err != unix.EINTR {
			return err
		}
	}
}

// writeFile writes to a control file by its name.
func writeFile(dir, name, value string) error {
	fd, err := open(dir, name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := write(fd, []byte(value)); err != nil {
		return &os.PathError{Op: "write " + value, Path: filepath.Join(dir, name), Err: err}
	}
	return nil
}

// gone reports whether an error means that a group, or a process, no longer exists.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ESRCH)
}

// threshold makes an event that fires when the charge of a v1 group crosses at. The kernel synchronises all of its
// processors for that, which takes many milliseconds.
func threshold(dir string, at int64) (event int, err error) {
	event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("eventfd: %w", err)
	}
	usage, err := open(dir, "memory.usage_in_bytes", unix.O_RDONLY)
	if err == nil {
		err = writeFile(dir, "cgroup.event_control", fmt.Sprintf("%d %d %d", event, usage, at))
		unix.Close(usage)
	}
	if err != nil {
		unix.Close(event)
		return -1, err
	}
	return event, nil
}
