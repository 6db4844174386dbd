// Package warden enforces a memory limit on the programs of a sandbox alone. The kernel has only one sum: a memory cgroup is charged both
// for the memory of programs and for their files in memory file systems.
//
// The kernel's limit follows the files. It is the limit of the programs, plus the present size of our file systems, plus a small margin. The
// kernel reclaims cache and kills as always, also if the warden is late or dead. The warden changes the limit as files grow and shrink. It
// sleeps while a group's charge is below the limit of its programs alone, because then the programs hold at most that. When the charge
// rises, the kernel wakes the warden. It then looks at the group repeatedly, and each look comes before the programs could have used up the
// rest of their limit, even at the speed of the memory itself.
//
// A [Warden] has two loops on different processors, both of which do all of this: a virtual machine may lose one processor for longer than a
// program needs to fill its files. [Serve] runs a warden as its own process, one for each installation, which outlives a daemon, or one for
// each creator of sandboxes that end with it. All threads of that process have precedence over programs, which would be impossible for a
// part of a process. [Client] starts it and talks to it.
//
//	bound.go    the arithmetic
//	group.go    one group: its memory, and its limit
//	kernel.go   files of the kernel
//	loop.go     one loop
//	warden.go   both loops
//	serve.go    the warden's process
//	client.go   the client of such a process
//
// Linux only.
package warden
