//go:build !linux

package dir

import (
	"os"
	"runtime"
)

// syncFile makes the contents of a file survive a loss of power.
func syncFile(f *os.File) error { return f.Sync() }

// syncFolder makes the names in a folder survive a loss of power. Windows has no such call and leaves it to the file
// system.
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
