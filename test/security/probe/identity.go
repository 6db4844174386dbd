//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// identity checks that this process's ids match args and that it has no further rights. args are the expected user and group, or
// "any" for all but root.
func identity(r *report, args []string) {
	var ids [6]int
	ids[0], ids[1], ids[2] = unix.Getresuid()
	ids[3], ids[4], ids[5] = unix.Getresgid()
	fmt.Printf("user %v group %v\n", ids[:3], ids[3:])
	for i, id := range ids {
		switch want := args[i/3]; {
		case want == "any" && id >= 1000:
		case want != fmt.Sprint(id):
			r.breach("ids are %v, must be %v", ids, args)
		}
	}
	groups, err := unix.Getgroups()
	r.works("getgroups", err)
	for _, g := range groups {
		if g != ids[3] {
			r.breach("in group %d", g)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	r.works("capget", unix.Capget(&header, &sets[0]))
	if sets != [2]unix.CapUserData{} {
		r.breach("capabilities %+v", sets)
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if on, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err == nil && on != 0 {
			r.breach("capability %d is in the bounding set", c)
		}
	}
	if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || on != 1 {
		r.breach("no_new_privs is %d, %v", on, err)
	}
	status, err := os.ReadFile("/proc/self/status")
	r.works("read our status", err)
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); {
		case strings.HasPrefix(key, "Cap") && strings.Trim(value, "0") != "":
			r.breach("%s is %s", key, value)
		}
	}
	// Some kernels do not report this in the file; all answer prctl. The kernel of belljar-runsc refuses without a filter.
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	filtered := err == nil && mode == 2 || strings.Contains(string(status), "\nSeccomp:\t2\n")
	if !filtered && call(unix.SYS_SETNS, bad, 0) == unix.EBADF {
		r.breach("seccomp mode is %d, %v, and the kernel refuses nothing", mode, err)
	}
}
