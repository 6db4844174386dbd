// Package cgroup makes a control group per sandbox, on cgroup v2, v1 and hybrid hosts, as root, in a container and
// delegated to an ordinary user.
//
// [Discover] finds out where this process may make groups and which limits hold there; [Host.Create] makes a group with
// its limits already set, so that nothing ever runs in it without them. A process enters it at its fork: into the
// cgroup2 folder by CLONE_INTO_CGROUP with [Group.FD], and into each v1 folder by writing "0" to a descriptor of
// [Group.TaskFDs]. No process is moved from outside: writing another process's id takes the lock that every fork and
// exit on the machine shares, and waits for an RCU grace period to get it. That takes 7 ms on a small machine, where
// "0" takes 7 µs (BenchmarkEnterV1).
package cgroup
