// Package native is the built-in runtime. This process itself makes a sandbox from Linux namespaces, cgroups,
// seccomp and Landlock, without a daemon, a root file system to fetch or KVM. It works as root and rootless.
//
// A sandbox is one process tree: the agent is its PID 1, and when it ends the kernel ends the rest. The parts:
//
//	program.go   the birth of a sandbox, as a list of system calls: read this first
//	root.go      its root file system, as linux/rootfs describes it
//	image.go     the user that an image names
//	create.go    what the parent prepares
//	sandbox.go   a living sandbox: dial, usage, how it ended
//	claim.go     a sandbox that was made in advance
//	probe.go     what this host can do
//
// Package linux/jar has the rest: how a sandbox is found again, destroyed or swept, and its files on disk.
package native
