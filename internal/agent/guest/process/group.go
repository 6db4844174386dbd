//go:build linux

package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Groups is the delegated cgroup2 folder, which holds a cgroup for each exec.
type Groups struct {
	Dir  *os.File
	next atomic.Uint64
	once sync.Once
	have bool

	mu     sync.Mutex // guards the following fields
	spare  *Group     // made in advance for the next exec; nil for none
	closed bool
}

// Take returns a cgroup that no process has been in.
func (g *Groups) Take() (*Group, error) {
	g.mu.Lock()
	c := g.spare
	g.spare = nil
	g.mu.Unlock()
	if c != nil {
		return c, nil
	}
	return g.create()
}

// Prepare creates a cgroup for the next exec.
func (g *Groups) Prepare() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.spare == nil && !g.closed {
		g.spare, _ = g.create() // the exec reports an error
	}
}

// Close removes the spare cgroup. The execs remove their own.
func (g *Groups) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.spare != nil {
		g.spare.Remove()
	}
	g.spare, g.closed = nil, true
	g.Dir.Close()
}

// HasClone3 reports whether a process can start in a cgroup; a seccomp filter may refuse the call.
func (g *Groups) HasClone3() bool {
	g.once.Do(func() {
		_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
		g.have = errno != unix.ENOSYS
	})
	return g.have
}

// Group is the cgroup of one exec.
type Group struct {
	parent *Groups
	name   string
	Dir    *os.File
	Procs  int // cgroup.procs, open for writing if a process must move itself; else 0
}

// create creates a cgroup.
func (g *Groups) create() (*Group, error) {
	name := "exec-" + strconv.FormatUint(g.next.Add(1), 10)
	if err := unix.Mkdirat(int(g.Dir.Fd()), name, 0o755); err != nil {
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	c := &Group{parent: g, name: name}
	fd, err := unix.Openat(int(g.Dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		c.Remove()
		return nil, fmt.Errorf("open a cgroup: %w", err)
	}
	c.Dir = os.NewFile(uintptr(fd), name)
	if !g.HasClone3() {
		if c.Procs, err = unix.Openat(fd, "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0); err != nil {
			c.Procs = 0
			c.Remove()
			return nil, fmt.Errorf("open cgroup.procs: %w", err)
		}
	}
	return c, nil
}

// Add moves a process into the group.
func (c *Group) Add(pid int) error {
	fd := c.Procs
	if fd == 0 {
		var err error
		if fd, err = unix.Openat(int(c.Dir.Fd()), "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		defer unix.Close(fd)
	}
	_, err := unix.Write(fd, strconv.AppendInt(nil, int64(pid), 10))
	return err
}

// Pids returns the processes of the group.
func (c *Group) Pids() (pids []int) {
	fd, err := unix.Openat(int(c.Dir.Fd()), "cgroup.procs", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "cgroup.procs")
	defer f.Close()
	raw, _ := io.ReadAll(f)
	for _, word := range bytes.Fields(raw) {
		if pid, err := strconv.Atoi(string(word)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Kill kills all processes of the cgroup in one step, including those that are being forked.
func (c *Group) Kill() error {
	fd, err := unix.Openat(int(c.Dir.Fd()), "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("1"))
	return err
}

// Freeze stops all processes of the cgroup, or resumes them.
func (c *Group) Freeze(stop bool) error {
	fd, err := unix.Openat(int(c.Dir.Fd()), "cgroup.freeze", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	value := "0"
	if stop {
		value = "1"
	}
	_, err = unix.Write(fd, []byte(value))
	return err
}

// WaitFrozen waits until all processes of the cgroup are frozen.
func (c *Group) WaitFrozen(d time.Duration) error { return c.await("frozen 1", d) }

// WaitEmpty waits until the cgroup has no living process. The kernel notifies it. A removed cgroup has none.
func (c *Group) WaitEmpty(d time.Duration) error {
	err := c.await("populated 0", d)
	if err == unix.EBADF {
		return nil
	}
	return err
}

// await waits for a state of the cgroup.
func (c *Group) await(state string, d time.Duration) error {
	fd, err := unix.Openat(int(c.Dir.Fd()), "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for until := time.Now().Add(d); ; {
		buf := make([]byte, 256)
		n, err := unix.Pread(fd, buf, 0)
		if err != nil {
			return err
		}
		if bytes.Contains(buf[:n], []byte(state)) {
			return nil
		}
		left := time.Until(until)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}
		if _, err := unix.Poll(poll, int(left.Milliseconds())+1); err != nil && err != unix.EINTR {
			return err
		}
	}
}

// Cpu returns the CPU time that all processes of the cgroup have used, in microseconds.
func (c *Group) Cpu() (user, system uint64, err error) {
	fd, err := unix.Openat(int(c.Dir.Fd()), "cpu.stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(fd)
	raw, err := readAll(fd, make([]byte, smallFile))
	if err != nil {
		return 0, 0, err
	}
	found := 0
	for line := range bytes.Lines(raw) {
		key, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil {
			continue
		}
		switch string(key) {
		case "user_usec":
			user, found = n, found+1
		case "system_usec":
			system, found = n, found+1
		}
	}
	if found < 2 {
		return 0, 0, errors.New("cpu.stat without user and system time")
	}
	return user, system, nil
}

// Remove removes the cgroup, which must have no living process.
func (c *Group) Remove() {
	parent := int(c.parent.Dir.Fd())
	if err := unix.Unlinkat(parent, c.name, unix.AT_REMOVEDIR); err == unix.EBUSY && c.Dir != nil {
		// The last process is still exiting.
		if c.WaitEmpty(KillTime) == nil {
			_ = unix.Unlinkat(parent, c.name, unix.AT_REMOVEDIR) // else the sandbox's end removes it
		}
	}
	if c.Dir != nil {
		c.Dir.Close()
	}
	if c.Procs > 0 {
		unix.Close(c.Procs)
	}
}
