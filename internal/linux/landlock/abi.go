//go:build linux

package landlock

import "golang.org/x/sys/unix"

// ABI returns the running kernel's version of Landlock; 0 if it is unusable: not built in, disabled, or version 1 (Linux 5.13 to
// 5.18), under which every rename between two folders fails, which breaks ordinary programs.
func ABI() int {
	version, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 || version < 2 {
		return 0
	}
	return int(version)
}
