package belljar

import (
	"context"
	"iter"
	"time"
)

// ResourceUsage is what a run consumed (docs/compatibility.md#runs). A figure with no honest source is nil and left
// out; Sources says where each of the others was read (Belljar's own field).
type ResourceUsage struct {
	CPUTimeSec    *float64          `json:"cpu_time_sec,omitempty"`
	WallTimeSec   float64           `json:"wall_time_sec"`
	PeakRSSMB     *float64          `json:"peak_rss_mb,omitempty"`  // MiB that programs held at most, without files in memory where Sources says so
	FileMB        *float64          `json:"file_mb,omitempty"`      // MiB that files in memory held at the end
	PeakFileMB    *float64          `json:"peak_file_mb,omitempty"` // MiB that they held at most
	MaxOpenFiles  *int              `json:"max_open_files,omitempty"`
	Pids          *int              `json:"pids,omitempty"` // peak of processes and threads
	LogBytes      int64             `json:"log_bytes"`
	ArtifactBytes int64             `json:"artifact_bytes"`
	Limits        *Limits           `json:"limits,omitempty"`
	Sources       map[string]string `json:"sources,omitempty"`
}

// UsageSample is what a living sandbox uses at a moment. A figure without an honest source is nil and left out; Sources says where each
// of the others was read.
type UsageSample struct {
	At time.Time `json:"at"`
	// Scope is run for a sandbox of the run's own. It is session for one that a session's runs share: the figures are those of all.
	Scope            string            `json:"scope" enum:"run,session"`
	CPUTimeMS        *float64          `json:"cpu_time_ms,omitempty"` // since the sandbox was made
	CPUPercent       *float64          `json:"cpu_percent,omitempty"` // of one core, since the sample before; nil in the first
	MemoryBytes      *int64            `json:"memory_bytes,omitempty"`
	MemoryLimitBytes *int64            `json:"memory_limit_bytes,omitempty"` // nil where it is not enforced
	FileBytes        *int64            `json:"file_bytes,omitempty"`         // of files in memory; nil where they are part of MemoryBytes
	Pids             *int64            `json:"pids,omitempty"`               // processes and threads
	Sources          map[string]string `json:"sources,omitempty"`
}

// Usages is what a caller's living sandboxes use. Each is sampled once a second while a client watches, and the samples are kept nowhere.
// The sequences return when the run or session has ended. They fail with [CodeNotFound], with [CodeRateLimited] if too many watch, and
// with [CodeRuntimeUnavailable] for a reader that is too slow, and when the server stops.
type Usages interface {
	// Run yields samples of a run's sandbox, which is its session's if it has one. Before it has a sandbox there are none.
	Run(ctx context.Context, id string) iter.Seq2[UsageSample, error]
	// Session yields samples of a session's sandbox. To watch is no use of the session: it may expire.
	Session(ctx context.Context, id string) iter.Seq2[UsageSample, error]
}
