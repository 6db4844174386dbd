//go:build linux

package guest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// parentGroup is the delegated cgroup2 folder that execs get theirs in.
type parentGroup struct {
	dir  *os.File
	next atomic.Uint64
	once sync.Once
	have bool

	mu     sync.Mutex // guards what follows
	spare  *group     // for the next exec, which does not wait for it to be made; nil for none
	closed bool
}

// take returns a cgroup that nobody has been in.
func (g *parentGroup) take() (*group, error) {
	g.mu.Lock()
	c := g.spare
	g.spare = nil
	g.mu.Unlock()
	if c != nil {
		return c, nil
	}
	return g.create()
}

// stock makes a cgroup for the next exec.
func (g *parentGroup) stock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.spare == nil && !g.closed {
		g.spare, _ = g.create() // the exec will say what is wrong
	}
}

// close removes what is in stock. The execs' groups are their own.
func (g *parentGroup) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.spare != nil {
		g.spare.remove()
	}
	g.spare, g.closed = nil, true
	g.dir.Close()
}

// clone3 reports whether a process can be born into a cgroup; a seccomp filter may refuse the call.
func (g *parentGroup) clone3() bool {
	g.once.Do(func() {
		_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
		g.have = errno != unix.ENOSYS
	})
	return g.have
}

// group is the cgroup of one exec.
type group struct {
	parent *parentGroup
	name   string
	dir    *os.File
	procs  int // cgroup.procs, open for writing where a process has to move itself; else 0
}

// create makes a cgroup.
func (g *parentGroup) create() (*group, error) {
	name := "exec-" + strconv.FormatUint(g.next.Add(1), 10)
	if err := unix.Mkdirat(int(g.dir.Fd()), name, 0o755); err != nil {
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	c := &group{parent: g, name: name}
	fd, err := unix.Openat(int(g.dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		c.remove()
		return nil, fmt.Errorf("open a cgroup: %w", err)
	}
	c.dir = os.NewFile(uintptr(fd), name)
	if !g.clone3() {
		if c.procs, err = unix.Openat(fd, "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0); err != nil {
			c.procs = 0
			c.remove()
			return nil, fmt.Errorf("open cgroup.procs: %w", err)
		}
	}
	return c, nil
}

// kill kills every process of the cgroup at once, also those that are being forked.
func (c *group) kill() error {
	fd, err := unix.Openat(int(c.dir.Fd()), "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("1"))
	return err
}

// waitEmpty waits until no living process is in the cgroup. The kernel wakes it up.
func (c *group) waitEmpty(d time.Duration) error {
	fd, err := unix.Openat(int(c.dir.Fd()), "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
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
		if bytes.Contains(buf[:n], []byte("populated 0")) {
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

// cpu returns the processor time that all processes of the cgroup have used, in microseconds.
func (c *group) cpu() (user, system uint64, err error) {
	fd, err := unix.Openat(int(c.dir.Fd()), "cpu.stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(fd)
	raw, err := readAll(fd)
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

// remove removes the cgroup, in which no process lives any more.
func (c *group) remove() {
	parent := int(c.parent.dir.Fd())
	if err := unix.Unlinkat(parent, c.name, unix.AT_REMOVEDIR); err == unix.EBUSY && c.dir != nil {
		// The last process is on its way out.
		if c.waitEmpty(killTime) == nil {
			_ = unix.Unlinkat(parent, c.name, unix.AT_REMOVEDIR) // else the sandbox's end removes it
		}
	}
	if c.dir != nil {
		c.dir.Close()
	}
	if c.procs > 0 {
		unix.Close(c.procs)
	}
}
