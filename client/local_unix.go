//go:build unix

package client

import "syscall"

// detached starts the server in a session of its own, so that Ctrl-C in the terminal reaches this program only.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
