package belljar

import "time"

// RunQuery selects runs (docs/compatibility.md#administration). The zero value is the first 50, newest first. Time bounds are inclusive.
type RunQuery struct {
	UserID       string // operators only
	Phase        Phase
	Runtime      string
	BaseImage    string
	ImageDigest  string
	SessionID    string
	Q            string // substring of the image's name or of the message
	StartedFrom  time.Time
	StartedTo    time.Time
	FinishedFrom time.Time
	FinishedTo   time.Time
	// Sort is created_at, started_at or finished_at, with :asc or :desc (the default); "" is created_at:desc.
	Sort   string
	Limit  int // 0 is 50; at most [MaxPage]
	Offset int
}

// MaxPage is the most entries of one page (docs/compatibility.md#administration).
const MaxPage = 200

// RunPage is one page of a list.
type RunPage struct {
	Items   []Run `json:"items"`
	Total   int   `json:"total"`
	Limit   int   `json:"limit"`
	Offset  int   `json:"offset"`
	HasMore bool  `json:"has_more"`
}

// Replay is the result of a request's Idempotency-Key (docs/compatibility.md#idempotency).
type Replay struct {
	Key    string `json:"idempotency_key_echo"`
	Status string `json:"idempotency_status"` // created | replayed
}

// KeyQuery selects idempotency entries (docs/compatibility.md#administration).
type KeyQuery struct {
	Endpoint      string // runs | sessions; "" is any
	UserID        string
	Limit, Offset int
}

// KeyEntry is one idempotency key in force.
type KeyEntry struct {
	Endpoint  string    `json:"endpoint"`
	UserKey   string    `json:"user_key"`
	Key       string    `json:"key"`
	ObjectID  string    `json:"object_id"`
	CreatedAt time.Time `json:"created_at"`
}

// UserUsage is what one user consumes.
type UserUsage struct {
	UserID          string  `json:"user_id"`
	ArtifactBytes   int64   `json:"artifact_bytes"`
	LogBytes        int64   `json:"log_bytes"`         // of kept logs, including the framing between the output
	CPUSecondsToday float64 `json:"cpu_seconds_today"` // since midnight UTC
	// EgressBytesToday is the bytes that runs have sent and received since midnight UTC.
	EgressBytesToday int64 `json:"egress_bytes_today"`
}

// Quota is the limits of one user. A zero field means no limit.
type Quota struct {
	ConcurrentRuns   int     `json:"concurrent_runs"`
	CPUSecondsPerDay float64 `json:"cpu_seconds_per_day"`
	ArtifactMB       int     `json:"artifact_mb"`         // kept at once
	LogMB            int     `json:"log_mb,omitempty"`    // of logs kept at once
	MemoryMB         int     `json:"memory_mb,omitempty"` // used by all sandboxes together, files in memory included
	CPU              float64 `json:"cpu,omitempty"`       // cores for all sandboxes together
	// EgressMBPerDay is what runs may send and receive over the network from midnight UTC to the next, in MiB.
	EgressMBPerDay int  `json:"egress_mb_per_day,omitempty"`
	Own            bool `json:"own"` // the user's own rather than the default; SetQuota ignores it
}
