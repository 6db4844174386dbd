package belljar

import (
	"context"
	"iter"
	"time"
)

// ResourceUsage is a run's consumption (docs/compatibility.md#runs). A figure without a reliable source is nil and left out. Sources
// names the source of each of the others (Belljar's own field).
type ResourceUsage struct {
	CPUTimeSec    *float64          `json:"cpu_time_sec,omitempty"`
	WallTimeSec   float64           `json:"wall_time_sec"`
	PeakRSSMB     *float64          `json:"peak_rss_mb,omitempty"`  // peak MiB of programs, without files in memory if Sources says so
	FileMB        *float64          `json:"file_mb,omitempty"`      // MiB of files in memory at the end
	PeakFileMB    *float64          `json:"peak_file_mb,omitempty"` // peak MiB of files in memory
	MaxOpenFiles  *int              `json:"max_open_files,omitempty"`
	Pids          *int              `json:"pids,omitempty"` // peak number of processes and threads
	LogBytes      int64             `json:"log_bytes"`
	ArtifactBytes int64             `json:"artifact_bytes"`
	Limits        *Limits           `json:"limits,omitempty"`
	Sources       map[string]string `json:"sources,omitempty"`
}

// UsageSample is the current usage of a running sandbox. A figure without a reliable source is nil and left out. Sources names the source
// of each of the others.
type UsageSample struct {
	At time.Time `json:"at"`
	// Scope is run for a run's own sandbox. It is session for a sandbox that a session's runs share: the figures then include all of them.
	Scope            string            `json:"scope" enum:"run,session"`
	CPUTimeMS        *float64          `json:"cpu_time_ms,omitempty"` // since the sandbox was made
	CPUPercent       *float64          `json:"cpu_percent,omitempty"` // of one core, since the previous sample; nil in the first
	MemoryBytes      *int64            `json:"memory_bytes,omitempty"`
	MemoryLimitBytes *int64            `json:"memory_limit_bytes,omitempty"` // nil if it is not enforced
	FileBytes        *int64            `json:"file_bytes,omitempty"`         // of files in memory; nil if MemoryBytes includes them
	Pids             *int64            `json:"pids,omitempty"`               // processes and threads
	Sources          map[string]string `json:"sources,omitempty"`
}

// Usages samples the usage of the caller's running sandboxes once a second while a client watches. Samples are not stored. The sequences
// return when the run or session has ended. They fail with [CodeNotFound], with [CodeRateLimited] if too many clients watch, and with
// [CodeRuntimeUnavailable] for a reader that is too slow, and when the server stops.
type Usages interface {
	// Run yields samples of a run's sandbox, or of its session's sandbox. It yields none before the sandbox exists.
	Run(ctx context.Context, id string) iter.Seq2[UsageSample, error]
	// Session yields samples of a session's sandbox. Watching does not count as activity: the session may expire.
	Session(ctx context.Context, id string) iter.Seq2[UsageSample, error]
}
