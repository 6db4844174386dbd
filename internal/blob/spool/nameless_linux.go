package spool

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// nameless creates a file that disappears with its last descriptor, even if the process is killed.
func nameless(dir string) (f *os.File, name string, err error) {
	if dir == "" {
		dir = os.TempDir()
	}
	f, err = os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) { // not supported by the file system or the kernel
		return unnamed(dir)
	}
	return f, "", err
}
