package layer

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Sync returns when the disk has all data of the file system that dir is in. One call for all files is faster than one for each.
func Sync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd()))), f.Close())
}
