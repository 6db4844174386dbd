//go:build linux

package seccomp

import (
	"fmt"

	profile "github.com/moby/profiles/seccomp"
	"golang.org/x/sys/unix"
)

// Kernel is a version of Linux, such as 6.1. The zero value means the running one.
type Kernel struct{ Major, Minor uint64 }

func (k Kernel) atLeast(min *profile.KernelVersion) bool {
	if k.Major != min.Kernel {
		return k.Major > min.Kernel
	}
	return k.Minor >= min.Major
}

func runningKernel() (Kernel, error) {
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
