// Package forkexec starts a process whose preparation is a program: a list of system calls that the parent writes
// down in ordinary Go and the forked child merely carries out, one after the other, before it executes something else.
//
// Between fork and exec a child of a Go process may not allocate, lock, grow its stack or call the runtime. Keeping
// everything clever on the parent's side leaves about a hundred lines that must obey this; namespaces, mounts, limits
// and filters are data. Every call belongs to a named step, so a failure states where it happened.
//
// The child is a fork (own address space): it may block on its parent, which Sync needs and vfork forbids. A fork of the
// whole costs the more the more memory the parent has in use, in page tables to copy and to tear down, and in faults of
// the parent afterwards. The child needs nearly nothing of it. So a program and all that its calls point at lies in an
// arena of its own, the child's stack too, and on amd64 the child is born with that and the executable's image, and nothing
// else (MADV_DONTFORK). The children of the child, of Spawn and Keep, share its memory and have a stack of their own
// there.
//
// A keeper, which executes nothing, goes further: on amd64 it shares the parent's memory for as long as it lives, unless
// [Program.UnshareMemory] states otherwise, and its own child shares it as vfork's does, until the execve. Hence:
//
//   - Whatever the child is to read or write goes through Str, Strs, Ptr, Slice or Alloc, which copy it into the arena.
//   - What runs in the child is nosplit and touches only the arena and registers: there is no g, no heap, no memory of the
//     thread, or there is the parent's, which it must leave alone.
//   - In the parent's memory no signal may be taken: a handler there would be the parent's. A keeper takes none at all, and
//     its child none before the execve.
//   - The arena of a keeper's program is released when no process can run on it; see [Program.StartKeeper].
//   - Nothing else in the process may fork without sharing its memory: os/exec shares it, except with CLONE_NEWUSER.
//
// Used by the native runtime, to build a sandbox, and by the agent, to start a command. Linux only.
package forkexec
