//go:build unix

package daemon

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// errLocked says that another process holds a lock.
var errLocked = errors.New("locked by another process")

// lockFile takes an exclusive lock that ends with this process, however that ends. It is a lock of the process and not
// of the open file (fcntl(2)): what a killed daemon forked last would hold the other kind a little longer.
func lockFile(f *os.File) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
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

// freeFiles is how many files the disk under path has room for yet, and for how many it has been made; 0 where it does not
// count them.
func freeFiles(path string) (free, all uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	return uint64(s.Ffree), uint64(s.Files), nil
}

// ownFile reports whether a file is this user's.
func ownFile(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
