//go:build linux

package cgroup

import (
	"path/filepath"
	"slices"
	"time"
)

// Usage is a group's resource usage. A nil figure has no reliable source on this host.
type Usage struct {
	CPU        *time.Duration
	Memory     *int64 // bytes now, including page cache
	PeakMemory *int64 // bytes, the kernel's own high-water mark
	Pids       *int64 // processes and threads now
	PeakPids   *int64
	OOMKills   *int64 // processes that the kernel killed for lack of memory
	// LimitHits is how often the group's own memory limit was reached. If it is 0, kills were due to lack of memory of a group
	// above, or of the machine.
	LimitHits   *int64
	PidsRefused *int64 // forks that the limit refused
	// Sources states the source of each figure: cpu, memory, peak_memory, pids, peak_pids, oom_kills, limit_hits, pids_refused →
	// e.g. "cgroup2 memory.peak".
	Sources map[string]string
}

// source is a file that a figure can be read from.
type source struct {
	figure     string
	version    int
	controller string // "" for a file that exists without a controller
	file       string
	key        string // the line's key in a file of "key number" lines
}

// In order of preference.
var sources = []source{
	{"cpu", 2, "", "cpu.stat", "usage_usec"},
	{"cpu", 1, cpuacct, "cpuacct.usage", ""},
	{"memory", 2, Memory, "memory.current", ""},
	{"memory", 1, Memory, "memory.usage_in_bytes", ""},
	{"peak_memory", 2, Memory, "memory.peak", ""},
	{"peak_memory", 1, Memory, "memory.max_usage_in_bytes", ""},
	{"pids", 2, Pids, "pids.current", ""},
	{"pids", 1, Pids, "pids.current", ""},
	{"peak_pids", 2, Pids, "pids.peak", ""},
	{"peak_pids", 1, Pids, "pids.peak", ""},
	{"oom_kills", 2, Memory, "memory.events", "oom_kill"},
	{"oom_kills", 1, Memory, "memory.oom_control", "oom_kill"},
	{"limit_hits", 2, Memory, "memory.events", "oom"},
	{"pids_refused", 2, Pids, "pids.events", "max"},
	{"pids_refused", 1, Pids, "pids.events", "max"},
}

// Usage returns the group's usage so far. A removed group has no figures.
func (g *Group) Usage() Usage {
	u := Usage{Sources: map[string]string{}}
	for _, s := range sources {
		if u.Sources[s.figure] != "" {
			continue
		}
		i := slices.IndexFunc(g.folders, func(f Folder) bool {
			return f.Version == s.version && (s.controller == "" || slices.Contains(f.Controllers, s.controller))
		})
		if i < 0 {
			continue
		}
		n, err := s.read(g.folders[i].Path)
		if err != nil {
			continue // this kernel lacks the file; the next source may have it
		}
		u.set(s, n)
	}
	g.hitsV1(&u)
	return u
}

// nearly is how far below its limit a group may be if it had no room for a few pages more.
const nearly = 1 << 20

// hitsV1 estimates how often a v1 group's own limit was reached, which the kernel does not count. It counts every kill, unless the
// installation has been at its bound and the group below its own limit.
func (g *Group) hitsV1(u *Usage) {
	i := slices.IndexFunc(g.folders, func(f Folder) bool { return f.Version == 1 && slices.Contains(f.Controllers, Memory) })
	if i < 0 || u.OOMKills == nil {
		return
	}
	hits := *u.OOMKills
	if dir := g.folders[i].Path; hits > 0 && !full(dir) && full(filepath.Dir(filepath.Dir(dir))) {
		hits = 0
	}
	u.LimitHits = &hits
	u.Sources["limit_hits"] = "cgroup1 memory.max_usage_in_bytes"
}

// Within records that a limit which the group has had all its life was never reached, if its high-water mark shows that.
func (u *Usage) Within(limit int64) {
	if u.PeakMemory != nil && *u.PeakMemory < limit-nearly {
		u.LimitHits = new(int64(0))
	}
}

// full reports whether a v1 folder has been at its limit.
func full(dir string) bool {
	limit, has := memoryLimit(1, dir)
	peak, err := readInt(dir, "memory.max_usage_in_bytes")
	return has && err == nil && peak > limit-nearly
}

// MemoryLimit returns the memory limit in force; false if there is none, or it cannot be read.
func (g *Group) MemoryLimit() (int64, bool) {
	f, ok := g.Folder(Memory)
	if !ok {
		return 0, false
	}
	n, err := readInt(f.Path, map[int]string{1: "memory.limit_in_bytes", 2: "memory.max"}[f.Version])
	const none = 1 << 60 // v1 reports more than any machine has, and v2 "max"
	return n, err == nil && n < none
}

func (s source) read(dir string) (int64, error) {
	if s.key != "" {
		return readKey(dir, s.file, s.key)
	}
	return readInt(dir, s.file)
}

func (u *Usage) set(s source, n int64) {
	u.Sources[s.figure] = map[int]string{1: "cgroup1 ", 2: "cgroup2 "}[s.version] + s.file
	switch s.figure {
	case "cpu":
		unit := time.Nanosecond
		if s.key == "usage_usec" {
			unit = time.Microsecond
		}
		d := time.Duration(n) * unit
		u.CPU = &d
	case "memory":
		u.Memory = &n
	case "peak_memory":
		u.PeakMemory = &n
	case "pids":
		u.Pids = &n
	case "peak_pids":
		u.PeakPids = &n
	case "oom_kills":
		u.OOMKills = &n
	case "limit_hits":
		u.LimitHits = &n
	case "pids_refused":
		u.PidsRefused = &n
	}
}
