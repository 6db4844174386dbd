//go:build unix

package build

import "syscall"

// usualMask makes new files as readable as on most machines.
func usualMask() { syscall.Umask(0o022) }
