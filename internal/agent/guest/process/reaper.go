//go:build linux

package process

import (
	"fmt"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// Reaper reaps every child of this process: keepers, and the orphans of killed keepers. It ignores their status, which keepers
// report, but adds up their usage.
type Reaper struct {
	signals chan os.Signal
	stop    chan struct{}
	done    chan struct{}

	mu      sync.Mutex // guards the following fields
	total   Usage
	waiting []chan struct{}
}

// Usage is the resource usage of dead processes.
type Usage struct{ UserMicros, SystemMicros, MaxRSS uint64 }

// Since returns the increase since before. The peak is the total one, since a peak has no difference.
func (r Usage) Since(before Usage) Usage {
	return Usage{r.UserMicros - before.UserMicros, r.SystemMicros - before.SystemMicros, r.MaxRSS}
}

// NewReaper makes this process adopt orphans, and reaps its children.
func NewReaper() (*Reaper, error) {
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("become the parent of orphans: %w", err)
		}
	}
	r := &Reaper{signals: make(chan os.Signal, 1), stop: make(chan struct{}), done: make(chan struct{})}
	signal.Notify(r.signals, unix.SIGCHLD)
	go r.run()
	return r, nil
}

func (r *Reaper) run() {
	defer close(r.done)
	for {
		r.reap()
		select {
		case <-r.signals:
		case <-r.stop:
			return
		}
	}
}

// reap reaps all dead children, and notifies the waiters when none is left.
func (r *Reaper) reap() {
	for {
		var usage unix.Rusage
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, &usage)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ECHILD:
			r.mu.Lock()
			for _, c := range r.waiting {
				close(c)
			}
			r.waiting = nil
			r.mu.Unlock()
			return
		case err != nil || pid == 0:
			return
		}
		r.mu.Lock()
		r.total.UserMicros += uint64(usage.Utime.Nano()) / 1000
		r.total.SystemMicros += uint64(usage.Stime.Nano()) / 1000
		r.total.MaxRSS = max(r.total.MaxRSS, uint64(usage.Maxrss)<<10)
		r.mu.Unlock()
	}
}

// Childless returns a channel that is closed when, from now on, this process is found to have no children.
func (r *Reaper) Childless() <-chan struct{} {
	c := make(chan struct{})
	r.mu.Lock()
	r.waiting = append(r.waiting, c)
	r.mu.Unlock()
	return c
}

// Wake makes the reaper check without a death.
func (r *Reaper) Wake() {
	select {
	case r.signals <- unix.SIGCHLD:
	default: // a check is pending
	}
}

// Usage returns the usage of all children reaped so far.
func (r *Reaper) Usage() Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

func (r *Reaper) Close() {
	signal.Stop(r.signals)
	close(r.stop)
	<-r.done
}
