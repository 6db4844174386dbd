package fault

import (
	"errors"

	"golang.org/x/sys/windows"
)

// fullDisk reports whether err means that the disk is full.
func fullDisk(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}
