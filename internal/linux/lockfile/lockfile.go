//go:build linux

// Package lockfile locks files with flock(2). A lock is held as long as any process has the opened file.
package lockfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock locks an open file, with the operation of flock(2); EWOULDBLOCK if it is held and the operation does not wait.
func Lock(f *os.File, how int) error {
	for {
		switch err := unix.Flock(int(f.Fd()), how); err {
		case nil:
			return nil
		case unix.EINTR:
		default:
			return &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}

// Open opens a file and locks it with [Lock]. A holder may remove the file between open and lock: Open then locks the file that has the
// name now.
func Open(path string, flags, how int) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := Lock(f, how); err != nil {
			f.Close()
			return nil, err
		}
		var opened, named unix.Stat_t
		err = errors.Join(unix.Fstat(int(f.Fd()), &opened), unix.Lstat(path, &named))
		if err == nil && opened.Ino == named.Ino && opened.Dev == named.Dev {
			return f, nil
		}
		f.Close()
	}
}
