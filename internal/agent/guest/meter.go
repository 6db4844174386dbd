//go:build linux

package guest

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/agent/wire"
)

// meter detects when a command has used up its CPU time. All processors together limit how fast that can happen, so the next
// reading is due when the remaining time could be used up, and no earlier: a sleeping command costs nothing.
type meter struct {
	e     *exec
	limit time.Duration
	least time.Duration // between two readings
	cpus  time.Duration
	timer *time.Timer // nil without a limit
	tree  tree
}

// leastError is how far a command may exceed its limit before the next reading, if 0.5 % of the limit is less. A reading takes
// about 0.2 ms.
const leastError = 4 * time.Millisecond

func newMeter(e *exec) *meter {
	m := &meter{e: e, limit: milliseconds(e.spec.CPUTimeMS), cpus: time.Duration(runtime.NumCPU())}
	if m.limit > 0 {
		m.least = max(leastError, m.limit/200) / m.cpus
		m.timer = time.NewTimer(m.due(0))
	}
	return m
}

// due returns the minimum time until the limit can be reached.
func (m *meter) due(used time.Duration) time.Duration { return max((m.limit-used)/m.cpus, m.least) }

// look returns the channel that signals the next reading.
func (m *meter) look() <-chan time.Time {
	if m.timer == nil {
		return nil
	}
	return m.timer.C
}

// over reports whether the command has used up its time, and schedules the next reading if not.
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

// used returns the CPU time of the command's processes so far, including dead ones.
func (m *meter) used() time.Duration {
	if g := m.e.group; g != nil {
		if user, system, err := g.Cpu(); err == nil {
			return time.Duration(user+system) * time.Microsecond
		}
	}
	return m.tree.used(m.e)
}

// exceeded reports whether the usage of an ended command exceeds its limit.
func (m *meter) exceeded(u wire.Usage) bool {
	return m.limit > 0 && time.Duration(u.UserMicros+u.SystemMicros)*time.Microsecond > m.limit
}

// missed returns by how many microseconds a reading exceeds u, which counts only reaped processes.
func (m *meter) missed(u wire.Usage) uint64 {
	const rounded = 1000 // the reaped time is in whole microseconds for each process
	seen, reported := uint64(m.tree.most.Microseconds()), u.UserMicros+u.SystemMicros
	if seen <= reported+rounded {
		return 0
	}
	return seen - reported
}

// tree measures the CPU time of a command without a cgroup: of its living processes and its dead ones.
type tree struct {
	seen map[int]lived
	gone time.Duration // time of seen processes that have died since
	most time.Duration // the result never decreases
}

// lived is the time that a process had used when last seen.
type lived struct {
	start uint64
	own   time.Duration
}

// used reads all processes. Its result never exceeds the time used, and counts time once: a dead process's time moves to its
// parent or another ancestor, and parents are read before their children. The kernel drops the time of a process whose parent
// ignores SIGCHLD, so the last reading counts if it is higher.
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
			continue // it has died meanwhile, and the pid may be reused
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
			now[pid] = was // its parent died during the reading: it was missed, and is alive
			living += was.own
			continue
		}
		t.gone += was.own
	}
	t.seen = now
	t.most = max(t.most, living+max(handedUp, t.gone))
	return t.most
}

// processClock returns the CPU time of a process, including dead threads, in nanoseconds. It needs no privilege.
func processClock(pid int) (time.Duration, bool) {
	const whole = 2 // of the three clocks of a process, the scheduler's
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|whole), &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}
