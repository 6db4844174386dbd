//go:build !linux

package dir

import (
	"os"
	"runtime"
)

// syncFile makes what a file holds survive the loss of power.
func syncFile(f *os.File) error { return f.Sync() }

// syncFolder does so for the names in a folder. Windows has no such call: there names are the file system's business.
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
