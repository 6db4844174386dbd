//go:build linux

package seccomp

import (
	"bytes"
	"encoding/binary"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	profile "github.com/moby/profiles/seccomp"
	"golang.org/x/sys/unix"
)

const (
	eperm    = unix.EPERM
	enosys   = unix.ENOSYS
	noFamily = unix.EAFNOSUPPORT
	noProto  = unix.EPROTONOSUPPORT
	high     = uint64(0xdeadbeef) << 32
	minus1   = ^uint64(0)
	sigchld  = uint64(unix.SIGCHLD)
)

var linux61 = Kernel{6, 1}

// decision is one row of the tables below. want is 0 for allowed.
type decision struct {
	call string
	args [6]uint64
	want unix.Errno
}

func a(args ...uint64) (out [6]uint64) {
	copy(out[:], args)
	return out
}

// sandboxDecisions apply to a command, under both filters together, whether or not it shares its user with the agent.
var sandboxDecisions = []decision{
	{"read", a(), 0}, {"write", a(), 0}, {"openat", a(), 0}, {"execve", a(), 0}, {"futex", a(), 0}, {"rt_sigreturn", a(), 0},
	{"exit_group", a(), 0}, {"mmap", a(), 0}, {"setresuid", a(), 0}, {"prctl", a(), 0}, {"seccomp", a(), 0},
	{"vmsplice", a(), 0}, {"statmount", a(), 0}, {"listmount", a(), 0}, {"name_to_handle_at", a(), 0}, {"kill", a(1, 9), 0},

	{"clone", a(unix.CLONE_VM | unix.CLONE_THREAD | sigchld), 0},
	{"clone", a(unix.CLONE_NEWUSER), eperm}, {"clone", a(unix.CLONE_NEWNS), eperm}, {"clone", a(unix.CLONE_NEWPID | sigchld), eperm},
	{"clone", a(unix.CLONE_NEWNET), eperm}, {"clone", a(unix.CLONE_NEWIPC), eperm}, {"clone", a(unix.CLONE_NEWUTS), eperm},
	{"clone", a(unix.CLONE_NEWCGROUP), eperm}, {"clone", a(high | unix.CLONE_NEWUSER), eperm}, {"clone", a(high | sigchld), 0},
	{"clone3", a(), enosys}, {"unshare", a(), eperm}, {"setns", a(), eperm},

	{"mount", a(), eperm}, {"umount2", a(), eperm}, {"pivot_root", a(), eperm}, {"chroot", a(), eperm}, {"open_tree", a(), eperm},
	{"open_tree_attr", a(), eperm}, {"move_mount", a(), eperm}, {"fsopen", a(), eperm}, {"fsconfig", a(), eperm},
	{"fsmount", a(), eperm}, {"fspick", a(), eperm}, {"mount_setattr", a(), eperm}, {"open_by_handle_at", a(), eperm},
	{"bpf", a(), eperm}, {"perf_event_open", a(), eperm}, {"userfaultfd", a(), eperm}, {"add_key", a(), eperm},
	{"request_key", a(), eperm}, {"keyctl", a(), eperm}, {"io_uring_setup", a(), eperm}, {"io_uring_enter", a(), eperm},
	{"io_uring_register", a(), eperm}, {"kexec_load", a(), eperm}, {"kexec_file_load", a(), eperm}, {"reboot", a(), eperm},
	{"init_module", a(), eperm}, {"finit_module", a(), eperm}, {"delete_module", a(), eperm}, {"acct", a(), eperm},
	{"swapon", a(), eperm}, {"swapoff", a(), eperm}, {"quotactl", a(), eperm}, {"quotactl_fd", a(), eperm}, {"syslog", a(), eperm},
	{"settimeofday", a(), eperm}, {"clock_settime", a(), eperm}, {"sethostname", a(), eperm}, {"pidfd_getfd", a(), eperm}, {"kcmp", a(), eperm},

	{"ioctl", a(0, unix.TCGETS), 0}, {"ioctl", a(0, unix.TIOCSTI), eperm}, {"ioctl", a(0, unix.TIOCLINUX), eperm},
	{"ioctl", a(0, unix.TIOCSETD), eperm}, {"ioctl", a(0, high|unix.TIOCSTI), eperm}, {"ioctl", a(0, 0xffffffff_00000000|unix.TIOCSETD), eperm},

	{"socket", a(unix.AF_UNIX, unix.SOCK_STREAM), 0}, {"socket", a(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC), 0},
	{"socket", a(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP), 0}, {"socket", a(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), 0},
	{"socket", a(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, unix.IPPROTO_ICMP), noProto}, {"socket", a(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6), noProto},
	{"socket", a(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP), noProto}, {"socket", a(unix.AF_INET6, unix.SOCK_SEQPACKET), noProto},
	{"socket", a(unix.AF_INET, unix.SOCK_DCCP), noProto}, {"socket", a(unix.AF_INET, unix.SOCK_DGRAM, high|unix.IPPROTO_UDPLITE), noProto},
	{"socket", a(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), 0}, {"socket", a(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER), noFamily},
	{"socket", a(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT), noFamily},
	{"socket", a(high|unix.AF_NETLINK, unix.SOCK_RAW, high|unix.NETLINK_XFRM), noFamily},
	{"socket", a(unix.AF_PACKET, unix.SOCK_RAW), noFamily}, {"socket", a(unix.AF_ALG, unix.SOCK_SEQPACKET), noFamily},
	{"socket", a(unix.AF_VSOCK), noFamily}, {"socket", a(high | unix.AF_VSOCK), noFamily}, {"socket", a(unix.AF_TIPC), noFamily},
	{"socket", a(unix.AF_CAN), noFamily}, {"socket", a(unix.AF_XDP), noFamily}, {"socket", a(unix.AF_SMC), noFamily},
	{"socket", a(unix.AF_BLUETOOTH), noFamily}, {"socket", a(unix.AF_KEY), noFamily}, {"socket", a(0), noFamily}, {"socket", a(minus1), noFamily},
	{"socketpair", a(unix.AF_UNIX), 0}, {"socketpair", a(unix.AF_TIPC), noFamily}, {"socketpair", a(unix.AF_INET), noFamily},

	{"setsockopt", a(3, unix.SOL_SOCKET, unix.SO_SNDBUF), 0}, {"setsockopt", a(3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER), eperm},
	{"setsockopt", a(3, high|unix.SOL_SOCKET, high|unix.SO_ATTACH_BPF), eperm}, {"setsockopt", a(3, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF), eperm},
	{"setsockopt", a(3, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_EBPF), eperm}, {"setsockopt", a(3, unix.IPPROTO_TCP, unix.SO_ATTACH_FILTER), 0},
	{"setsockopt", a(3, unix.IPPROTO_IPV6, 32), eperm}, {"setsockopt", a(3, unix.IPPROTO_IP, 32), 0}, {"setsockopt", a(3, high|unix.IPPROTO_IPV6, high|32), eperm},
	{"setsockopt", a(3, unix.IPPROTO_TCP, unix.TCP_MD5SIG), eperm}, {"setsockopt", a(3, unix.IPPROTO_TCP, unix.TCP_MD5SIG_EXT), eperm},
	{"setsockopt", a(3, unix.IPPROTO_TCP, unix.TCP_ULP), eperm}, {"setsockopt", a(3, high|unix.IPPROTO_TCP, high|unix.TCP_ULP), eperm},
	{"setsockopt", a(3, unix.IPPROTO_TCP, 38), eperm}, {"setsockopt", a(3, unix.IPPROTO_TCP, unix.TCP_NODELAY), 0},
	{"setsockopt", a(3, unix.SOL_SOCKET, unix.SO_TIMESTAMPING), eperm}, {"setsockopt", a(3, high|unix.SOL_SOCKET, high|65), eperm},
	{"setsockopt", a(3, unix.SOL_SOCKET, unix.SO_TIMESTAMP), 0}, {"setsockopt", a(3, unix.SOL_SOCKET, unix.SO_RCVBUF), nothing},
	{"setsockopt", a(3, high|unix.SOL_SOCKET, high|unix.SO_RCVLOWAT), nothing}, {"setsockopt", a(3, unix.IPPROTO_IP, unix.IP_RECVERR), nothing},
	{"setsockopt", a(3, unix.IPPROTO_IPV6, unix.IPV6_RECVERR), nothing}, {"setsockopt", a(3, unix.IPPROTO_UDP, 1), 0},
	{"prctl", a(unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_CREATE), unix.EINVAL}, {"prctl", a(high | unix.PR_SCHED_CORE), unix.EINVAL},
	{"prctl", a(unix.PR_SET_MEMORY_MERGE, 1), unix.EINVAL}, {"madvise", a(0, 4096, unix.MADV_MERGEABLE), unix.EINVAL}, {"madvise", a(0, 12, unix.MADV_DONTNEED), 0},
	{"sync", a(), nothing}, {"syncfs", a(3), nothing}, {"syncfs", a(minus1), nothing},
	{"fadvise64", a(3, 0, 0, 3), 0}, {"fadvise64", a(3, 0, 0, 4), nothing}, {"fadvise64", a(3, 4, 4, high|4), nothing},
	{"fcntl", a(3, unix.F_SETLK), 0}, {"fcntl", a(3, unix.F_SETLKW), 0}, {"fcntl", a(3, unix.F_OFD_GETLK), 0}, {"fcntl", a(3, unix.F_GETFD), 0},
	{"fcntl", a(3, unix.F_OFD_SETLK), unix.EINVAL}, {"fcntl", a(3, high|unix.F_OFD_SETLKW), unix.EINVAL},
	{"fcntl", a(3, unix.F_NOTIFY), unix.EINVAL}, {"fcntl", a(3, unix.F_SETLEASE), unix.EINVAL}, {"fcntl", a(3, unix.F_SETOWN), 0},
	{"memfd_secret", a(), enosys},
	{"io_setup", a(128), enosys}, {"io_submit", a(), enosys}, {"io_getevents", a(), enosys}, {"io_pgetevents", a(), enosys},
	{"io_cancel", a(), enosys}, {"io_destroy", a(), enosys},
	{"seccomp", a(unix.SECCOMP_SET_MODE_FILTER), unix.EINVAL}, {"seccomp", a(high | unix.SECCOMP_SET_MODE_FILTER), unix.EINVAL},
	{"seccomp", a(unix.SECCOMP_GET_ACTION_AVAIL), 0}, {"seccomp", a(unix.SECCOMP_GET_NOTIF_SIZES), 0},
	{"prctl", a(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER), unix.EINVAL}, {"prctl", a(high|unix.PR_SET_SECCOMP, 1), unix.EINVAL},
	{"prctl", a(unix.PR_GET_SECCOMP), 0}, {"prctl", a(unix.PR_SET_NAME), 0},

	{"personality", a(0), 0}, {"personality", a(0x20000), 0}, {"personality", a(0xffffffff), 0}, {"personality", a(minus1), 0},
	{"personality", a(0x0040000), eperm}, {"personality", a(high | 0x0400000), eperm}, // ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC
}

