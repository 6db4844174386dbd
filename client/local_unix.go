//go:build unix

package client

import "syscall"

// apart starts a belljar outside this program's terminal, whose Ctrl-C is meant for the program.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
