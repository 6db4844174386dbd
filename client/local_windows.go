package client

import "syscall"

// detached starts the server in a process group of its own, so that Ctrl-C reaches this program only.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