// These depend on the user that a command runs as: the second column of want is for a shared one.
var sharedDecisions = []struct {
	decision
	shared unix.Errno
}{
	{decision{"prlimit64", a(0), 0}, 0}, {decision{"prlimit64", a(high), 0}, 0}, {decision{"prlimit64", a(1), 0}, eperm},
	{decision{"prlimit64", a(high | 1), 0}, eperm}, {decision{"setpriority", a(unix.PRIO_PROCESS, 0, 5), 0}, 0},
	{decision{"setpriority", a(unix.PRIO_PROCESS, 1), 0}, eperm}, {decision{"setpriority", a(unix.PRIO_USER, 0), 0}, eperm},
	{decision{"setpriority", a(unix.PRIO_PGRP, 0), 0}, eperm}, {decision{"ioprio_set", a(1, 0), 0}, 0}, {decision{"ioprio_set", a(1, 1), 0}, eperm},
	{decision{"ioprio_set", a(3, 0), 0}, eperm}, {decision{"sched_setaffinity", a(0), 0}, 0}, {decision{"sched_setaffinity", a(1), 0}, eperm},
	{decision{"sched_setscheduler", a(1), 0}, eperm}, {decision{"sched_setparam", a(1), 0}, eperm}, {decision{"sched_setattr", a(1), 0}, eperm},
	{decision{"sched_setattr", a(0), 0}, 0}, {decision{"sched_getaffinity", a(1), 0}, 0},
	{decision{"ptrace", a(), 0}, eperm}, {decision{"process_vm_readv", a(), 0}, eperm}, {decision{"process_vm_writev", a(), 0}, eperm},
}

