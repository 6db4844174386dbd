//go:build linux

package guest

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// process is one that exists, held by descriptor: a signal reaches it or nobody, whatever becomes of its number.
type process struct {
	pid   int
	start uint64 // when it began, in clock ticks; with the number its identity
	fd    int
}

func (p *process) signal(s unix.Signal) {
	_ = unix.PidfdSendSignal(p.fd, s, nil, 0) // that it has ended meanwhile is what we want
}

func (p *process) close() { unix.Close(p.fd) }

// ended waits for the process's end, and reports whether that came before until.
func (p *process) ended(until time.Time) bool {
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

// entry is what /proc says of a process.
type entry struct {
	pid, parent, session int
	zombie               bool // it is dead, and not only its first thread
	start                uint64
	own, children        time.Duration // processor time of its own, and of its dead descendants that were waited for
}

// processes returns the living processes of the command: below its keeper, or in its cgroup. The caller closes them.
func (e *exec) processes() []*process {
	if isClosed(e.empty) {
		e.a.births.Lock() // a keeper in the making would look like a stray
		defer e.a.births.Unlock()
	}
	table := readTable()
	var found []*process
	for _, x := range e.members(table) {
		if x.zombie {
			continue
		}
		if p := hold(x); p != nil {
			found = append(found, p)
		}
	}
	return found
}

// hold gets hold of a process, unless it has ended meanwhile.
func hold(x entry) *process {
	fd, err := unix.PidfdOpen(x.pid, 0)
	if err != nil {
		return nil
	}
	// The number was still the same process's when the descriptor was opened if it is so now.
	if now, ok := readEntry(x.pid); !ok || now.start != x.start {
		unix.Close(fd)
		return nil
	}
	return &process{pid: x.pid, start: x.start, fd: fd}
}

// members picks the command's processes from the table.
func (e *exec) members(table map[int]entry) []entry {
	children := make(map[int][]entry, len(table))
	for _, x := range table {
		children[x.parent] = append(children[x.parent], x)
	}
	switch {
	case !isClosed(e.empty):
		return below(children, e.keeper.Pid, nil)
	case e.last != nil:
		return nil // the keeper saw the last one go
	}
	return e.a.strays(e, table, children)
}

// strays are processes whose keeper was killed. They have become children of the agent where it is their foster
// parent; elsewhere the first process's session is all there is to know them by.
func (a *Agent) strays(e *exec, table map[int]entry, children map[int][]entry) []entry {
	if a.reaper != nil {
		return below(children, os.Getpid(), a.keepers())
	}
	var found []entry
	for _, x := range table {
		if x.session == e.pid {
			found = append(found, x)
		}
	}
	return found
}

// keepers returns the numbers of all keepers: what they keep is not astray.
func (a *Agent) keepers() map[int]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	pids := make(map[int]bool)
	for e := range a.alive {
		pids[e.keeper.Pid] = true
	}
	return pids
}

// below lists the descendants of a process, without those of except and these themselves.
func below(children map[int][]entry, root int, except map[int]bool) []entry {
	var found []entry
	seen := map[int]bool{root: true} // a table read piecemeal may hold a circle
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, x := range children[queue[0]] {
			if seen[x.pid] || except[x.pid] {
				continue
			}
			seen[x.pid] = true
			found = append(found, x)
			queue = append(queue, x.pid)
		}
	}
	return found
}

// readTable reads all processes of our namespace.
func readTable() map[int]entry {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	table := make(map[int]entry, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if x, ok := readEntry(pid); ok {
			table[pid] = x
		}
	}
	return table
}

func readEntry(pid int) (entry, bool) {
	raw, err := readSmall("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return entry{}, false
	}
	return parseStat(pid, raw)
}

// parseStat reads a line of /proc/pid/stat. The name may hold anything, also spaces and parentheses, so the fields
// are counted from its last one.
func parseStat(pid int, raw []byte) (entry, bool) {
	at := bytes.LastIndexByte(raw, ')')
	if at < 0 {
		return entry{}, false
	}
	fields := bytes.Fields(raw[at+1:])
	const state, parent, session, own, children, threads, start = 0, 1, 3, 11, 13, 17, 19
	if len(fields) <= start {
		return entry{}, false
	}
	x := entry{pid: pid}
	switch fields[state][0] {
	case 'Z', 'X':
		n, err := strconv.Atoi(string(fields[threads]))
		x.zombie = err == nil && n <= 1 // a thread that outlives the first one runs on
	}
	var err1, err2, err3 error
	x.parent, err1 = strconv.Atoi(string(fields[parent]))
	x.session, err2 = strconv.Atoi(string(fields[session]))
	x.start, err3 = strconv.ParseUint(string(fields[start]), 10, 64)
	x.own, x.children = inTicks(fields[own:own+2]), inTicks(fields[children:children+2])
	return x, err1 == nil && err2 == nil && err3 == nil
}

// inTicks adds up times of user and system in ticks of 10 ms, which is what programs are told whatever the kernel's are.
func inTicks(fields [][]byte) (sum time.Duration) {
	for _, field := range fields {
		n, _ := strconv.ParseInt(string(field), 10, 64) // gVisor writes fewer figures for some: then it is none
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum
}

// readSmall reads a small file of /proc or a cgroup in one go, past the poller.
func readSmall(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readAll(fd)
}

func readAll(fd int) ([]byte, error) {
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		return buf[:max(n, 0)], err
	}
}
