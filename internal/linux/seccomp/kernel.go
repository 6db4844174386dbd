//go:build linux

package seccomp

import (
	"fmt"

	profile "github.com/moby/profiles/seccomp"
	"golang.org/x/sys/unix"
)

// Kernel is a version of Linux, such as 6.1. The zero value means the running one.
type Kernel struct{ Major, Minor uint64 }

// Since reports whether k is version major.minor or later.
func (k Kernel) Since(major, minor uint64) bool {
	return k.Major > major || k.Major == major && k.Minor >= minor
}

func (k Kernel) atLeast(min *profile.KernelVersion) bool {
	return k.Since(min.Kernel, min.Major)
}

// Running is the version of the kernel that this process runs on.
func Running() (Kernel, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return Kernel{}, fmt.Errorf("seccomp: uname: %w", err)
	}
	release := unix.ByteSliceToString(u.Release[:])
	var k Kernel
	if _, err := fmt.Sscanf(release, "%d.%d", &k.Major, &k.Minor); err != nil {
		return Kernel{}, fmt.Errorf("seccomp: kernel release %q: %w", release, err)
	}
	return k, nil
}
