package belljar

import (
	"fmt"
	"math"
	"strconv"
)

// Resources are the resources of a request. A zero field means the default; in JSON, leave the field out. An explicit 0 is below the minimum, which the tag
// repeats, and is refused. Names follow the sandbox API's `resources`; those after MemoryMB are Belljar's own.
type Resources struct {
	CPU         float64 `json:"cpu,omitempty" minimum:"0.01"`       // cores; 0.5 is half a core
	MemoryMB    int     `json:"memory_mb,omitempty" minimum:"8"`    // MiB for the programs, without the workspace
	Pids        int     `json:"pids,omitempty" minimum:"1"`         // processes and threads at the same time
	NoFile      int     `json:"nofile,omitempty" minimum:"16"`      // open descriptors a process
	NProc       int     `json:"nproc,omitempty" minimum:"1"`        // RLIMIT_NPROC; the same as Pids by default
	WorkspaceMB int     `json:"workspace_mb,omitempty" minimum:"1"` // MiB of /workspace
	LogBytes    int64   `json:"log_bytes,omitempty" minimum:"1"`    // output kept; the rest is counted and dropped
	ArtifactMB  int     `json:"artifact_mb,omitempty" minimum:"1"`  // MiB of captured artifacts, together
}

// Limits are the limits in force for one run. A report has every field set, except that CPU, MemoryMB and Pids are 0 if the host cannot enforce them.
// limits_enforced of the report names the substitutes. docs/compatibility.md#limits-and-defaults gives the defaults, and its decisions those that it leaves
// open.
type Limits struct {
	CPU               float64 `json:"cpu"`
	MemoryMB          int     `json:"memory_mb"`
	Pids              int     `json:"pids"`
	NoFile            int     `json:"nofile"`
	NProc             int     `json:"nproc"`
	WorkspaceMB       int     `json:"workspace_mb"`
	TmpMB             int     `json:"tmp_mb"`
	Inodes            int     `json:"inodes"` // of each writable file system
	LogBytes          int64   `json:"log_bytes"`
	ArtifactMB        int     `json:"artifact_mb"`
	StartupTimeoutSec float64 `json:"startup_timeout_sec"`
	TimeoutSec        float64 `json:"timeout_sec"`
	BuildTimeoutSec   float64 `json:"build_timeout_sec"`
	BuildMemoryMB     int     `json:"build_memory_mb,omitempty"` // of a run's compiler; 0 is as MemoryMB
	CPUTimeSec        float64 `json:"cpu_time_sec,omitempty"`    // of all processes of a run together; 0 is no limit
	GraceSec          float64 `json:"grace_sec"`                 // between TERM and KILL
}

// DefaultLimits are the limits of a request that sets none.
func DefaultLimits() Limits {
	return Limits{
		CPU: 1, MemoryMB: 512, Pids: 256, NoFile: 1024, NProc: 256,
		WorkspaceMB: 256, TmpMB: 64, Inodes: 65536,
		LogBytes: 10 << 20, ArtifactMB: 32,
		StartupTimeoutSec: 20, TimeoutSec: 60, BuildTimeoutSec: 60, GraceSec: 5,
	}
}

// MaxLimits are the most a request may set, unless the operator configures others (docs/compatibility.md#limits-and-defaults gives cpu and memory).
func MaxLimits() Limits {
	return Limits{
		CPU: 4, MemoryMB: 8192, Pids: 4096, NoFile: 65536, NProc: 4096,
		WorkspaceMB: 4096, TmpMB: 64, Inodes: 65536,
		LogBytes: 100 << 20, ArtifactMB: 1024,
		StartupTimeoutSec: 600, TimeoutSec: 86400, BuildTimeoutSec: 86400, CPUTimeSec: 86400, GraceSec: 60,
	}
}

// resource is one row of the limit table: a field's name, requested value, maximum and target.
type resource struct {
	field string
	ask   float64
	least float64
	most  float64
	unit  string
	set   func(float64)
}

