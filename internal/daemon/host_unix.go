//go:build unix

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// errRefused means that no process listens on a socket.
const errRefused = unix.ECONNREFUSED

// errLocked means that another process holds a lock.
var errLocked = errors.New("locked by another process")

// lockFile takes an exclusive lock that ends with this process. The lock belongs to the process, not to the open file (fcntl(2)):
// a child of a killed daemon would hold a file's lock slightly longer.
func lockFile(f *os.File) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errLocked
	}
	return err
}

// freeBytes returns the space on the disk of path that is available to this user, in bytes.
func freeBytes(path string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}

// freeFiles returns the number of free inodes on the disk of path and their total number; both are 0 if the disk has no such
// limit.
func freeFiles(path string) (free, all uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	return uint64(s.Ffree), uint64(s.Files), nil
}

// ownFile reports whether this user owns a file.
func ownFile(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// fileID returns the device and the inode of a file, as in JOURNAL_STREAM.
func fileID(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}
