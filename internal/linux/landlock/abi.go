//go:build linux

package landlock

import "golang.org/x/sys/unix"

// ABI is the version of Landlock that the running kernel offers, 0 if there is none to use: not built in, switched off,
// or version 1 (Linux 5.13 to 5.18), under which every rename between two folders fails, and ordinary programs with it.
func ABI() int {
	version, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 || version < 2 {
		return 0
	}
	return int(version)
}
