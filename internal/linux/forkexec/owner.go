//go:build linux

package forkexec

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// As runs do with another effective user on this thread, and keeps the thread's capabilities and file system user. A user
// namespace that do makes belongs to that user, and the kernel charges that user for its resources. 0 changes nothing. do must
// not rely on goroutines that it starts.
//
// The kernel clears the effective capabilities on the change, so As sets them again. The real and the saved user do not change,
// which keeps the permitted capabilities.
func As(user int, do func() error) error {
	if user == 0 {
		return do()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	own := unix.Geteuid()
	// A change of user resets the signal that this thread gets when its parent dies.
	var signal int32
	unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0)
	change := func(to int) error {
		// Raw calls: those of package syscall change all threads.
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(to), ^uintptr(0)); e != 0 {
			return fmt.Errorf("become user %d: %w", to, e)
		}
		unix.RawSyscall(unix.SYS_SETFSUID, uintptr(own), 0, 0)
		if err := unix.Capset(&header, &caps[0]); err != nil {
			return fmt.Errorf("take capabilities back as user %d: %w", to, err)
		}
		return nil
	}
	defer func() {
		if err := change(own); err != nil {
			panic(fmt.Sprintf("forkexec: a thread stays another user: %v", err)) // no code may continue on it
		}
		if signal != 0 {
			unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(signal), 0)
		}
	}()
	if err := change(user); err != nil {
		return err
	}
	return do()
}
