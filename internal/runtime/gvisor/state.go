//go:build linux

package gvisor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// folder is an open folder that a program of the keep gets.
type folder struct{ file *os.File }

// sums returns the SHA-256 of the files in a folder, by name.
func (f *folder) sums() (map[string]string, error) {
	root, err := os.OpenRoot("/proc/self/fd/" + strconv.Itoa(int(f.file.Fd())))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			return nil, fmt.Errorf("%s is not a file", e.Name())
		}
		file, err := root.Open(e.Name())
		if err != nil {
			return nil, err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, file)
		file.Close()
		if err != nil {
			return nil, err
		}
		sums[e.Name()] = hex.EncodeToString(sum.Sum(nil))
	}
	return sums, nil
}

// intact refuses a state that differs from the saved one: gVisor does not verify pages.
func (f *folder) intact(was map[string]string) error {
	is, err := f.sums()
	if err != nil {
		return err
	}
	for name := range was {
		if is[name] == "" {
			return fmt.Errorf("the snapshot is damaged: %s is missing", name)
		}
	}
	for name, sum := range is {
		if was[name] != sum {
			return fmt.Errorf("the snapshot is damaged: %s is not what was saved", name)
		}
	}
	return nil
}

// openState opens the folder of gVisor's state in a snapshot's folder, which is closed to all other users.
func openState(dir string, create bool) (*folder, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || info.Mode()&0o077 != 0 {
		return nil, fmt.Errorf("%s is not a folder that only we can open", dir)
	}
	if create {
		if err := os.Mkdir(filepath.Join(dir, stateName), 0o755); err != nil {
			return nil, err
		}
	}
	fd, err := unix.Open(filepath.Join(dir, stateName), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: stateName, Err: err}
	}
	return &folder{os.NewFile(uintptr(fd), stateName)}, nil
}
