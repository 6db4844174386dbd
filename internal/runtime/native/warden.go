//go:build linux

package native

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/linux/warden"
	"github.com/belljar/belljar/internal/runtime"
)

// watch makes the warden limit the programs of a group to bytes of memory. It does nothing if memory has no limit.
func (r *Runtime) watch(group *cgroup.Group, bytes int64, life runtime.Lifetime) error {
	g, ok := watchedGroup(group)
	if !ok {
		return nil
	}
	g.Bytes = bytes
	return r.client(life).Watch(g)
}

// Prepare starts, in the background, the warden of sandboxes that end with this process. It is ready before the first of them is
// born, and does not compete with its birth for the processors.
func (r *Runtime) Prepare() {
	if r.Limit(cgroup.Memory).Enforced {
		r.own.Start()
	}
}

// client returns the client of the warden for a lifetime.
func (r *Runtime) client(life runtime.Lifetime) *warden.Client {
	if life == runtime.LifetimeDetached {
		return r.warden
	}
	return r.own
}

// watchedGroup returns the cgroup folder that limits a group's memory.
func watchedGroup(group *cgroup.Group) (warden.Group, bool) {
	if group == nil {
		return warden.Group{}, false
	}
	f, ok := group.Folder(cgroup.Memory)
	return warden.Group{Dir: f.Path, Version: f.Version}, ok
}

// watch makes the warden watch the sandbox.
func (s *sandbox) watch() error { return s.runtime.watch(s.Group, s.rec.Memory, s.rec.Lifetime) }

// LimitMemory implements [runtime.MemoryLimiter].
func (s *sandbox) LimitMemory(_ context.Context, mb int) error {
	if _, ok := watchedGroup(s.Group); !ok {
		return nil // each program has a limit of its own
	}
	s.mu.Lock()
	s.rec.Memory = int64(mb) << 20
	rec := s.rec
	s.mu.Unlock()
	err := s.watch() // the warden first: it would set the old limit again
	if err == nil {
		err = s.Group.LimitMemory(warden.Limit(rec.Memory) + warden.Files(s.Pid))
	}
	if errors.Is(err, unix.EBUSY) {
		err = fmt.Errorf("%w: %w", runtime.ErrMemoryHeld, err)
	}
	if err != nil {
		return runtime.FailedStep(jar.StepCgroup, err, "")
	}
	return s.Record(rec)
}

// apart separates a sandbox's memory into that of programs and that of files.
func (s *sandbox) apart(u *runtime.Usage) {
	g, ok := watchedGroup(s.Group)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok || u.Memory == nil || s.rec.Memory == 0 {
		return
	}
	var files int64
	if !s.Ended() {
		files = warden.Files(s.Pid)
	}
	held := max(*u.Memory-files, 0)
	s.most.PeakFiles = max(s.most.PeakFiles, files)
	if u.PeakMemory != nil {
		if *u.PeakMemory >= warden.Threshold(s.rec.Memory) {
			seen, _ := s.runtime.client(s.rec.Lifetime).Figures(g.Dir) // without them the current figures are used
			s.most.PeakFiles, s.most.PeakMemory = max(s.most.PeakFiles, seen.PeakFiles), max(s.most.PeakMemory, seen.PeakMemory)
		} else {
			// Its limit, which is always more than that, was never reached. In cgroup v1 only this distinguishes what was killed
			// for lack of the host's memory.
			u.LimitHits = new(int64(0))
		}
		peak := min(*u.PeakMemory-s.most.PeakFiles, warden.Limit(s.rec.Memory))
		s.most.PeakMemory = max(s.most.PeakMemory, peak, held)
		peak = s.most.PeakMemory
		u.PeakMemory = &peak
		u.Sources["peak_memory"] += ", less the most that files held; page cache included"
	}
	u.Memory, u.Files, u.PeakFiles = &held, &files, new(s.most.PeakFiles)
	u.Sources["memory"] += ", less what files hold; page cache included"
	u.Sources["files"] = "statfs of the memory file systems"
	u.Sources["peak_files"] = "statfs of the memory file systems, now and at looks of the warden"
}
