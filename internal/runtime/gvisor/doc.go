// Package gvisor is a runtime in which programs use a kernel in user space, gVisor's sentry, instead of the host's. They can
// attack only a Go program without rights, which uses a few dozen system calls of the host.
//
// runsc builds the sandbox from a bundle that Belljar writes. runsc, its sentry and its gofer, which serves the read-only
// root, run in a jar like that of the native runtime: user, pid and mount namespaces of their own, a unique range of host
// ids, and a root with only the files that they need. Not even runsc has rights on the host. The first process in the jar is
// a keep (internal/agent/keep): gVisor offers one byte stream to the agent inside, and a process that outlives the daemon
// must hold it. When the keep is dead, the kernel guarantees that all other processes of the jar are gone. The parts:
//
//	birth.go    the birth of the jar, as a list of system calls
//	stage.go    the root of the jar, and in it that of the sandbox
//	bundle.go   the configuration of runsc
//	create.go   what the parent prepares
//	sandbox.go  a living sandbox: dial, usage, how it ended
//	claim.go    a sandbox that was made in advance
//	save.go     pause, snapshot, restore
//	state.go    the parts of a snapshot, and whether they are intact
//	probe.go    what this host can do
//
// Package linux/jar has the rest: how a sandbox is found again, destroyed or swept. A sandbox's folder has its keep's
// sockets and last error output, in addition to the files of every jar.
package gvisor
