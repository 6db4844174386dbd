package dir

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFile makes what a file holds survive the loss of power.
func syncFile(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// syncFolder does so for the names in a folder.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
