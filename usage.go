package belljar

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