// both runs a command's call through the two filters and returns the stricter action, as the kernel does.
func both(t tester, agent, exec machine, d data) action {
	one, two := agent.run(t, d), exec.run(t, d)
	if int32(one) < int32(two) { // the kernel compares them as signed numbers, lowest first
		return one
	}
	return two
}

// nothing is the action of reporting success without running the call: an error of 0.
const nothing unix.Errno = 1 << 16

func want(e unix.Errno) action {
	if e == 0 {
		return allow
	}
	return fails(e)
}

func TestDecisions(t *testing.T) {
	for _, goarch := range []string{"amd64", "arm64"} {
		for _, shared := range []bool{false, true} {
			name := goarch
			if shared {
				name += " shared uid"
			}
			t.Run(name, func(t *testing.T) {
				o := Options{Arch: goarch, Kernel: linux61, SharedUID: shared}
				f, err := Sandbox(o)
				if err != nil {
					t.Fatal(err)
				}
				arch, err := archFor(goarch)
				if err != nil {
					t.Fatal(err)
				}
				agent, exec := newMachine(t, f.Agent), newMachine(t, f.Exec)
				test := func(call string, args [6]uint64, errno unix.Errno) {
					t.Helper()
					number, ok := arch.number(call)
					if !ok {
						t.Fatalf("no system call %s", call)
					}
					if got := both(t, agent, exec, data{arch.audit, number, args}); got != want(errno) {
						t.Errorf("%s%#x: got %#x, want %v", call, args, got, errno)
					}
				}
				for _, d := range sandboxDecisions {
					test(d.call, d.args, d.want)
				}
				for _, d := range sharedDecisions {
					if shared {
						d.want = d.shared
					}
					test(d.call, d.args, d.want)
				}
				t.Logf("%d and %d instructions", len(f.Agent), len(f.Exec))
			})
		}
	}
}

