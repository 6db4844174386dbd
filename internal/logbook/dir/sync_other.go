//go:build !linux

package dir

import (
	"os"
	"runtime"
)

// syncFile makes the contents of a file durable against a power failure.
func syncFile(f *os.File) error { return f.Sync() }

// syncFolder makes the names in a folder durable against a power failure. Windows has no such call and leaves it to
// the file system.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
