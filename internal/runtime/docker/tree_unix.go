//go:build unix

package docker

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// fileID identifies a file, whatever its names.
type fileID struct{ dev, ino uint64 }

func identify(info fs.FileInfo) (fileID, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Nlink < 2 {
		return fileID{}, false
	}
	return fileID{uint64(st.Dev), uint64(st.Ino)}, true
}

// hold takes a shared lock on a file, so that the image next to it is not removed; "" needs none. A process that checks whether
// the image is in use, or removes it, has an exclusive lock for a moment.
func hold(path string) (release func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return func() { file.Close() }, nil
}