// Resolve returns the limits in force for a request, with defaults for the fields that it leaves out. The error is [CodeInvalidRequest] for an invalid
// value and [CodePolicyDenied] for one above the maximum; its details name the field, the value and the bound.
func (d Limits) Resolve(r Resources, startup, timeout float64, most Limits) (Limits, error) {
	out := d
	rows := []resource{
		{"resources.cpu", r.CPU, 0.01, most.CPU, "cores", func(v float64) { out.CPU = v }},
		{"resources.memory_mb", float64(r.MemoryMB), 8, float64(most.MemoryMB), "MiB", func(v float64) { out.MemoryMB = int(v) }},
		{"resources.pids", float64(r.Pids), 1, float64(most.Pids), "processes", func(v float64) { out.Pids = int(v) }},
		{"resources.nofile", float64(r.NoFile), 16, float64(most.NoFile), "descriptors", func(v float64) { out.NoFile = int(v) }},
		{"resources.nproc", float64(r.NProc), 1, float64(most.NProc), "processes", func(v float64) { out.NProc = int(v) }},
		{"resources.workspace_mb", float64(r.WorkspaceMB), 1, float64(most.WorkspaceMB), "MiB", func(v float64) { out.WorkspaceMB = int(v) }},
		{"resources.log_bytes", float64(r.LogBytes), 1, float64(most.LogBytes), "bytes", func(v float64) { out.LogBytes = int64(v) }},
		{"resources.artifact_mb", float64(r.ArtifactMB), 1, float64(most.ArtifactMB), "MiB", func(v float64) { out.ArtifactMB = int(v) }},
		{"startup_timeout_sec", startup, 0.001, most.StartupTimeoutSec, "seconds", func(v float64) { out.StartupTimeoutSec = v }},
		{"timeout_sec", timeout, 0.001, most.TimeoutSec, "seconds", func(v float64) { out.TimeoutSec = v }},
	}
	for _, row := range rows {
		if err := row.settle(); err != nil {
			return Limits{}, err
		}
	}
	if r.Pids != 0 && r.NProc == 0 { // otherwise the lower of the two would apply
		out.NProc = min(out.Pids, most.NProc)
	}
	return out, nil
}

// ResolveRun is [Limits.Resolve] for a run, which may also have a build and a limit of CPU time.
func (d Limits) ResolveRun(s *RunSpec, most Limits) (Limits, error) {
	out, err := d.Resolve(s.Resources, s.StartupTimeoutSec, s.TimeoutSec, most)
	if err != nil {
		return out, err
	}
	for _, row := range []resource{
		{"build_timeout_sec", s.BuildTimeoutSec, 0.001, most.BuildTimeoutSec, "seconds", func(v float64) { out.BuildTimeoutSec = v }},
		{"build_memory_mb", float64(s.BuildMemoryMB), 8, float64(most.MemoryMB), "MiB", func(v float64) { out.BuildMemoryMB = int(v) }},
		{"cpu_time_sec", s.CPUTimeSec, 0.01, most.CPUTimeSec, "seconds", func(v float64) { out.CPUTimeSec = v }},
	} {
		if err := row.settle(); err != nil {
			return Limits{}, err
		}
	}
	return out, nil
}

// settle sets the field to the requested value, if that is permitted.
func (row resource) settle() error {
	switch {
	case row.ask == 0:
	case math.IsNaN(row.ask) || math.IsInf(row.ask, 0) || row.ask < row.least:
		return &Error{
			Code:    CodeInvalidRequest,
			Message: fmt.Sprintf("%s must be at least %s %s, got %s", row.field, plain(row.least), row.unit, plain(row.ask)),
			Details: map[string]any{"field": row.field, "provided": fmt.Sprint(row.ask), "minimum": row.least},
		}
	case row.ask > row.most:
		return &Error{
			Code:    CodePolicyDenied,
			Message: fmt.Sprintf("%s is limited to %s %s here, got %s", row.field, plain(row.most), row.unit, plain(row.ask)),
			Details: map[string]any{"field": row.field, "provided": row.ask, "maximum": row.most},
		}
	default:
		row.set(row.ask)
	}
	return nil
}

// plain formats a number without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
