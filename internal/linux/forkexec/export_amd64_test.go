//go:build linux

package forkexec

// KernelWrites exports kernelWrites for tests.
func KernelWrites() bool { return kernelWrites() }
