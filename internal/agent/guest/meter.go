//go:build linux

package guest

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/agent/wire"
)

// meter notices when a command has used up its processor time. Processes cannot use time faster than all processors give it,
// so the next look is due when they could have used what is left, and never before: a command that sleeps costs nothing.
type meter struct {
	e     *exec
	limit time.Duration
	least time.Duration // between two looks
	cpus  time.Duration
	timer *time.Timer // nil without a limit
	tree  tree
}

// leastError is how far a command may come above its limit before the agent looks, where 1 % of the limit is less.
const leastError = 5 * time.Millisecond

func newMeter(e *exec) *meter {
	m := &meter{e: e, limit: milliseconds(e.spec.CPUTimeMS), cpus: time.Duration(runtime.NumCPU())}
	if m.limit > 0 {
		m.least = max(leastError, m.limit/100) / m.cpus
		m.timer = time.NewTimer(m.due(0))
	}
	return m
}

// due is how long it takes at least until the limit can have been reached, or matters.
func (m *meter) due(used time.Duration) time.Duration { return max((m.limit-used)/m.cpus, m.least) }

// look returns the channel that states when to look.
func (m *meter) look() <-chan time.Time {
	if m.timer == nil {
		return nil
	}
	return m.timer.C
}

// over reports whether the command has used up its time, and sets the next look if not.
func (m *meter) over() bool {
	used := m.used()
	if used >= m.limit {
		return true
	}
	m.timer.Reset(m.due(used))
	return false
}

func (m *meter) stop() {
	if m.timer != nil {
		m.timer.Stop()
	}
}

// used is the processor time of the command's processes until now, the dead included.
func (m *meter) used() time.Duration {
	if g := m.e.group; g != nil {
		if user, system, err := g.Cpu(); err == nil {
			return time.Duration(user+system) * time.Microsecond
		}
	}
	return m.tree.used(m.e)
}

// exceeded reports whether the figures of a command that has ended are above its limit.
func (m *meter) exceeded(u wire.Usage) bool {
	return m.limit > 0 && time.Duration(u.UserMicros+u.SystemMicros)*time.Microsecond > m.limit
}

// missed is by how many microseconds a look has found more than u tells, which has only what was handed up.
func (m *meter) missed(u wire.Usage) uint64 {
	const rounded = 1000 // what is handed up is in whole microseconds, process by process
	seen, told := uint64(m.tree.most.Microseconds()), u.UserMicros+u.SystemMicros
	if seen <= told+rounded {
		return 0
	}
	return seen - told
}

// tree is the processor time of a command that has no cgroup: what its living processes have used, and its dead ones.
type tree struct {
	seen map[int]lived
	gone time.Duration // what those had used that were seen and have died since
	most time.Duration // the answer never falls
}

// lived is what a process had used when it was last seen.
type lived struct {
	start uint64
	own   time.Duration
}

// used looks at all processes. Each moment's figure is at most what was used, and time is counted once: that of a dead
// process goes up to its parent, or further, and parents are asked before their children. The kernel does not hand up the
// time of a process whose parent ignores SIGCHLD, so what was seen of the dead counts where it is more than what was
// handed up.
func (t *tree) used(e *exec) time.Duration {
	var living, handedUp time.Duration
	if keeper, ok := process.ReadEntry(e.keeper.Pid); ok {
		handedUp = keeper.Children
	}
	now := make(map[int]lived)
	for _, x := range e.members(process.ReadTable()) {
		own, timed := processClock(x.Pid)
		again, ok := process.ReadEntry(x.Pid)
		if !ok || again.Start != x.Start {
			continue // it has died meanwhile, and the number may be another's
		}
		if !timed {
			own = again.Own
		}
		now[x.Pid] = lived{x.Start, own}
		living += own
		handedUp += again.Children
	}
	for pid, was := range t.seen {
		if is, ok := now[pid]; ok && is.start == was.start {
			continue
		}
		if x, ok := process.ReadEntry(pid); ok && x.Start == was.start {
			now[pid] = was // its parent died while we looked: it was not found, and lives
			living += was.own
			continue
		}
		t.gone += was.own
	}
	t.seen = now
	t.most = max(t.most, living+max(handedUp, t.gone))
	return t.most
}

// processClock reads what a process has used, its dead threads included, to the nanosecond; that needs no privilege.
func processClock(pid int) (time.Duration, bool) {
	const whole = 2 // of the three clocks of a process, the scheduler's
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|whole), &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}
