package daemon

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// errLocked says that another process holds a lock.
var errLocked = errors.New("locked by another process")

// lockFile takes an exclusive lock that ends with the process, however that ends.
func lockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}

// freeBytes is the room on the disk under path that is left to this user.
func freeBytes(path string) (uint64, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return free, err
}

// freeFiles is nothing: disks do not count files here.
func freeFiles(string) (free, all uint64, err error) { return 0, 0, nil }

// ownFile reports whether a file is this user's. Temporary folders are each user's own here.
func ownFile(fs.FileInfo) bool { return true }
