package client

import "syscall"

// apart starts a belljar that does not get this program's Ctrl-C.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
