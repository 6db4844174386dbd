package placement

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Unlimited returns the largest possible limits: a request that was already admitted stays within them.
func Unlimited() belljar.Limits {
	return belljar.Limits{
		CPU: math.MaxFloat64, MemoryMB: math.MaxInt, Pids: math.MaxInt, NoFile: math.MaxInt, NProc: math.MaxInt,
		WorkspaceMB: math.MaxInt, TmpMB: math.MaxInt, Inodes: math.MaxInt, LogBytes: math.MaxInt64, ArtifactMB: math.MaxInt,
		StartupTimeoutSec: math.MaxFloat64, TimeoutSec: math.MaxFloat64, BuildTimeoutSec: math.MaxFloat64, CPUTimeSec: math.MaxFloat64, GraceSec: math.MaxFloat64,
	}
}

// WithDefaults returns l with its zero fields set from defaults.
func WithDefaults(l, defaults belljar.Limits) belljar.Limits {
	l.CPU = cmp.Or(l.CPU, defaults.CPU)
	l.MemoryMB = cmp.Or(l.MemoryMB, defaults.MemoryMB)
	l.Pids = cmp.Or(l.Pids, defaults.Pids)
	l.NoFile = cmp.Or(l.NoFile, defaults.NoFile)
	l.NProc = cmp.Or(l.NProc, defaults.NProc)
	l.WorkspaceMB = cmp.Or(l.WorkspaceMB, defaults.WorkspaceMB)
	l.TmpMB = cmp.Or(l.TmpMB, defaults.TmpMB)
	l.Inodes = cmp.Or(l.Inodes, defaults.Inodes)
	l.LogBytes = cmp.Or(l.LogBytes, defaults.LogBytes)
	l.ArtifactMB = cmp.Or(l.ArtifactMB, defaults.ArtifactMB)
	l.StartupTimeoutSec = cmp.Or(l.StartupTimeoutSec, defaults.StartupTimeoutSec)
	l.TimeoutSec = cmp.Or(l.TimeoutSec, defaults.TimeoutSec)
	l.BuildTimeoutSec = cmp.Or(l.BuildTimeoutSec, defaults.BuildTimeoutSec)
	l.CPUTimeSec = cmp.Or(l.CPUTimeSec, defaults.CPUTimeSec)
	l.GraceSec = cmp.Or(l.GraceSec, defaults.GraceSec)
	return l
}

// limitProtections returns the protections that are limits on a run's resources.
func limitProtections() []string {
	return []string{
		runtime.ProtectCPU, runtime.ProtectMemory, runtime.ProtectPids, runtime.ProtectDisk, runtime.ProtectWallTime,
		runtime.ProtectCPUTime,
	}
}

// Enforced returns what enforces each limit that a host can enforce.
func Enforced(caps runtime.Capabilities) map[string]string {
	by := map[string]string{}
	for _, p := range caps.Protections {
		if p.By != "" && slices.Contains(limitProtections(), p.Name) {
			by[p.Name] = p.By
		}
	}
	return by
}

// Waived returns, for the audit trail, which of the protections that a request waives are missing; nil for none.
func Waived(caps runtime.Capabilities, weak []string) map[string]string {
	missing := slices.DeleteFunc(slices.Clone(weak), func(name string) bool { return caps.Protection(name).Enforced })
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return map[string]string{"allow_weak": strings.Join(slices.Compact(missing), ", ")}
}

// Unenforced returns a warning about the limits that a host cannot enforce, or "".
func Unenforced(caps runtime.Capabilities) string {
	var names, weak []string
	for _, name := range limitProtections() {
		switch p := caps.Protection(name); {
		case p.Enforced:
		case p.By != "":
			weak = append(weak, name+" only by "+p.By)
		default:
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		weak = append([]string{"limits not enforced on this host: " + strings.Join(names, ", ")}, weak...)
	}
	return strings.Join(weak, "; ")
}
