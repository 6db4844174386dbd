// Package native is the embedded runtime: a sandbox made of Linux namespaces, cgroups, seccomp and Landlock by this
// process itself, with no daemon, no root file system to fetch and no KVM. It works as root and rootless.
//
// A sandbox is one process tree: the agent is its PID 1, and when that ends the kernel ends the rest. The parts:
//
//	program.go   the birth of a sandbox, as a list of system calls: read this first
//	root.go      its root file system, of what linux/rootfs says
//	image.go     images: held while they are used
//	create.go    what the parent prepares and undoes
//	sandbox.go   a living sandbox: dial, usage, wait, destroy
//	state.go     what lies on disk, so that a sandbox can be found again or swept
//	probe.go     what this host can do
//
// On disk there is one folder per sandbox, with the agent's socket and a record, and one lock file beside it. The lock
// is held by the creating process and inherited by the agent: a lock that is free marks a leftover.
package native