// Only commands that can write to a disk can flush one, and no other call depends on that.
func TestDisk(t *testing.T) {
	for _, goarch := range []string{"amd64", "arm64"} {
		o := Options{Arch: goarch, Kernel: linux61}
		_, memory, err := policies(o)
		if err != nil {
			t.Fatal(err)
		}
		o.Disk = true
		agent, disk, err := policies(o)
		if err != nil {
			t.Fatal(err)
		}
		arch, err := archFor(goarch)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range arch.calls {
			d := data{arch.audit, c.number, a(3)}
			flush := c.name == "fsync" || c.name == "fdatasync"
			before, after := decide(memory, d), decide(disk, d)
			if flush && (before != fails(0) || after != allow || decide(agent, d) != allow) || !flush && before != after {
				t.Errorf("%s %s: %#x, with a disk %#x", goarch, c.name, before, after)
			}
		}
	}
}

// Reader changes no call but those that make Unix sockets which can connect to others.
func TestReader(t *testing.T) {
	for _, goarch := range []string{"amd64", "arm64"} {
		o := Options{Arch: goarch, Kernel: linux61}
		_, plain, err := policies(o)
		if err != nil {
			t.Fatal(err)
		}
		o.Reader = true
		_, reader, err := policies(o)
		if err != nil {
			t.Fatal(err)
		}
		arch, err := archFor(goarch)
		if err != nil {
			t.Fatal(err)
		}
		const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
		for _, c := range arch.calls {
			for kind := range uint64(6) {
				for _, family := range []uint64{unix.AF_UNIX, unix.AF_INET} {
					d := data{arch.audit, c.number, a(family, kind|flags)}
					want := decide(plain, d)
					if c.name == "socket" && family == unix.AF_UNIX || c.name == "socketpair" && (kind == unix.SOCK_DGRAM || kind == unix.SOCK_RAW) {
						want = fails(unix.EACCES)
					}
					if got := decide(reader, d); got != want {
						t.Errorf("%s %s(%d, %d): %#x, want %#x", goarch, c.name, family, kind, got, want)
					}
				}
			}
		}
	}
}

