package outcome

import (
	"math"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// ResourceUsage assembles the usage of a run: the command's own CPU time from the agent, and the peaks from the sandbox,
// in which nothing else ran. wall, in seconds, is the fallback for the agent's wall time.
func ResourceUsage(e Ending, wall float64, logBytes, artifactBytes int64) belljar.ResourceUsage {
	out := belljar.ResourceUsage{
		WallTimeSec: wall, LogBytes: logBytes, ArtifactBytes: artifactBytes, Limits: new(e.Limits), Sources: map[string]string{},
	}
	var own wire.Usage
	if e.Exit != nil {
		own = e.Exit.Usage
		out.WallTimeSec = math.Round(e.Exit.WallMS*1000) / 1e6 // to the microsecond
	}
	if own.Source != "" {
		setFigure(&out, &out.CPUTimeSec, "cpu_time_sec", float64(own.UserMicros+own.SystemMicros)/1e6, own.Source)
	} else if e.Usage.CPU != nil {
		setFigure(&out, &out.CPUTimeSec, "cpu_time_sec", e.Usage.CPU.Seconds(), e.Usage.Sources["cpu"])
	}
	if e.Usage.PeakMemory != nil {
		setFigure(&out, &out.PeakRSSMB, "peak_rss_mb", mib(*e.Usage.PeakMemory), e.Usage.Sources["peak_memory"])
	} else if own.MaxRSS > 0 {
		setFigure(&out, &out.PeakRSSMB, "peak_rss_mb", mib(int64(own.MaxRSS)), "largest process")
	}
	if e.Usage.Files != nil {
		setFigure(&out, &out.FileMB, "file_mb", mib(*e.Usage.Files), e.Usage.Sources["files"])
	}
	if e.Usage.PeakFiles != nil {
		setFigure(&out, &out.PeakFileMB, "peak_file_mb", mib(*e.Usage.PeakFiles), e.Usage.Sources["peak_files"])
	}
	if e.Usage.PeakPids != nil {
		n := int(*e.Usage.PeakPids)
		if e.Started {
			n = max(n, 1) // a runtime that subtracts its own processes from the peak may subtract one too many
		}
		out.Pids, out.Sources["pids"] = &n, e.Usage.Sources["peak_pids"]
	}
	return out
}

func setFigure(u *belljar.ResourceUsage, field **float64, name string, v float64, source string) {
	*field, u.Sources[name] = &v, source
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// Since returns the difference between two readings of a sandbox that several runs share. Only for failures is it known
// which part belongs to one run. lower means that the run may have fewer processes than the sandbox.
func Since(before, after runtime.Usage, lower bool) runtime.Usage {
	return runtime.Usage{
		OOMKills: difference(before.OOMKills, after.OOMKills), LimitHits: difference(before.LimitHits, after.LimitHits),
		PidsRefused: difference(before.PidsRefused, after.PidsRefused), PidsBelow: after.PidsBelow && !lower,
		MemoryTotal: after.MemoryTotal, Sources: after.Sources,
	}
}

func difference(before, after *int64) *int64 {
	if after == nil {
		return nil
	}
	return new(*after - value(before))
}

// WithoutBuild returns the usage of the program alone, without its build in the same sandbox. A peak that does not exceed
// the build's is unknown.
func WithoutBuild(before, after runtime.Usage) runtime.Usage {
	own := Since(before, after, false)
	if after.CPU != nil && before.CPU != nil {
		cpu := *after.CPU - *before.CPU
		own.CPU = &cpu
	}
	if after.PeakMemory != nil && *after.PeakMemory > value(before.PeakMemory) {
		own.PeakMemory = after.PeakMemory
	}
	if after.PeakPids != nil && *after.PeakPids > value(before.PeakPids) {
		own.PeakPids = after.PeakPids
	}
	return own
}
