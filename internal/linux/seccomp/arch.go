package seccomp

import (
	"fmt"
	"slices"
	"strings"
)

// call is a system call of one architecture.
type call struct {
	name   string
	number uint32
}

// arch is an architecture: its identifier in seccomp_data, and its system calls sorted by name. Both supported ones are
// little-endian, which the filter's loads rely on.
type arch struct {
	audit uint32 // AUDIT_ARCH_…
	calls []call
}

// The kernel's AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64.
const (
	auditAMD64 = 0xc000003e
	auditARM64 = 0xc00000b7
)

func archFor(goarch string) (arch, error) {
	switch goarch {
	case "amd64":
		return arch{auditAMD64, amd64Calls[:]}, nil
	case "arm64":
		return arch{auditARM64, arm64Calls[:]}, nil
	}
	return arch{}, fmt.Errorf("seccomp: no table of system calls for %s", goarch)
}

// number looks up a system call; false if this architecture does not have it.
func (a arch) number(name string) (uint32, bool) {
	i, ok := slices.BinarySearchFunc(a.calls, name, func(c call, name string) int { return strings.Compare(c.name, name) })
	if !ok {
		return 0, false
	}
	return a.calls[i].number, true
}
