// Package guest is the agent inside a sandbox: it starts commands, keeps their output until the host has it, moves
// files, and ends everything when told, when nobody calls any more, or when its creator is gone. The protocol is
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
//	files, tar the workspace, through os.Root and with the requester's file system ids
//
// Nothing here polls: pipes and sockets wait in the runtime's poller, processes are told by their keepers.
package guest
