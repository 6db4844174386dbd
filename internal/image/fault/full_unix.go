//go:build unix

package fault

import (
	"errors"

	"golang.org/x/sys/unix"
)

// fullDisk reports whether err means that there is no room, for all or for this user.
func fullDisk(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
