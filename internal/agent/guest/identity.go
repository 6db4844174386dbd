//go:build linux

package guest

import (
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// identity is whose rights something uses.
type identity struct{ uid, gid int }

func (u identity) valid() bool {
	const most = 1<<32 - 2 // -1 means "leave as it is" to the kernel
	return u.uid >= 0 && u.gid >= 0 && u.uid <= most && u.gid <= most
}

// as runs do with u's file system ids: what it creates belongs to u, and what u may not touch it may not either. do
// must not start goroutines that rely on this, and should not wait for anybody.
func (a *Agent) as(u identity, do func() error) error {
	if u == a.self {
		return do()
	}
	if !u.valid() {
		return invalid("no such user: %d:%d", u.uid, u.gid)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if a.effective {
		return a.asEffective(u, do)
	}
	// The group first: without the user's privileges it could not be changed. The calls report no errors, so ask.
	unix.SetfsgidRetGid(u.gid)
	unix.SetfsuidRetUid(u.uid)
	defer func() {
		unix.SetfsuidRetUid(a.self.uid)
		unix.SetfsgidRetGid(a.self.gid)
	}()
	uid, _ := unix.SetfsuidRetUid(-1)
	gid, _ := unix.SetfsgidRetGid(-1)
	if uid != u.uid || gid != u.gid {
		return fmt.Errorf("act as user %d:%d: %w", u.uid, u.gid, unix.EPERM)
	}
	return do()
}

// asEffective is as where the kernel, gVisor's, has no file system ids of their own: they are the effective ones, of this
// thread alone. It remains ours: who may signal or trace it is told by the ids that do not change.
func (a *Agent) asEffective(u identity, do func() error) error {
	if err := become(u); err != nil {
		return fmt.Errorf("act as user %d:%d: %w", u.uid, u.gid, err)
	}
	defer func() {
		if err := unbecome(a.self); err != nil {
			panic(fmt.Sprintf("a thread stays another user: %v", err)) // nothing may go on with it
		}
	}()
	return do()
}

// become changes the effective ids of the calling thread, the group first: without the user's privileges it could not be
// changed. The calls of package syscall would change all threads.
func become(u identity) error {
	const keep = ^uintptr(0)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(u.gid), keep); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(u.uid), keep); e != 0 {
		gid := unix.Getgid()
		if _, _, back := unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(gid), keep); back != 0 {
			panic(fmt.Sprintf("a thread stays in another group: %v", back))
		}
		return e
	}
	return nil
}

// unbecome takes the ids back, the user first, with whose privileges the group can be changed.
func unbecome(self identity) error {
	const keep = ^uintptr(0)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(self.uid), keep); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(self.gid), keep); e != 0 {
		return e
	}
	return nil
}

// noFileIDs reports whether the kernel has no file system ids.
func noFileIDs() bool {
	_, err := unix.SetfsuidRetUid(-1)
	return err == unix.ENOSYS
}

// traits are what commands inherit from the agent and must not have. Whoever made the sandbox may have seen to it that
// there is none: what a command need not be rid of is a system call less for each.
type traits struct {
	late     bool  // timers may be late by more than is usual
	gains    bool  // programs may gain privileges
	groups   bool  // supplementary groups
	bounding []int // capabilities that a program executed here could still gain
	inherits bool  // capabilities that are inherited
	exposed  bool  // what has changed its user may be looked into, or takes along those it shares memory with when it dies
}

func ownTraits() (t traits) {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	t.late = err == nil && slack != timerSlack // a kernel without it, gVisor's, is never late on purpose
	none, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	t.gains = err != nil || none != 1
	n, err := unix.Getgroups()
	t.groups = err != nil || len(n) > 0
	t.bounding = boundingSet()
	t.inherits = inherits()
	t.exposed = exposed()
	return t
}

// inherits reports whether a program executed here inherits capabilities.
func inherits() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	err := unix.Capget(&header, &caps[0])
	return err != nil || caps[0].Inheritable|caps[1].Inheritable != 0
}

// exposed reports whether a process that has changed its user, which sets how its memory may be dumped to fs.suid_dumpable,
// endangers those whose memory it shares. With 1, whoever has the new user may trace it. With 2, it may dump its memory
// when it dies of a signal, and before Linux 5.16 that kills all who share it.
func exposed() bool {
	raw, err := readSmall("/proc/sys/fs/suid_dumpable")
	if err == unix.ENOENT {
		return false // not Linux, but gVisor: there is no such thing
	}
	how := strings.TrimSpace(string(raw))
	var name unix.Utsname
	if err != nil || unix.Uname(&name) != nil {
		return true
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		return true
	}
	return dumps(how, major, minor)
}

// dumps is exposed for a value of fs.suid_dumpable and a version of Linux.
func dumps(how string, major, minor int) bool {
	switch how {
	case "0":
		return false
	case "2":
		return major < 5 || major == 5 && minor < 16
	}
	return true
}

// boundingSet lists the capabilities that a program executed here could still gain.
func boundingSet() (list []int) {
	for c := range 64 {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if err != nil {
			break // the last one is behind us
		}
		if has == 1 {
			list = append(list, c)
		}
	}
	return list
}
