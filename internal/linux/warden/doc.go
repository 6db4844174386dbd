// Package warden holds the programs of a sandbox at their own memory, where the kernel knows only one sum: a memory cgroup
// is charged for what programs hold and for the files that they keep in memory file systems alike.
//
// The kernel's limit follows the files. It is the memory that the programs may have, plus what our file systems hold now,
// plus a small margin; the kernel reclaims cache and kills as always, also when the warden is late or dead. The warden moves
// the limit as files grow and shrink. It sleeps while a group is charged less than its programs alone may have, for whatever
// that is, the programs hold no more: the kernel wakes it. From there on it looks at the group, and the next look comes
// before the programs could have used up what they still may have, at the pace of the memory itself.
//
// A [Warden] has two loops on different processors, each of which does all of this: a virtual machine may lose one processor for longer than
// a program needs to fill its files. [Serve] is the process around it, one for each installation, which outlives a
// daemon, or one for each creator of sandboxes that end with it: all of its
// threads have precedence over programs, as no part of a process could. [Client] starts it and talks to it.
//
//	bound.go    the arithmetic
//	group.go    one group: what it holds, and its limit
//	kernel.go   files of the kernel
//	loop.go     one loop
//	warden.go   both
//	serve.go    a process of its own
//	client.go   the side of those that need one
//
// Linux only.
package warden
