package layer

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Sync returns when the disk has all that was written to the file system of a folder. One call for all is faster than one for each file.
func Sync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd()))), f.Close())
}
