//go:build linux

// Package process finds, signals and reaps the processes of commands, and manages their cgroups.
package process

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process held by a pidfd: a signal reaches it or no process, even if its pid is reused.
type Process struct {
	pid   int
	start uint64 // start time in clock ticks; with the pid its identity
	fd    int
}

// Signal sends a signal. A process that has ended ignores it.
func (p *Process) Signal(s unix.Signal) {
	_ = unix.PidfdSendSignal(p.fd, s, nil, 0) // an ended process is fine
}

func (p *Process) Close() { unix.Close(p.fd) }

// Ended waits for the process's end, and reports whether it came before until.
func (p *Process) Ended(until time.Time) bool {
	for {
		left := max(0, time.Until(until))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		switch {
		case n > 0:
			return true
		case err != nil && err != unix.EINTR, left < time.Millisecond:
			return false
		}
	}
}

// AwaitDeath waits, for at most a second, until a killed process is dead and has released its descriptors.
func AwaitDeath(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // the process is dead
	}
	p := Process{fd: fd}
	defer p.Close()
	p.Ended(time.Now().Add(time.Second))
}

// Entry is a process's entry in /proc.
type Entry struct {
	Pid, Parent, Session int
	Zombie               bool // all threads are dead, not only the first
	Start                uint64
	Own, Children        time.Duration // CPU time of its own, and of its reaped descendants
}

// Open opens a process, unless it has ended meanwhile.
func Open(x Entry) *Process {
	fd, err := unix.PidfdOpen(x.Pid, 0)
	if err != nil {
		return nil
	}
	// The descriptor is of the same process if the entry is still the same.
	if now, ok := ReadEntry(x.Pid); !ok || now.Start != x.Start {
		unix.Close(fd)
		return nil
	}
	return &Process{pid: x.Pid, start: x.Start, fd: fd}
}

// ByParent lists the processes of a table by their parents.
func ByParent(table map[int]Entry) map[int][]Entry {
	children := make(map[int][]Entry, len(table))
	for _, x := range table {
		children[x.Parent] = append(children[x.Parent], x)
	}
	return children
}

// Descendants lists the descendants of a process, without the subtrees of except.
func Descendants(children map[int][]Entry, root int, except map[int]bool) []Entry {
	var found []Entry
	seen := map[int]bool{root: true} // a table that is not read atomically may hold a cycle
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, x := range children[queue[0]] {
			if seen[x.Pid] || except[x.Pid] {
				continue
			}
			seen[x.Pid] = true
			found = append(found, x)
			queue = append(queue, x.Pid)
		}
	}
	return found
}

// ReadTable reads all processes of our PID namespace.
func ReadTable() map[int]Entry {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	table := make(map[int]Entry, len(names))
	buf := make([]byte, smallFile)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if x, ok := readEntry(pid, buf); ok {
			table[pid] = x
		}
	}
	return table
}

// Children lists a process's children.
func Children(parent int) (pids []int) {
	name := strconv.Itoa(parent)
	raw, err := ReadSmall("/proc/" + name + "/task/" + name + "/children")
	// The kernel does not support it, or one read does not return all; or other threads may have children, too.
	if err != nil || len(raw) == smallFile || Threads(name) > 1 {
		for _, x := range ReadTable() {
			if x.Parent == parent {
				pids = append(pids, x.Pid)
			}
		}
		return pids
	}
	for word := range bytes.FieldsSeq(raw) {
		if pid, err := strconv.Atoi(string(word)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Threads returns the number of threads of a process by its name in /proc, such as self.
func Threads(name string) int {
	var info unix.Stat_t
	if err := unix.Stat("/proc/"+name+"/task", &info); err != nil {
		return 0
	}
	return max(int(info.Nlink)-2, 0)
}

// LastJob returns the process group of the child that a process started last, without the groups in except, which have start
// times; 0 if there is none.
func LastJob(parent int, except map[int]uint64) int {
	last := Entry{}
	for _, pid := range Children(parent) {
		x, ok := ReadEntry(pid)
		if _, known := except[pid]; ok && !known && !x.Zombie && (x.Start > last.Start || x.Start == last.Start && pid > last.Pid) {
			last = x
		}
	}
	if last.Pid == 0 {
		return 0
	}
	group, err := unix.Getpgid(last.Pid)
	if err != nil { // it has ended
		return 0
	}
	return group
}

// ReadEntry reads the entry of one process; false if it does not exist.
func ReadEntry(pid int) (Entry, bool) { return readEntry(pid, make([]byte, smallFile)) }

func readEntry(pid int, buf []byte) (Entry, bool) {
	raw, err := readInto(buf, "/proc/"+strconv.Itoa(pid)+"/stat")
	if err != nil {
		return Entry{}, false
	}
	return parseStat(pid, raw)
}

// parseStat parses /proc/pid/stat. The name may contain anything, including spaces and parentheses, so the fields are counted from
// its last parenthesis.
func parseStat(pid int, raw []byte) (Entry, bool) {
	at := bytes.LastIndexByte(raw, ')')
	if at < 0 {
		return Entry{}, false
	}
	const state, parent, session, own, children, threads, start = 0, 1, 3, 11, 13, 17, 19
	var fields [start + 1][]byte
	for rest, i := raw[at+1:], 0; i <= start; i++ {
		if fields[i], rest, _ = bytes.Cut(bytes.TrimLeft(rest, " \n"), []byte(" ")); len(fields[i]) == 0 {
			return Entry{}, false
		}
	}
	x := Entry{Pid: pid}
	switch fields[state][0] {
	case 'Z', 'X':
		n, err := strconv.Atoi(string(fields[threads]))
		x.Zombie = err == nil && n <= 1 // a thread that outlives the first one is running
	}
	var err1, err2, err3 error
	x.Parent, err1 = strconv.Atoi(string(fields[parent]))
	x.Session, err2 = strconv.Atoi(string(fields[session]))
	x.Start, err3 = strconv.ParseUint(string(fields[start]), 10, 64)
	x.Own, x.Children = inTicks(fields[own:own+2]), inTicks(fields[children:children+2])
	return x, err1 == nil && err2 == nil && err3 == nil
}

// inTicks adds up user and system times in ticks of 10 ms, the kernel's unit for user space.
func inTicks(fields [][]byte) (sum time.Duration) {
	for _, field := range fields {
		n, _ := strconv.ParseInt(string(field), 10, 64) // gVisor writes fewer fields for some processes: a missing one counts as 0
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum
}

// ReadSmall reads a small file of /proc or a cgroup in one read, without the poller.
func ReadSmall(path string) ([]byte, error) { return readInto(make([]byte, smallFile), path) }

// smallFile is the largest number of bytes read of a small file.
const smallFile = 4096

func readInto(buf []byte, path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readAll(fd, buf)
}

func readAll(fd int, buf []byte) ([]byte, error) {
	for {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		return buf[:max(n, 0)], err
	}
}
