// Package jar is the common part of all sandboxes that this machine's kernel isolates: the first process of a pid
// namespace, with a folder and a lock in a roster, its own host ids and a cgroup. The package creates jars, finds them
// again, renames them and removes their remains. The runtime supplies the rest: the birth as a list of system calls, the
// program inside, and its protocol. The parts:
//
//	rack.go    the jars of an installation: all jars, and the living ones
//	birth.go   a jar under construction, and its removal after a failure
//	jar.go     a living jar, and its end
//	claim.go   a jar that was made in advance becomes its caller's
//	remove.go  the removal of all traces of a jar
//	sweep.go   which jars are orphaned
//
// On disk there is one folder per jar, with its sockets and a record, and one lock file next to it. The lock is held by the
// creating process and inherited by the first process of the jar: a lock that is free marks a leftover.
//
// Used by the native and gVisor runtimes. Linux only.
package jar
