//go:build linux

package process

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// TimerSlack is the kernel's default for a command's timers, in nanoseconds. The agent's own may be larger.
const TimerSlack = 50_000

// Traits are attributes that commands would inherit from the agent and must not have. The runtime may have removed them already:
// each absent one saves a system call per command.
type Traits struct {
	Late     bool  // timers may be later than the default
	Gains    bool  // programs may gain privileges
	Groups   bool  // supplementary groups
	Bounding []int // capabilities that a program executed here could still gain
	Inherits bool  // inheritable capabilities
	Exposed  bool  // a process that changed its user can be traced, or its death kills processes that share its memory
}

// OwnTraits returns the traits of this process.
func OwnTraits() (t Traits) {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	t.Late = err == nil && slack != TimerSlack // gVisor's kernel has no timer slack
	none, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	t.Gains = err != nil || none != 1
	n, err := unix.Getgroups()
	t.Groups = err != nil || len(n) > 0
	t.Bounding = boundingSet()
	t.Inherits = inherits()
	t.Exposed = exposed()
	return t
}

// inherits reports whether a program executed here inherits capabilities.
func inherits() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	err := unix.Capget(&header, &caps[0])
	return err != nil || caps[0].Inheritable|caps[1].Inheritable != 0
}

// exposed reports whether a process that has changed its user endangers those whose memory it shares. Such a process may be dumped
// according to fs.suid_dumpable. With 1, processes of the new user may trace it. With 2, a fatal signal may dump its memory, and
// before Linux 5.16 that kills all processes that share it.
func exposed() bool {
	raw, err := ReadSmall("/proc/sys/fs/suid_dumpable")
	if err == unix.ENOENT {
		return false // gVisor has no such setting
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

// dumps returns exposed for a value of fs.suid_dumpable and a version of Linux.
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
			break // that was the last one
		}
		if has == 1 {
			list = append(list, c)
		}
	}
	return list
}
