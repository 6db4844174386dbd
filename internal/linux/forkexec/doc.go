// Package forkexec starts a process whose preparation is a program: a list of system calls that the parent writes
// down in ordinary Go and the forked child merely carries out, one after the other, before it executes something else.
//
// Between fork and exec a child of a Go process may not allocate, lock, grow its stack or call the runtime. Keeping
// everything clever on the parent's side leaves about a hundred lines that must obey this; namespaces, mounts, limits
// and filters are data. Every call belongs to a named step, so a failure says where it happened.
//
// The child is a plain fork (own address space): it may block on its parent, which Sync needs and vfork forbids.
//
// Used by the native runtime, to build a sandbox, and by the agent, to start a command. Linux only.
package forkexec
