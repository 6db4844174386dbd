//go:build unix

package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// errLocked says that another process holds a lock.
var errLocked = errors.New("locked by another process")

// lockFile takes an exclusive lock that ends with the process, however that ends.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// freeBytes is the room on the disk under path that is left to this user.
func freeBytes(path string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
