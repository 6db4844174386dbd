package service

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
)

// resourceUsage puts together what a run used: the command's own CPU time from the agent, high-water marks from the
// sandbox, which held nothing else. wall, in seconds, stands in for the agent's figure where there is none.
func resourceUsage(e ending, wall float64, logBytes, artifactBytes int64) belljar.ResourceUsage {
	limits := e.limits
	out := belljar.ResourceUsage{
		WallTimeSec: wall, LogBytes: logBytes, ArtifactBytes: artifactBytes, Limits: &limits, Sources: map[string]string{},
	}
	var own wire.Usage
	if e.exit != nil {
		own = e.exit.Usage
		out.WallTimeSec = math.Round(e.exit.WallMS*1000) / 1e6 // to the microsecond
	}
	if own.Source != "" {
		setFigure(&out, &out.CPUTimeSec, "cpu_time_sec", float64(own.UserMicros+own.SystemMicros)/1e6, own.Source)
	} else if e.usage.CPU != nil {
		setFigure(&out, &out.CPUTimeSec, "cpu_time_sec", e.usage.CPU.Seconds(), e.usage.Sources["cpu"])
	}
	if e.usage.PeakMemory != nil {
		setFigure(&out, &out.PeakRSSMB, "peak_rss_mb", mib(*e.usage.PeakMemory), e.usage.Sources["peak_memory"])
	} else if own.MaxRSS > 0 {
		setFigure(&out, &out.PeakRSSMB, "peak_rss_mb", mib(int64(own.MaxRSS)), "largest process")
	}
	if e.usage.Files != nil {
		setFigure(&out, &out.FileMB, "file_mb", mib(*e.usage.Files), e.usage.Sources["files"])
	}
	if e.usage.PeakFiles != nil {
		setFigure(&out, &out.PeakFileMB, "peak_file_mb", mib(*e.usage.PeakFiles), e.usage.Sources["peak_files"])
	}
	if e.usage.PeakPids != nil {
		n := int(*e.usage.PeakPids)
		if e.started {
			n = max(n, 1) // a runtime that takes its own processes off the peak may take one too many
		}
		out.Pids, out.Sources["pids"] = &n, e.usage.Sources["peak_pids"]
	}
	return out
}

func setFigure(u *belljar.ResourceUsage, field **float64, name string, v float64, source string) {
	*field, u.Sources[name] = &v, source
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// enforced tells for each limit by what this host enforces it, or what stands in for that.
func enforced(caps runtime.Capabilities) map[string]string {
	by := map[string]string{}
	for _, p := range caps.Protections {
		if p.By != "" && slices.Contains(limitProtections(), p.Name) {
			by[p.Name] = p.By
		}
	}
	return by
}

// unenforced is a warning about the limits that this host cannot enforce, or "".
func unenforced(caps runtime.Capabilities) string {
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

// limitProtections are the protections that are limits on what a run may use.
func limitProtections() []string {
	return []string{
		runtime.ProtectCPU, runtime.ProtectMemory, runtime.ProtectPids, runtime.ProtectDisk, runtime.ProtectWallTime,
		runtime.ProtectCPUTime,
	}
}

// reckoning bounds asking a sandbox what it used.
const reckoning = 2 * time.Second

// hitsBrief is how short a command is that cannot have met a limit of a session's sandbox unless it failed: to read what the
// sandbox counted costs more than many a command.
const hitsBrief = 100 * time.Millisecond

// base notes what a session's sandbox has counted before the command, so that the run is not blamed for others.
func (e *ending) base(ctx context.Context, p *plan, sandbox runtime.Sandbox) {
	if p.session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reckoning)
	defer cancel()
	e.before = p.session.hits.Before(ctx, sandbox)
}

// reckon asks what the sandbox used, and why it died if the command's end did not come from its agent.
func (e *ending) reckon(ctx context.Context, p *plan, sandbox runtime.Sandbox) {
	ctx = context.WithoutCancel(ctx)
	if e.exit == nil && !e.overdue && (e.started || errors.Is(e.err, agent.ErrDisconnected) || errors.Is(e.err, runtime.ErrGone)) {
		e.sandbox = box.Death(ctx, sandbox)
	}
	ctx, cancel := context.WithTimeout(ctx, reckoning)
	defer cancel()
	if p.session == nil {
		if usage, err := sandbox.Usage(ctx); err == nil {
			e.usage = usage
		}
		if p.build != nil && !e.building {
			e.usage = withoutBuild(e.before, e.usage)
		}
		return
	}
	if e.exit != nil && e.exit.Cause == wire.CauseExited && e.exit.Signal == 0 && e.exit.Code == 0 &&
		e.exit.WallMS < float64(hitsBrief.Milliseconds()) {
		return
	}
	e.usage = since(e.before, p.session.hits.Now(ctx, sandbox))
}

// since is what was counted between two readings of a sandbox that several runs share: what of it is one run's own is
// only known for what went wrong.
func since(before, after runtime.Usage) runtime.Usage {
	return runtime.Usage{
		OOMKills: difference(before.OOMKills, after.OOMKills), LimitHits: difference(before.LimitHits, after.LimitHits),
		PidsRefused: difference(before.PidsRefused, after.PidsRefused),
		MemoryTotal: after.MemoryTotal, Sources: after.Sources,
	}
}

func difference(before, after *int64) *int64 {
	if after == nil {
		return nil
	}
	n := *after - value(before)
	return &n
}