// NoFlush changes no call but those that flush.
func TestNoFlush(t *testing.T) {
	p, err := NoFlush()
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, p)
	arch, err := archFor(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range arch.calls {
		want := allow
		if slices.Contains(flushes[:], c.name) {
			want = fails(0)
		}
		if got := m.run(t, data{arch.audit, c.number, a(3)}); got != want {
			t.Errorf("%s: %#x, want %#x", c.name, got, want)
		}
	}
}

func TestAgentMayMore(t *testing.T) {
	f, err := Sandbox(Options{Arch: "amd64", Kernel: linux61, SharedUID: true})
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, f.Agent)
	for _, number := range []uint32{unix.SYS_CLONE3, unix.SYS_PRLIMIT64, unix.SYS_SETPRIORITY, unix.SYS_SECCOMP, unix.SYS_SETRESUID, unix.SYS_MKDIRAT} {
		if got := m.run(t, data{auditAMD64, number, a(1, 1)}); got != allow {
			t.Errorf("system call %d: got %#x, want allowed", number, got)
		}
	}
}

func TestForeignCalls(t *testing.T) {
	const auditI386, auditARM = 0x40000003, 0x40000028
	for goarch, audit := range map[string]uint32{"amd64": auditAMD64, "arm64": auditARM64} {
		f, err := Sandbox(Options{Arch: goarch, Kernel: linux61})
		if err != nil {
			t.Fatal(err)
		}
		for name, p := range map[string]Program{"agent": f.Agent, "exec": f.Exec} {
			m := newMachine(t, p)
			for _, other := range []uint32{auditI386, auditARM, auditAMD64 ^ auditARM64 ^ audit, 0} {
				for _, number := range []uint32{0, 1, 39, 63, 435, 0x40000000} {
					if got := m.run(t, data{other, number, a()}); got != kill {
						t.Errorf("%s %s: architecture %#x, call %d: got %#x, want killed", goarch, name, other, number, got)
					}
				}
			}
		}
		m := newMachine(t, f.Agent)
		for _, number := range []uint32{0x40000000, 0x40000001, 0x40000000 | 39, 0x40000000 | 520, 0x7fffffff, 0x80000000, 0xffffffff, 472, 5000} {
			if got := m.run(t, data{audit, number, a()}); got != fails(unix.ENOSYS) {
				t.Errorf("%s: call %#x: got %#x, want ENOSYS", goarch, number, got)
			}
		}
		if goarch == "amd64" {
			number, _ := arch{audit, amd64Calls[:]}.number("modify_ldt")
			if got := m.run(t, data{audit, number, a()}); got != fails(unix.ENOSYS) {
				t.Errorf("modify_ldt: got %#x, want ENOSYS", got)
			}
		}
	}
}

// Calls newer than the profile are unknown, not forbidden, so that libraries fall back.
func TestCallsNewerThanTheProfile(t *testing.T) {
	agent, _, err := policies(Options{Arch: "amd64", Kernel: linux61})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]action{
		"file_getattr": fails(unix.ENOSYS), "listns": fails(unix.ENOSYS), "open_tree_attr": fails(unix.EPERM), "uselib": fails(unix.EPERM),
	} {
		number, ok := arch{auditAMD64, amd64Calls[:]}.number(name)
		if !ok {
			t.Fatalf("no system call %s", name)
		}
		if got := decide(agent, data{auditAMD64, number, a()}); got != want {
			t.Errorf("%s: got %#x, want %#x", name, got, want)
		}
	}
}

