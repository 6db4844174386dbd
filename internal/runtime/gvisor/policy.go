//go:build linux

package gvisor

import "github.com/belljar/belljar/internal/linux/seccomp"

//go:generate go run generate.go

// PolicyOptions returns the options of the system call policy that belljar-runsc enforces inside, on an architecture (a
// GOARCH). It combines both filters of the other runtimes: a program with a user namespace of gVisor's own could mount, and so
// evade the limits on its file systems.
func PolicyOptions(arch string) seccomp.Options {
	return seccomp.Options{Arch: arch, Kernel: seccomp.Kernel{Major: 6, Minor: 1}, Clone3: true}
}
