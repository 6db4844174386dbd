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

// save packs the workspace while no program runs, if that is possible.
func (s *stream) save(req wire.FileRequest) error {
	f := s.a.freeze()
	defer f.thaw()
	if err := s.a.files.Serve(file.Stream{Read: s.read, W: s.w}, wire.OpSave, req); err != nil {
		return err
	}
	return s.reply(wire.Reply{Done: true, Frozen: f.thaw()})
}

// freezing is a period in which no program of the sandbox runs or starts.
type freezing struct {
	once  sync.Once
	timer *time.Timer
	end   func()
	held  bool // no program ran, and thaw was called first
}

// freeze stops all programs by freezing their cgroups. Without cgroups programs cannot be stopped, so there must be none.
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
			_ = e.group.Freeze(false) // a removed cgroup has no processes
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

// vacantTime is how long all keepers of commands whose first process has ended may take to report that no other process is left. Without
// cgroups, a program that survives its command delays a snapshot as long.
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
