//go:build linux

package seccomp

import "golang.org/x/sys/unix"

// denied are the calls that no process in a sandbox may make, whatever the profile states. The profile denies most of them today,
// too; this list is Belljar's guarantee.
var denied = [...]string{
	// Namespaces; clone's flags are below.
	"unshare", "setns",
	// Both mount APIs. statmount and listmount only read.
	"mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig",
	"fsmount", "fspick", "mount_setattr", "quotactl", "quotactl_fd", "swapon", "swapoff", "open_by_handle_at",
	// Large parts of the kernel that untrusted code does not need, with a long history of vulnerabilities.
	"bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
	"add_key", "request_key", "keyctl",
	// The machine itself.
	"kexec_load", "kexec_file_load", "reboot", "init_module", "finit_module", "delete_module", "acct", "syslog",
	"iopl", "ioperm", "settimeofday", "clock_settime", "sethostname", "setdomainname", "vhangup", "nfsservctl",
	"lookup_dcookie", "fanotify_init",
	// Other processes beyond what ptrace's own check covers.
	"kcmp", "pidfd_getfd", "process_madvise", "migrate_pages", "move_pages",
}

// namespaces are the CLONE_NEW flags that clone takes. CLONE_NEWTIME is not one: in clone its bit is part of the signal.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID |
	unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// conditional are Belljar's rules for calls that depend on their arguments; they replace the profile's.
func conditional(o Options) map[string][]rule {
	is := func(name string, arg int, value uint64) condition {
		return condition{arg: arg, narrow: narrow(name, arg), op: equal, value: value}
	}
	isNot := func(name string, arg int, value uint64) condition {
		return condition{arg: arg, narrow: narrow(name, arg), op: notEqual, value: value}
	}
	refuse := func(name string, arg int, values ...uint64) (list []rule) {
		for _, v := range values {
			list = append(list, rule{[]condition{is(name, arg, v)}, fails(unix.EPERM)})
		}
		return append(list, rule{action: allow})
	}
	socket := []rule{
		{[]condition{is("socket", 0, unix.AF_UNIX)}, allow},
		{[]condition{is("socket", 0, unix.AF_NETLINK), is("socket", 2, unix.NETLINK_ROUTE)}, allow},
		{[]condition{isNot("socket", 0, unix.AF_INET), isNot("socket", 0, unix.AF_INET6)}, fails(unix.EAFNOSUPPORT)},
	}
	// Stream, datagram and raw are types 1 to 3, below flags. Other types load rarely used modules.
	plain := condition{arg: 1, narrow: true, op: masked, mask: 0xc}
	// ping's protocols are excluded, which an engine allows to all users: no cgroup is charged for the queues of such sockets.
	for _, protocol := range []uint64{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_MPTCP} {
		socket = append(socket, rule{[]condition{plain, is("socket", 2, protocol)}, allow})
	}
	rules := map[string][]rule{
		"clone": {
			{[]condition{{narrow: true, op: masked, mask: namespaces}}, allow},
			{action: fails(unix.EPERM)},
		},
		"clone3":     {{action: allow}}, // for the agent, which uses it to start processes in cgroups; Exec forbids it
		"ioctl":      refuse("ioctl", 1, unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD),
		"modify_ldt": {{action: fails(unix.ENOSYS)}},
		"socket":     append(socket, rule{action: fails(unix.EPROTONOSUPPORT)}),
		"socketpair": {
			{[]condition{is("socketpair", 0, unix.AF_UNIX)}, allow},
			{action: fails(unix.EAFNOSUPPORT)},
		},
		"setsockopt": socketOptions(is, o.Clone3),
	}
	// The host has a small number of these contexts in total. A program without one uses threads.
	for _, name := range []string{"io_setup", "io_submit", "io_getevents", "io_pgetevents", "io_cancel", "io_destroy"} {
		rules[name] = []rule{{action: fails(unix.ENOSYS)}}
	}
	// Each page of such memory is removed from the kernel's map of all memory, which permanently splits large pages and slows the host.
	rules["memfd_secret"] = []rule{{action: fails(unix.ENOSYS)}}
	return rules
}

// socketOptions returns rules against options for which the kernel allocates memory that it charges to no cgroup. A kernel in user space
// has its own queues.
func socketOptions(is func(name string, arg int, value uint64) condition, userSpace bool) (list []rule) {
	answer := func(errno unix.Errno, level uint64, options ...uint64) {
		for _, option := range options {
			list = append(list, rule{[]condition{is("setsockopt", 1, level), is("setsockopt", 2, option)}, fails(errno)})
		}
	}
	refuse := func(level uint64, options ...uint64) { answer(unix.EPERM, level, options...) }
	// BPF programs: the host limits the machine code of all of them together.
	refuse(unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, unix.SO_ATTACH_BPF, unix.SO_ATTACH_REUSEPORT_CBPF, unix.SO_ATTACH_REUSEPORT_EBPF)
	// Flow labels (IPV6_FLOWLABEL_MGR): the whole host has 4096.
	refuse(unix.IPPROTO_IPV6, 32)
	// Keys of signed connections, as used by routers (TCP_MD5SIG, TCP_AO_ADD_KEY and the TCP_AO options after it): more than 100 KiB per
	// socket.
	refuse(unix.IPPROTO_TCP, unix.TCP_MD5SIG, unix.TCP_MD5SIG_EXT, 38, 39, 40)
	// Protocols above TCP in the kernel, such as TLS with its ciphers: programs have their own implementations, in their own memory.
	refuse(unix.IPPROTO_TCP, unix.TCP_ULP)
	if userSpace {
		return append(list, rule{action: allow})
	}
	// Queues of sent packets, for their times and for errors. The C library resolves no name if the latter fail, and UDP reports errors
	// without them.
	refuse(unix.SOL_SOCKET, unix.SO_TIMESTAMPING, soTimestampingNew)
	answer(0, unix.IPPROTO_IP, unix.IP_RECVERR)
	answer(0, unix.IPPROTO_IPV6, unix.IPV6_RECVERR)
	// Longer queues, those of connections that a program has not yet accepted among them. The kernel adjusts TCP's to the reader.
	answer(0, unix.SOL_SOCKET, unix.SO_RCVBUF, unix.SO_RCVLOWAT)
	return append(list, rule{action: allow})
}

// fileControls returns rules that refuse commands of fcntl. The error is that of a kernel without them.
func fileControls(is func(name string, arg int, value uint64) condition) (list []rule) {
	for _, command := range []uint64{
		// Locks of open file descriptions have no owner to count them for.
		unix.F_OFD_SETLK, unix.F_OFD_SETLKW,
		// One signal for each descriptor of a folder at each use of its files, sent by the process that uses them, on the host, too.
		unix.F_NOTIFY,
		// A lease delays other processes that open the file, by 45 s.
		unix.F_SETLEASE,
	} {
		list = append(list, rule{[]condition{is("fcntl", 1, command)}, fails(unix.EINVAL)})
	}
	return append(list, rule{action: allow})
}

// flushes are calls that report success and do nothing: a sandbox must not flush the host's disk, which even fsync of a file that it
// can only read does. msync and sync_file_range of such a file do not.
var flushes = [...]string{"sync", "syncfs", "fsync", "fdatasync"}

// soTimestampingNew is SO_TIMESTAMPING_NEW, on every architecture.
const soTimestampingNew = 65

// execRules returns rules that forbid calls to commands that the agent may make.
func execRules(o Options) map[string][]rule {
	when := func(name string, arg int, value uint64) condition {
		return condition{arg: arg, narrow: narrow(name, arg), op: equal, value: value}
	}
	rules := map[string][]rule{
		"clone3": {{action: fails(unix.ENOSYS)}},
		"fcntl":  fileControls(when),
		// A filter is a BPF program, too. The error is that of a kernel without filters; queries are allowed.
		"seccomp": {{[]condition{when("seccomp", 0, unix.SECCOMP_SET_MODE_FILTER)}, fails(unix.EINVAL)}, {action: allow}},
		"prctl": {
			{[]condition{when("prctl", 0, unix.PR_SET_SECCOMP)}, fails(unix.EINVAL)},
			// A program that is alone on a core keeps its other threads idle, above the quota.
			{[]condition{when("prctl", 0, unix.PR_SCHED_CORE)}, fails(unix.EINVAL)},
			{[]condition{when("prctl", 0, unix.PR_SET_MEMORY_MERGE)}, fails(unix.EINVAL)},
			{action: allow},
		},
		// A thread of the kernel would merge equal pages, at the host's cost, and show a program which pages others have. The errors are those of
		// a kernel that does not.
		"madvise": {{[]condition{when("madvise", 2, unix.MADV_MERGEABLE)}, fails(unix.EINVAL)}, {action: allow}},
		// A sandbox must not drop the host's cache of files that others use. The kernel ignores advice on files in memory anyway.
		"fadvise64": {{[]condition{when("fadvise64", 3, 4)}, fails(0)}, {action: allow}}, // POSIX_FADV_DONTNEED
	}
	for _, name := range flushes {
		if !o.Disk || name == "sync" || name == "syncfs" {
			rules[name] = []rule{{action: fails(0)}}
		}
	}
	if o.Reader {
		rules["socket"] = []rule{{[]condition{when("socket", 0, unix.AF_UNIX)}, fails(unix.EACCES)}, {action: allow}}
		// Pairs of streams and of packets (types 1 and 5) stay connected to each other, unlike those of datagrams (2 and 3).
		pairs := condition{arg: 1, narrow: true, op: masked, mask: 0xa}
		rules["socketpair"] = []rule{{[]condition{pairs}, allow}, {action: fails(unix.EACCES)}}
	}
	if o.Clone3 { // a kernel in user space, which keeps filters in its own memory
		rules = map[string][]rule{}
	}
	if !o.SharedUID {
		return rules
	}
	own := func(name string, values ...uint64) {
		r := rule{action: allow}
		for arg, v := range values {
			r.when = append(r.when, condition{arg: arg, narrow: narrow(name, arg), op: equal, value: v})
		}
		rules[name] = []rule{r, {action: fails(unix.EPERM)}}
	}
	for _, name := range []string{"prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"} {
		own(name, 0)
	}
	own("setpriority", unix.PRIO_PROCESS, 0)
	own("ioprio_set", 1, 0) // IOPRIO_WHO_PROCESS
	for _, name := range []string{
		"ptrace", "process_vm_readv", "process_vm_writev", "process_mrelease",
		// These can simulate a fault of the agent itself, which would end it.
		"rt_sigqueueinfo", "rt_tgsigqueueinfo",
	} {
		rules[name] = []rule{{action: fails(unix.EPERM)}}
	}
	return rules
}
