package api

// QuotaSpec is a [belljar.Quota] in a request: each field may be left out.
type QuotaSpec struct {
	ConcurrentRuns   int     `json:"concurrent_runs,omitempty"`
	CPUSecondsPerDay float64 `json:"cpu_seconds_per_day,omitempty"`
	ArtifactMB       int     `json:"artifact_mb,omitempty" doc:"MiB of artifacts, snapshots and volumes on disk kept at once; 0 is no limit"`
	LogMB            int     `json:"log_mb,omitempty" doc:"MiB of logs kept at once; 0 is no limit"`
	MemoryMB         int     `json:"memory_mb,omitempty" doc:"MiB that sandboxes may use together, files in memory and runs in the queue included; 0 is no limit"`
	CPU              float64 `json:"cpu,omitempty" doc:"Cores that sandboxes may use together; 0 is no limit"`
	EgressMBPerDay   int     `json:"egress_mb_per_day,omitempty"`
	Own              bool    `json:"own,omitempty" doc:"Ignored, so that an answer can be sent back"`
}
