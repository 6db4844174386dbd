// Package guest is the agent inside a sandbox: it starts commands, keeps their output until the host has it, moves
// files, and ends everything on request, when its lease expires, or when its creator is gone. The protocol is
// specified in package wire.
//
// An [Agent] serves streams; what carries them is its caller's business. Its parts, one a file:
//
//	stream     hello, request, dispatch; a malformed frame ends its own stream only
//	exec       the table of commands: start, attach, signal, list, forget
//	launch     a command's birth, as a program of system calls (package forkexec)
//	life       a command's end: exit, timeout, grace, kill, drain, outcome
//	kill       every process of a command, by cgroup, by kill(-1) or by sweeping the keeper's descendants
//	spool      output that the host does not have yet
//	shell      commands for a shell that lives on: its line, process, driver, streams, and their end
//
// and one a package:
//
//	file       the workspace, through os.Root and with the requester's file system ids
//	process    processes, cgroups and the reaper
//	identity   acting as another user for one call
//	confine    bounds of kernel memory that no cgroup is charged for
//	fault      errors as the host reads them
//
// Nothing here polls: pipes and sockets wait in the runtime's poller, keepers report the ends of processes.
package guest
