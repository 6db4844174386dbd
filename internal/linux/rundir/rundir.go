//go:build linux

// Package rundir determines the folder for files that must not outlive the boot: sockets, locks, records of sandboxes.
package rundir

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Default returns the folder for this user's files: below /run for root, $XDG_RUNTIME_DIR for others, and the temporary
// folder if that is unset. The folder may be missing. Its users must check that it belongs to them alone: two of these
// places are open to every user.
//
// Every sandbox makes and removes some files there. In containers /run is often on a disk, where that takes longer than
// making the sandbox's root; root's files are then in /dev/shm, if that is in memory.
func Default() string {
	uid := os.Geteuid()
	if uid == 0 {
		if !inMemory("/run") && inMemory("/dev/shm") {
			return "/dev/shm/belljar"
		}
		return "/run/belljar"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return filepath.Join(dir, "belljar")
		}
	}
	return filepath.Join(os.TempDir(), "belljar-"+strconv.Itoa(uid))
}

// Hint is the hint if the folder cannot be made, or other users can write to it. No setting gives root another folder.
func Hint() string {
	if os.Geteuid() == 0 {
		return "Belljar must be able to make the folder, and only root may write to it: move the existing file or folder away"
	}
	return "set XDG_RUNTIME_DIR (or TMPDIR if that is unset) to a folder that you own"
}

// inMemory reports whether a folder is on a file system without a disk.
func inMemory(path string) bool {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return false
	}
	return s.Type == unix.TMPFS_MAGIC || s.Type == unix.RAMFS_MAGIC
}
