// Package guest is the agent inside a sandbox. It starts commands, keeps their output until the host has stored it, and serves
// files. It ends everything on request, when its lease expires, or when its creator ends. Package wire specifies the protocol.
//
// An [Agent] serves streams over any listener. Its parts, one per file:
//
//	stream     hello, request, dispatch; a malformed frame ends its own stream only
//	exec       the table of commands: start, attach, signal, list, forget
//	launch     a command's start, as a program of system calls (package forkexec)
//	life       a command's end: exit, timeout, grace, kill, drain, outcome
//	kill       every process of a command, by cgroup, by kill(-1) or by sweeping the keeper's descendants
//	parked     interpreters that wait for their command, and the processes that they fork
//	shell      commands for a persistent shell: its queue, process, driver, streams, and their end
//
// and one per package:
//
//	file       the workspace, through os.Root and with the requester's file system ids
//	process    processes, cgroups, the reaper, and what commands must not inherit
//	spool      output that the host has not acknowledged
//	lease      the end without a host
//	pty        terminals
//	sock       sockets of processes that take turns with the agent
//	warm       interpreters that can wait
//	identity   acting as another user during a call
//	relay      names and connections, through the host
//	confine    limits on kernel memory that no cgroup is charged for
//	fault      errors for the host
//
// Nothing here polls: pipes and sockets use the runtime's poller, and keepers report the ends of processes.
package guest
