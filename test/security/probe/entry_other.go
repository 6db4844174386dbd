//go:build linux && !amd64

package main

import "syscall"

// foreign32 has nothing to attack here: only amd64 has the i386 entry by default. It ends as a refusal would.
func foreign32(*report, []string) { syscall.Kill(syscall.Getpid(), syscall.SIGSYS) }

// foreignX32 has nothing to attack here.
func foreignX32(*report, []string) {}
