//go:build linux

package guest

import (
	"sync"
	"time"

	"github.com/belljar/belljar/internal/agent/guest/file"
	"github.com/belljar/belljar/internal/agent/wire"
)

// freezeTime bounds how long the kernel may take to stop all programs.
const freezeTime = time.Second

// save packs the workspace while no program runs, if that can be had.
func (s *stream) save(req wire.FileRequest) error {
	f := s.a.freeze()
	defer f.thaw()
	if err := s.a.files.Serve(file.Stream{Read: s.read, W: s.w}, wire.OpSave, req); err != nil {
		return err
	}
	return s.reply(wire.Reply{Done: true, Frozen: f.thaw()})
}

// freezing is a time in which no program of the sandbox runs, and none is started.
type freezing struct {
	once  sync.Once
	timer *time.Timer
	end   func()
	held  bool // it was so, and until thaw was called first
}

// freeze stops all programs: it freezes their cgroups. Where the agent has none, they run on, unless there are none.
func (a *Agent) freeze() *freezing {
	f := &freezing{held: true}
	a.launches.Lock() // no program is started meanwhile
	a.mu.Lock()
	var alive, frozen []*exec
	for e := range a.alive {
		if e.parked == nil {
			alive = append(alive, e)
		}
	}
	a.mu.Unlock()
	leave := time.After(vacantTime)
	for _, e := range alive {
		if e.group != nil && e.group.Freeze(true) == nil {
			frozen = append(frozen, e)
		} else if f.held && !e.vacant(leave) {
			f.held = false
		}
	}
	until := time.Now().Add(freezeTime)
	for _, e := range frozen {
		f.held = f.held && (e.group.WaitFrozen(time.Until(until)) == nil || e.vacant(leave))
	}
	f.end = func() {
		for _, e := range frozen {
			_ = e.group.Freeze(false) // one that is gone has no processes
		}
		a.launches.Unlock()
	}
	f.timer = time.AfterFunc(wire.MaxFreeze, func() {
		f.once.Do(func() {
			f.held = false
			f.end()
		})
	})
	return f
}

// vacantTime is how long the keepers of commands whose first processes have ended may take together to report that they were the only ones. A
// program that survives its command, where there is no cgroup to freeze, costs a snapshot as much.
const vacantTime = 2 * time.Second

// vacant reports whether no process of a command is left. It waits for a keeper's report until leave.
func (e *exec) vacant(leave <-chan time.Time) bool {
	if isClosed(e.exited) {
		select {
		case <-e.empty:
		case <-leave:
		}
	}
	return isClosed(e.empty) && e.last != nil
}

// thaw resumes programs, and reports whether none has run since the freeze. It may be called twice.
func (f *freezing) thaw() bool {
	f.timer.Stop()
	f.once.Do(f.end)
	return f.held
}
