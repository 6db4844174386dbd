// Package forkexec starts a process whose preparation is a program: a list of system calls that the parent builds in
// ordinary Go. The forked child only executes them, one after the other, before its execve.
//
// Between fork and exec a child of a Go process may not allocate, lock, grow its stack or call the runtime. All complex work
// is done by the parent, so only about a hundred lines must obey this; namespaces, mounts, limits and filters are data.
// Every call belongs to a named step, so a failure states where it happened.
//
// The child is a fork (own address space): it may block on its parent, which Sync needs and vfork forbids. The cost of a
// full fork grows with the parent's memory: page tables to copy and to tear down, and later faults in the parent. The child
// needs almost none of that memory. So a program, everything that its calls point to, and the child's stack are in an arena,
// and on amd64 the child starts with only the arena and the executable's image (MADV_DONTFORK). The children of the child,
// by Spawn and SplitKeeper, share its memory and have a stack of their own there.
//
// A keeper, which executes nothing, goes further: on amd64 it shares the parent's memory for as long as it lives, unless
// [Program.UnshareMemory] states otherwise, and its own child shares it as vfork's does, until the execve. Hence:
//
//   - Everything that the child reads or writes goes through Str, Strs, Ptr, Slice or Alloc, which copy it into the arena.
//   - Code in the child is nosplit and accesses only the arena and registers: there is no g, no heap, no memory of the
//     thread, or there is the parent's, which it must not touch.
//   - A process in the parent's memory must not handle a signal: the handler would be the parent's. A keeper handles none at
//     all, and its child none before the execve.
//   - The arena of a keeper's program is released when no process can run on it; see [Program.StartKeeper].
//   - No other code in the process may fork without sharing its memory: os/exec shares it, except with CLONE_NEWUSER.
//
// Used by the native runtime, to build a sandbox, and by the agent, to start a command. Linux only.
package forkexec
