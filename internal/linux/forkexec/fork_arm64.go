//go:build linux

package forkexec

import "syscall"

// fork clones this process and executes the program in the child; see [forkWhole].
func fork(m *machine, _ *arena) (pid uintptr, errno syscall.Errno) { return forkWhole(m) }
