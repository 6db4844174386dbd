//go:build linux

// Package identity lets a thread act as another user during a call.
package identity

import (
	"fmt"
	"os"
	"runtime"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"golang.org/x/sys/unix"
)

// ID is the user and group whose rights an operation uses.
type ID struct{ UID, GID int }

// Valid reports whether the kernel can have a user with these ids.
func (u ID) Valid() bool {
	const most = 1<<32 - 2 // -1 means "unchanged" to the kernel
	return u.UID >= 0 && u.GID >= 0 && u.UID <= most && u.GID <= most
}

// Own is the identity of this process.
type Own struct {
	ID ID
	// Effective means that the kernel has no file system ids: to act as another user, a thread takes that user's effective ids.
	Effective bool
}

// Current returns the identity of this process.
func Current() Own {
	return Own{ID: ID{UID: os.Geteuid(), GID: os.Getegid()}, Effective: NoFileIDs()}
}

// As calls do with u's file system ids: files that it creates belong to u, and it has only u's access rights. do must not start
// goroutines that rely on this, and should not wait for other goroutines.
func (o Own) As(u ID, do func() error) error {
	if u == o.ID {
		return do()
	}
	if !u.Valid() {
		return fault.Invalid("no such user: %d:%d", u.UID, u.GID)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if o.Effective {
		return o.asEffective(u, do)
	}
	// The group first, while the thread still has the privilege. The calls report no errors, so check the result.
	unix.SetfsgidRetGid(u.GID)
	unix.SetfsuidRetUid(u.UID)
	defer func() {
		unix.SetfsuidRetUid(o.ID.UID)
		unix.SetfsgidRetGid(o.ID.GID)
	}()
	uid, _ := unix.SetfsuidRetUid(-1)
	gid, _ := unix.SetfsgidRetGid(-1)
	if uid != u.UID || gid != u.GID {
		return fmt.Errorf("act as user %d:%d: %w", u.UID, u.GID, unix.EPERM)
	}
	return do()
}

// asEffective is As for a kernel without separate file system ids, such as gVisor's: it changes the effective ids of this thread
// alone. The real ids remain ours and decide which processes may signal or trace it.
func (o Own) asEffective(u ID, do func() error) error {
	if err := become(u); err != nil {
		return fmt.Errorf("act as user %d:%d: %w", u.UID, u.GID, err)
	}
	defer func() {
		if err := restoreID(o.ID); err != nil {
			panic(fmt.Sprintf("a thread stays another user: %v", err)) // no code may use this thread again
		}
	}()
	return do()
}

// become changes the effective ids of the calling thread, the group first, while it still has the privilege. The calls of package
// syscall would change all threads.
func become(u ID) error {
	const keep = ^uintptr(0)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(u.GID), keep); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(u.UID), keep); e != 0 {
		gid := unix.Getgid()
		if _, _, back := unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(gid), keep); back != 0 {
			panic(fmt.Sprintf("a thread stays in another group: %v", back))
		}
		return e
	}
	return nil
}

// restoreID restores the ids, the user first, to regain the privilege to change the group.
func restoreID(self ID) error {
	const keep = ^uintptr(0)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(self.UID), keep); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(self.GID), keep); e != 0 {
		return e
	}
	return nil
}

// NoFileIDs reports whether the kernel has no file system ids.
func NoFileIDs() bool {
	_, err := unix.SetfsuidRetUid(-1)
	return err == unix.ENOSYS
}
