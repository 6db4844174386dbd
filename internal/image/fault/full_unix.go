//go:build unix

package fault

import (
	"errors"

	"golang.org/x/sys/unix"
)

// fullDisk reports whether err means that the disk or the user's quota is full.
func fullDisk(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
