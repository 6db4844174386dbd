// Package gvisor is a runtime in which programs meet a kernel in user space, gVisor's sentry, instead of the host's. What
// they can attack is a Go program without rights, which asks the host for a few dozen system calls.
//
// runsc builds the sandbox, from a bundle that is ours; it, its sentry and its gofer, which serves the read-only root, run
// in a jar like that of the native runtime: user, pid and mount namespaces of their own with a unique range of host ids,
// and a root that has nothing in it but what they need. Not even runsc has rights on the host. The first process in there is
// a keep (internal/agent/keep): gVisor has one byte stream to the agent inside, and a process must hold it that outlives
// the daemon. The keep's death is the kernel's word that all the rest is gone. The parts:
//
//	birth.go    the birth of the jar, as a list of system calls
//	stage.go    the root of the jar, and in it that of the sandbox
//	bundle.go   the configuration of runsc
//	create.go   what the parent prepares
//	sandbox.go  a living sandbox: dial, usage, how it ended
//	claim.go    a sandbox that was made ahead
//	save.go     pause, snapshot, restore
//	state.go    what a snapshot is made of, and whether it still is
//	probe.go    what this host can do
//
// Package linux/jar has the rest: how a sandbox is found again, unmade, destroyed or swept. On disk there are its keep's
// sockets and last error output in its folder, besides what every jar has.
package gvisor
