// Package native is the embedded runtime: a sandbox made of Linux namespaces, cgroups, seccomp and Landlock by this
// process itself, with no daemon, no root file system to fetch and no KVM. It works as root and rootless.
//
// A sandbox is one process tree: the agent is its PID 1, and when that ends the kernel ends the rest. The parts:
//
//	program.go   the birth of a sandbox, as a list of system calls: read this first
//	root.go      its root file system, of what linux/rootfs says
//	image.go     the user that an image asks for
//	create.go    what the parent prepares
//	sandbox.go   a living sandbox: dial, usage, how it ended
//	claim.go     a sandbox that was made ahead
//	probe.go     what this host can do
//
// Package linux/jar has the rest: how a sandbox is found again, unmade, destroyed or swept, and what lies on disk.
package native
