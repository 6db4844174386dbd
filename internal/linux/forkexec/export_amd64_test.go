//go:build linux

package forkexec

// KernelWrites is for tests.
func KernelWrites() bool { return kernelWrites() }
