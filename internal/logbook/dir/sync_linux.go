package dir

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFile makes the contents of a file durable against a power
// failure.
func syncFile(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// syncFolder makes the names in a folder durable against a power
// failure.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
