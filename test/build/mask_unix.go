//go:build unix

package build

import "syscall"

// usualMask has new files be as readable as on most machines.
func usualMask() { syscall.Umask(0o022) }