func TestKernelConditions(t *testing.T) {
	for _, c := range []struct {
		kernel Kernel
		want   action
	}{{Kernel{4, 7}, fails(unix.EPERM)}, {Kernel{4, 8}, allow}, {Kernel{5, 0}, allow}, {Kernel{3, 19}, fails(unix.EPERM)}} {
		agent, _, err := policies(Options{Arch: "amd64", Kernel: c.kernel})
		if err != nil {
			t.Fatal(err)
		}
		if got := decide(agent, data{auditAMD64, unix.SYS_PTRACE, a()}); got != c.want {
			t.Errorf("ptrace on %v: got %#x, want %#x", c.kernel, got, c.want)
		}
	}
}

// Every argument that a rule compares is an int in the kernel, so all of them are narrow. A new rule in the profile must be checked.
func TestComparedArgumentsAreNarrow(t *testing.T) {
	for _, goarch := range []string{"amd64", "arm64"} {
		agent, exec, err := policies(Options{Arch: goarch, Kernel: linux61, SharedUID: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []policy{agent, exec} {
			for number, list := range p.rules {
				for _, r := range list {
					for _, c := range r.when {
						if !c.narrow {
							t.Errorf("%s: call %d compares all of argument %d", goarch, number, c.arg)
						}
					}
				}
			}
		}
	}
}

// A name in the rules that neither architecture has belongs to another architecture; it is neither misspelt nor new.
func TestNamesAreKnown(t *testing.T) {
	names := map[string]bool{}
	for _, s := range profile.DefaultProfile().Syscalls {
		for _, name := range s.Names {
			names[name] = true
		}
	}
	for _, name := range denied {
		names[name] = true
	}
	for _, rules := range []map[string][]rule{conditional(Options{}), execRules(Options{SharedUID: true})} {
		for name := range rules {
			names[name] = true
		}
	}
	for _, table := range [][]call{amd64Calls[:], arm64Calls[:]} {
		for _, c := range table {
			delete(names, c.name)
		}
	}
	foreign := func(name string) bool {
		return strings.HasSuffix(name, "32") || strings.HasSuffix(name, "64") || strings.HasPrefix(name, "arm_") ||
			strings.HasPrefix(name, "s390_") || strings.HasPrefix(name, "riscv_")
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool { return foreign(name) })
	got := slices.Sorted(maps.Keys(names))
	want := []string{
		"_llseek", "_newselect", "breakpoint", "cacheflush", "ipc", "mmap2", "recv", "send", "set_tls", "sigprocmask", "sigreturn",
		"socketcall", "stime", "swapcontext", "sync_file_range2", "ugetrlimit", "umount", "waitpid",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names that no table has (-want +got):\n%s", diff)
	}
}

func TestTablesAreSorted(t *testing.T) {
	for _, table := range [][]call{amd64Calls[:], arm64Calls[:]} {
		if !slices.IsSortedFunc(table, func(x, y call) int { return strings.Compare(x.name, y.name) }) || len(table) < 300 {
			t.Error("a table of system calls is out of order or too short")
		}
	}
}

// The filter is cheap if the kernel has to run it: no call needs more than a few dozen instructions.
func TestSizes(t *testing.T) {
	for _, goarch := range []string{"amd64", "arm64"} {
		f, err := Sandbox(Options{Arch: goarch, Kernel: linux61, SharedUID: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Agent) > 600 || len(f.Exec) > 100 {
			t.Errorf("%s: %d and %d instructions, want at most 600 and 100", goarch, len(f.Agent), len(f.Exec))
		}
	}
}

func TestOptionsErrors(t *testing.T) {
	if _, err := Sandbox(Options{Arch: "mips"}); err == nil {
		t.Error("an architecture without a table was accepted")
	}
	if _, err := Sandbox(Options{}); err != nil {
		t.Errorf("this machine: %v", err)
	}
}

func TestBytesAreTheKernelsLayout(t *testing.T) {
	f, err := Sandbox(Options{})
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for _, i := range f.Agent {
		want = binary.NativeEndian.AppendUint16(want, i.Code)
		want = append(want, i.Jt, i.Jf)
		want = binary.NativeEndian.AppendUint32(want, i.K)
	}
	if got := f.Agent.Bytes(); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want the %d of struct sock_filter", len(got), len(want))
	}
}

func BenchmarkSandbox(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Sandbox(Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
