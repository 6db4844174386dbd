package docker

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/belljar/belljar/internal/runtime"
)

// meter reads the usage of a sandbox: from its cgroups if the engine is on this machine and they are readable, else from the
// engine's report.
type meter struct {
	mu     sync.Mutex
	looked bool
	group  group // on this machine, if the engine is
	peak   int64 // highest number of processes reported so far
	kills  kills
	last   runtime.Usage
	final  bool // last was read right before the sandbox was destroyed
}

// Usage implements [runtime.Sandbox].
func (s *sandbox) Usage(ctx context.Context) (runtime.Usage, error) {
	select {
	case <-s.Gone():
		s.meter.mu.Lock()
		defer s.meter.mu.Unlock()
		if s.meter.final || s.meter.take(s) {
			return s.meter.last, nil
		}
		return s.meter.stale(), runtime.ErrGone
	default:
		return s.meter.read(ctx, s)
	}
}

// stale returns the last figures of a sandbox that ended later. Its CPU time is unknown: a program may have used any amount since.
func (m *meter) stale() runtime.Usage {
	u := m.last
	u.CPU, u.Sources = nil, maps.Clone(u.Sources)
	delete(u.Sources, "cpu")
	return u
}

// errNoFigures means that a container has no figures now: it ends, or its engine does not answer.
var errNoFigures = errors.New("neither the cgroups nor the engine have figures")

// read returns the figures, and keeps them for after the end. A container that has just ended has no others.
func (m *meter) read(ctx context.Context, s *sandbox) (runtime.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.look(ctx, s); !m.take(s) {
		u, at, err := s.rt.engine.stats(ctx, s.container)
		if err != nil || len(u.Sources) == 0 {
			return m.stale(), errNoFigures
		}
		m.kills.count(ctx, s, &u, at)
		if s.kernel {
			theirs(&u)
		}
		m.last = u
	}
	return m.last, nil
}

// remember reads the figures a last time, if that costs nothing.
func (m *meter) remember(ctx context.Context, s *sandbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.look(ctx, s)
	m.final = m.take(s)
}

// ready finds the cgroups in advance, in the background. Otherwise the first caller that needs figures, at the end of a run,
// would wait for the engine to report them.
func (m *meter) ready(s *sandbox) {
	if !s.rt.engine.local() {
		return
	}
	s.rt.engine.watches.Add(1)
	go func() {
		defer s.rt.engine.watches.Done()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.look(context.Background(), s)
	}()
}

// look finds the cgroups, once. It does not wait for an engine that hangs.
func (m *meter) look(ctx context.Context, s *sandbox) {
	if m.looked || !s.rt.engine.local() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.rt.engine.answering())
	defer cancel()
	got, err := s.rt.engine.api().ContainerInspect(ctx, s.container, client.ContainerInspectOptions{})
	if err == nil && got.Container.State != nil && got.Container.State.Pid > 0 {
		m.group, m.looked = findGroup(got.Container.State.Pid, s.container), true
	}
}

// take reads the cgroups.
func (m *meter) take(s *sandbox) bool {
	u, ok := m.group.usage()
	switch {
	case !ok:
		return false
	case s.kernel:
		theirs(&u)
	default:
		m.settle(&u, s.pids)
	}
	m.last = u
	return true
}

// theirs marks figures that include a kernel of the sandbox's own, and drops those that count only that kernel.
func theirs(u *runtime.Usage) {
	u.Pids, u.PeakPids, u.PidsRefused = nil, nil, nil
	for _, name := range []string{"pids", "peak_pids", "pids_refused"} {
		delete(u.Sources, name)
	}
	for _, name := range []string{"cpu", "memory", "peak_memory"} {
		if u.Sources[name] != "" {
			u.Sources[name] += ", its kernel's own included"
		}
	}
}

// settle turns the figures of a container into those of its programs. A peak never shrinks.
func (m *meter) settle(u *runtime.Usage, limit int) {
	own := m.group.tasks()
	u.LessAgent(own, int64(limit))
	if own == 0 || u.PeakPids == nil {
		return
	}
	m.peak = max(m.peak, *u.PeakPids)
	u.PeakPids = new(m.peak)
}

// stats queries the engine, which may measure for a second before it answers, and returns when that was by its clock. The figures
// count all processes, including the agent's.
func (e *engine) stats(ctx context.Context, id string) (runtime.Usage, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, e.answering())
	defer cancel()
	got, err := e.api().ContainerStats(ctx, id, client.ContainerStatsOptions{})
	if err != nil {
		return runtime.Usage{}, time.Time{}, err
	}
	defer got.Body.Close()
	var st container.StatsResponse
	if err := json.NewDecoder(got.Body).Decode(&st); err != nil {
		return runtime.Usage{}, time.Time{}, err
	}
	const source = "docker stats"
	u := runtime.Usage{Sources: map[string]string{}}
	if st.Read.IsZero() {
		return u, st.Read, nil // it has ended
	}
	if n := st.CPUStats.CPUUsage.TotalUsage; n > 0 {
		u.CPU, u.Sources["cpu"] = new(time.Duration(n)), source
	}
	if n := int64(st.MemoryStats.Usage); n > 0 {
		u.Memory, u.Sources["memory"] = &n, source
	}
	if n := int64(st.MemoryStats.Limit); n > 0 {
		u.MemoryTotal = &n
	}
	if n := int64(st.MemoryStats.MaxUsage); n > 0 { // cgroup v1's own high-water mark
		u.PeakMemory, u.Sources["peak_memory"] = &n, source+" max_usage"
	}
	if n := int64(st.PidsStats.Current); n > 0 {
		u.Pids, u.Sources["pids"] = &n, source+", the agent's included"
	}
	return u, st.Read, nil
}
