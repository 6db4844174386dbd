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

// remembered is how many of the dead are kept that were not asked for yet. A sandbox has two or three processes that
// are ours.
const remembered = 64

// family is the children of this process, its own and those that were left to it. It reaps all of them.
type family struct {
	mu    sync.Mutex
	dead  map[int]unix.WaitStatus
	order []int // of dead, the oldest first
	grew  chan struct{}
}

// newFamily begins to reap. It never ends: the process does.
func newFamily() *family {
	f := &family{dead: map[int]unix.WaitStatus{}, grew: make(chan struct{})}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	go func() {
		for range signals {
			f.reap()
		}
	}()
	return f
}

func (f *family) reap() {
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
		if f.order = append(f.order, pid); len(f.order) > remembered {
			delete(f.dead, f.order[0])
			f.order = f.order[1:]
		}
		close(f.grew)
		f.grew = make(chan struct{})
	}
}

// start runs a program with the descriptors given, the first as number 0.
func (f *family) start(argv []string, files []uintptr) (int, error) {
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Dir: "/", Env: []string{}, Files: files})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", argv[0], err)
	}
	return pid, nil
}

// wait waits for the end of a child, which is then forgotten, or for stop; false then. A pid of 0 never ends.
func (f *family) wait(pid int, stop <-chan struct{}) (unix.WaitStatus, bool) {
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

// pipe makes a pipe whose one end, ours, waits in the poller; the other is for a child.
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
