//go:build linux

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// writable prints every writable folder below the places, or with "files" first every writable file. It enters /proc only
// by name: the folders of processes come and go.
func writable(r *report, args []string) {
	files := len(args) > 0 && args[0] == "files"
	if files {
		args = args[1:]
	}
	few := !files && os.Getenv("LANE_TIER") == "test"
	seen := 0
	for _, place := range args {
		filepath.WalkDir(place, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil // a folder that cannot be listed is skipped; whether it is writable was checked before
			case d.IsDir() && path == "/proc" && place != path:
				return fs.SkipDir
			case d.IsDir() && ownKernel() && strings.Count(path, "/") > 4:
				return fs.SkipDir // each folder is slow to reach there, and such deep ones belong to the image
			case d.IsDir() && few && strings.HasPrefix(path, "/usr/") && strings.Count(path, "/") > 3:
				return fs.SkipDir // the tens of thousands of entries below are on the same mount
			case d.IsDir() == files || d.Type()&fs.ModeSymlink != 0:
				return nil
			}
			seen++
			if mayWrite(path) {
				fmt.Println(path)
			}
			return nil
		})
	}
	if seen == 0 {
		r.breach("control: nothing below %v", args)
	}
}

// mayWrite reports whether a path is writable. The null device, which covers masked files, does not count: writes to it
// have no effect.
func mayWrite(path string) bool {
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3) {
		return false
	}
	return unix.Faccessat2(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil || unix.Access(path, unix.W_OK) == nil
}

// handles opens files by inode number: a handle ignores roots (the "shocker" attack).
func handles(r *report, _ []string) {
	handle := unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0}) // inode 2: the root of most file systems
	for _, p := range mountPoints(r) {
		dir, err := unix.Open(p, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		fd, err := unix.OpenByHandleAt(dir, handle, unix.O_RDONLY)
		r.refused("open_by_handle_at under "+p, err)
		if err == nil {
			unix.Close(fd)
		}
		unix.Close(dir)
	}
}
