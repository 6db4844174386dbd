//go:build linux

package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call makes a raw system call and returns its error, nil for success.
func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return errno
	}
	return nil
}

func cstr(s string) uintptr {
	b := append([]byte(s), 0)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

func block(n int) uintptr {
	b := make([]byte, n)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// kept holds the memory that raw system calls point into.
var kept [][]byte

const (
	bad    = ^uintptr(0)           // an invalid descriptor or pointer
	atCWD  = ^uintptr(0) - 100 + 1 // AT_FDCWD
	here   = uintptr(1)            // a flag or length without much effect
	highBi = uintptr(0xdeadbeef) << 32
)

// family is one system call that the filter must refuse, with arguments that are harmless if it does not.
type family struct {
	name string
	nr   uintptr
	args []uintptr
}

// families are the system calls that no sandboxed program may make (amd64 and arm64 have them all).
func families() []family {
	return []family{
		{"acct", unix.SYS_ACCT, []uintptr{bad}},
		{"add_key", unix.SYS_ADD_KEY, []uintptr{cstr("user"), cstr("belljar"), cstr("x"), 1, ^uintptr(2)}},
		{"bpf", unix.SYS_BPF, []uintptr{0, block(128), 128}},
		{"chroot", unix.SYS_CHROOT, []uintptr{cstr("/nowhere")}},
		{"delete_module", unix.SYS_DELETE_MODULE, []uintptr{cstr("belljar-none"), 0}},
		{"fanotify_init", unix.SYS_FANOTIFY_INIT, []uintptr{0, 0}},
		{"finit_module", unix.SYS_FINIT_MODULE, []uintptr{bad, cstr(""), 0}},
		{"fsconfig", unix.SYS_FSCONFIG, []uintptr{bad, 0, 0, 0, 0}},
		{"fsmount", unix.SYS_FSMOUNT, []uintptr{bad, 0, 0}},
		{"fsopen", unix.SYS_FSOPEN, []uintptr{cstr("tmpfs"), 0}},
		{"fspick", unix.SYS_FSPICK, []uintptr{atCWD, cstr("."), 0}},
		{"init_module", unix.SYS_INIT_MODULE, []uintptr{bad, 1, cstr("")}},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER, []uintptr{bad, 0, 0, 0, 0, 0}},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER, []uintptr{bad, 0, 0, 0}},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, []uintptr{1, block(256)}},
		{"kexec_load", unix.SYS_KEXEC_LOAD, []uintptr{0, 0, 0, here}},
		{"keyctl", unix.SYS_KEYCTL, []uintptr{0, ^uintptr(2), 0}},
		{"memfd_secret", unix.SYS_MEMFD_SECRET, []uintptr{unix.O_CLOEXEC}},
		{"mount", unix.SYS_MOUNT, []uintptr{cstr("none"), cstr("/tmp"), cstr("tmpfs"), 0, 0}},
		{"mount_setattr", unix.SYS_MOUNT_SETATTR, []uintptr{atCWD, cstr("/"), 0, block(32), 32}},
		{"move_mount", unix.SYS_MOVE_MOUNT, []uintptr{atCWD, cstr("/tmp"), atCWD, cstr("/run"), 0}},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, []uintptr{bad, block(64), 0}},
		{"open_tree", unix.SYS_OPEN_TREE, []uintptr{atCWD, cstr("/"), unix.OPEN_TREE_CLONE}},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, []uintptr{block(128), 0, bad, bad, 0}},
		{"pivot_root", unix.SYS_PIVOT_ROOT, []uintptr{cstr("/tmp"), cstr("/tmp")}},
		{"quotactl", unix.SYS_QUOTACTL, []uintptr{bad, cstr("/dev/null"), 0, 0}},
		{"reboot", unix.SYS_REBOOT, []uintptr{0, 0, 0, 0}}, // wrong magic: refused by any kernel
		{"request_key", unix.SYS_REQUEST_KEY, []uintptr{cstr("user"), cstr("belljar"), 0, 0}},
		{"setns", unix.SYS_SETNS, []uintptr{bad, 0}},
		{"swapoff", unix.SYS_SWAPOFF, []uintptr{cstr("/nowhere")}},
		{"swapon", unix.SYS_SWAPON, []uintptr{cstr("/nowhere"), 0}},
		{"umount2", unix.SYS_UMOUNT2, []uintptr{cstr("/nowhere"), 0}},
		{"userfaultfd", unix.SYS_USERFAULTFD, []uintptr{unix.O_CLOEXEC | 1}},
	}
}

// denied makes every forbidden system call, and one that no kernel has.
func denied(r *report, _ []string) {
	for _, f := range families() {
		r.refused(f.name, call(f.nr, f.args...), unix.EPERM, unix.ENOSYS)
	}
	r.refused("system call 4000", call(4000), unix.EPERM, unix.ENOSYS)
	r.works("getpid", call(unix.SYS_GETPID))
}

func uring(r *report, _ []string) {
	r.refused("io_uring_setup", call(unix.SYS_IO_URING_SETUP, 1, block(256)), unix.EPERM, unix.ENOSYS)
	r.refused("io_uring_enter", call(unix.SYS_IO_URING_ENTER, bad, 0, 0, 0, 0, 0), unix.EPERM, unix.ENOSYS)
	r.refused("io_uring_register", call(unix.SYS_IO_URING_REGISTER, bad, 0, 0, 0), unix.EPERM, unix.ENOSYS)
}

// namespaces tries to create a namespace of each kind, or to enter another process's. A process in its own user namespace holds
// every capability there, which opens most of the kernel's attack surface.
func namespaces(r *report, _ []string) {
	kinds := map[string]uintptr{
		"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET,
		"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
	}
	for name, flag := range kinds {
		r.refused("unshare "+name, call(unix.SYS_UNSHARE, flag), unix.EPERM)
		if flag != unix.CLONE_NEWTIME { // in clone that bit belongs to the exit signal
			r.refused("clone "+name, forkWith(flag|uintptr(syscall.SIGCHLD)), unix.EPERM)
			r.refused("clone "+name+", high bits set", forkWith(highBi|flag|uintptr(syscall.SIGCHLD)), unix.EPERM, unix.EINVAL)
		}
	}
	args := [11]uint64{unix.CLONE_NEWUSER, 4: uint64(syscall.SIGCHLD)}
	r.refused("clone3 user", call(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args)), unix.ENOSYS, unix.EPERM)
	for _, ns := range []string{"user", "mnt", "net", "pid"} {
		fd, err := unix.Open("/proc/1/ns/"+ns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			r.refused("open /proc/1/ns/"+ns, err)
			continue
		}
		r.refused("setns "+ns, call(unix.SYS_SETNS, uintptr(fd), 0), unix.EPERM)
	}
	r.works("plain fork", forkWith(uintptr(syscall.SIGCHLD)))
}

// forkWith clones with flags; the child exits immediately.
func forkWith(flags uintptr) error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	var status unix.WaitStatus
	unix.Wait4(int(pid), &status, 0, nil)
	return nil
}
