package daemon

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// errRefused means that no process listens on a socket.
const errRefused = windows.WSAECONNREFUSED

// errLocked means that another process holds a lock.
var errLocked = errors.New("locked by another process")

// lockFile takes an exclusive lock that ends with the process.
func lockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}

// freeBytes returns the space on the disk of path that is available to this user, in bytes.
func freeBytes(path string) (uint64, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return free, err
}

// freeFiles returns 0: Windows has no limit on files.
func freeFiles(string) (free, all uint64, err error) { return 0, 0, nil }

// ownFile reports whether this user owns a file. On Windows, each user has their own temporary folder.
func ownFile(fs.FileInfo) bool { return true }

// fileID returns "": Windows has no journal.
func fileID(fs.FileInfo) string { return "" }
