//go:build unix

package flock

import (
	"os"

	"golang.org/x/sys/unix"
)

// Try takes a lock without waiting, shared or exclusive, or returns [ErrBusy].
func Try(f *os.File, exclusive bool) error {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return ErrBusy
		default:
			return err
		}
	}
}

// Unlock releases a lock, even if a child that is being forked holds the descriptor for a moment longer.
func Unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }
