// Package seccomp builds the system-call filters of a sandbox: an allow-list that starts from Docker's default profile, adds
// Belljar's own rules, and is compiled by this package to classic BPF. It needs no cgo.
//
// There are two filters. Agent is installed once, before the agent is executed, and inherited by everything inside; it allows what
// the agent itself needs. Exec is small, and stacked on top right before the execve of every command; it forbids what only the agent
// may do. The kernel runs both and applies the stricter action.
//
// # Effects on programs
//
//   - Another architecture (int 0x80 on amd64, 32-bit ARM on arm64): the process is killed. Numbers there mean other calls.
//   - An x32 call, a number without a name, and a call newer than the newest one that the profile knows: ENOSYS, so
//     that a C library falls back to what it used before.
//   - clone3, from a command: ENOSYS, since its flags are in memory, which a filter cannot read; libraries fall back to clone.
//     [Options].Clone3 is for a kernel that checks the flags itself.
//   - A socket of another family than unix, inet, inet6 and NETLINK_ROUTE (which getifaddrs needs): EAFNOSUPPORT.
//     An internet protocol that is not TCP, UDP or MPTCP: EPROTONOSUPPORT; the rest are rarely used kernel modules
//     that the first socket would load, or ping's, whose queues no cgroup is charged for.
//   - A BPF program: as a socket filter EPERM, as a seccomp filter of a command EINVAL, as on a kernel without seccomp filters.
//     Queries of the available actions are allowed.
//   - The option SO_TIMESTAMPING of a socket: EPERM. SO_RCVBUF, SO_RCVLOWAT, IP_RECVERR and IPV6_RECVERR report success and
//     change nothing: the C library resolves no name if the latter two fail. No cgroup is charged for the queues that they fill or lengthen.
//   - The calls of asynchronous I/O (io_setup and similar): ENOSYS; libraries fall back to threads.
//   - memfd_secret: ENOSYS, as on a kernel built without it. Its memory splits the large pages of the kernel's map of all memory.
//   - A lock of an open file description (F_OFD_SETLK): EINVAL, as on a kernel before 3.15. It has no owner to count it for.
//   - modify_ldt: ENOSYS, as on a kernel built without it; only 16-bit and 32-bit code uses it.
//   - Everything else that is not allowed: EPERM, as under Docker.
//
// # Differences from Docker
//
// The profile's rules are evaluated for a process without any capability. Belljar's additional rules deny, whatever the profile
// states: creating and entering namespaces, both mount APIs, bpf, perf_event_open, the key rings, userfaultfd, io_uring, kexec,
// modules, terminal injection (TIOCSTI, TIOCLINUX) and line disciplines (TIOCSETD). ptrace and process_vm_readv stay allowed:
// debuggers are useful, and reach only processes of the same user. vmsplice stays allowed, too.
//
// If agent and commands share a user ([Options].SharedUID), Exec also prevents a command from tampering with the agent: it may
// change limits, priorities and scheduling of the calling thread only (pid 0, not its own pid either, which a filter cannot know),
// and may not trace. Signals cannot be distinguished; the agent has to survive them.
//
// # Arguments
//
// The kernel hands a filter six 64-bit arguments but many calls read only the lower half of one. Such an argument is compared by its
// lower half, so that bits above it cannot carry a call past a rule.
package seccomp

//go:generate go run generate.go
