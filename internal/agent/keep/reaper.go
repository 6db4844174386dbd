//go:build linux

package keep

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxDead is the number of exit statuses that are kept until a caller waits for them. A sandbox has two or three processes of
// ours.
const maxDead = 64

// reaper reaps all children of this process, including adopted ones.
type reaper struct {
	mu    sync.Mutex
	dead  map[int]unix.WaitStatus
	order []int // of dead, the oldest first
	grew  chan struct{}
}

// newReaper starts reaping, which never ends.
func newReaper() *reaper {
	f := &reaper{dead: map[int]unix.WaitStatus{}, grew: make(chan struct{})}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	go func() {
		for range signals {
			f.reap()
		}
	}()
	return f
}

func (f *reaper) reap() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		f.dead[pid] = status
		if f.order = append(f.order, pid); len(f.order) > maxDead {
			delete(f.dead, f.order[0])
			f.order = f.order[1:]
		}
		close(f.grew)
		f.grew = make(chan struct{})
	}
}

// start runs a program with the given descriptors, the first of them as 0.
func (f *reaper) start(argv []string, files []uintptr) (int, error) {
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Dir: "/", Env: []string{}, Files: files})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", argv[0], err)
	}
	return pid, nil
}

// wait waits for the end of a child and forgets it. It returns false if stop is closed first. A pid of 0 never ends.
func (f *reaper) wait(pid int, stop <-chan struct{}) (unix.WaitStatus, bool) {
	for {
		f.mu.Lock()
		status, ok := f.dead[pid]
		grew := f.grew
		if ok {
			delete(f.dead, pid)
			f.order = slices.DeleteFunc(f.order, func(p int) bool { return p == pid })
		}
		f.mu.Unlock()
		if ok {
			return status, true
		}
		select {
		case <-grew:
		case <-stop:
			return 0, false
		}
	}
}

// pipe makes a pipe. Our end uses the poller; the other is for a child.
func pipe(ourEndReads bool) (ours *os.File, theirs int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, fmt.Errorf("pipe: %w", err)
	}
	own, other := p[1], p[0]
	if ourEndReads {
		own, other = p[0], p[1]
	}
	if err := unix.SetNonblock(own, true); err != nil {
		unix.Close(own)
		unix.Close(other)
		return nil, 0, fmt.Errorf("pipe: %w", err)
	}
	return os.NewFile(uintptr(own), "pipe"), other, nil
}
