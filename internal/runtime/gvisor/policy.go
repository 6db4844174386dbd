//go:build linux

package gvisor

import "github.com/belljar/belljar/internal/linux/seccomp"

//go:generate go run generate.go

// PolicyOptions state for whom the system call policy is that belljar-runsc enforces inside, on an architecture (a GOARCH). It
// is that of both filters of other runtimes: in a user namespace of gVisor's own a program could mount, and so get past the
// caps on its file systems.
func PolicyOptions(arch string) seccomp.Options {
	return seccomp.Options{Arch: arch, Kernel: seccomp.Kernel{Major: 6, Minor: 1}, Clone3: true}
}
