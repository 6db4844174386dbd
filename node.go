package belljar

import "time"

// Discovery is what a server can do (docs/compatibility.md#discovery).
type Discovery struct {
	StoreMode string        `json:"store_mode"` // memory | sqlite | postgres | redis
	Runtimes  []RuntimeInfo `json:"runtimes"`
	// TrustLevels is the weakest isolation that each trust level may have, DefaultTrustLevel the level of requests that say
	// none, if there is one. Belljar's own.
	TrustLevels       map[TrustLevel]string `json:"trust_levels"`
	DefaultTrustLevel TrustLevel            `json:"default_trust_level,omitempty"`
}

// RuntimeInfo is one runtime, with what this host lets it do (docs/compatibility.md#discovery; those after Notes are
// Belljar's own).
type RuntimeInfo struct {
	Name                     string   `json:"name"`
	Available                bool     `json:"available"`
	Default                  bool     `json:"default"`
	DefaultImages            []string `json:"default_images"`
	MaxCPU                   float64  `json:"max_cpu"`
	MaxMemMB                 int      `json:"max_mem_mb"`
	MaxUploadMB              int      `json:"max_upload_mb"`
	MaxUploadFiles           int      `json:"max_upload_files"` // Belljar's own, as the next
	MaxUploadDepth           int      `json:"max_upload_depth"` // folders above a file
	MaxLogBytes              int64    `json:"max_log_bytes"`
	QueueMaxLength           int      `json:"queue_max_length"`
	QueueTTLSec              int      `json:"queue_ttl_sec"`
	WorkspaceCapMB           int      `json:"workspace_cap_mb"`
	ArtifactTTLHours         int      `json:"artifact_ttl_hours"`
	SupportedSpecVersions    []string `json:"supported_spec_versions"`
	InteractiveSupported     bool     `json:"interactive_supported"`
	EgressAllowlistSupported bool     `json:"egress_allowlist_supported"`
	Notes                    *string  `json:"notes"`

	Version             string            `json:"version,omitempty"`
	ImplementationState string            `json:"implementation_state"`
	Isolation           string            `json:"isolation"`
	Reasons             []RuntimeReason   `json:"reasons,omitempty"`
	LimitsEnforced      map[string]string `json:"limits_enforced,omitempty"`
	// Protections are all boundaries and limits, also those that this host cannot enforce.
	Protections []RuntimeProtection `json:"protections,omitempty"`
	Rootless    bool                `json:"rootless,omitempty"`
	OOMScope    string              `json:"oom_scope,omitempty"` // process: a memory hog dies alone; sandbox: all of it dies
	AgentUID    string              `json:"agent_uid,omitempty"` // separate: programs have another user than Belljar's agent; shared
	OCIRuntime  string              `json:"oci_runtime,omitempty"`
	// HostImage says that the image host can be used, UnpackedImages that those in Belljar's store can, OwnImages that its
	// engine has images of its own.
	HostImage      bool `json:"host_image"`
	UnpackedImages bool `json:"unpacked_images"`
	OwnImages      bool `json:"own_images"`
	Snapshots      bool `json:"snapshots"`
	Pause          bool `json:"pause"`
	// DiskWorkspaces reports whether a workspace can be on disk, of at most DiskCapMB MiB; NoDisk is why not.
	DiskWorkspaces bool           `json:"disk_workspaces"`
	DiskCapMB      int            `json:"disk_workspace_cap_mb"`
	NoDisk         *RuntimeReason `json:"disk_workspaces_reason,omitempty"`
}

// RuntimeProtection is one boundary or limit as this host can enforce it.
type RuntimeProtection struct {
	Name     string `json:"name"`
	Enforced bool   `json:"enforced"`
	By       string `json:"by,omitempty"`     // what enforces it here
	Weaker   string `json:"weaker,omitempty"` // what is weaker than the best that the runtime knows
	Hint     string `json:"hint,omitempty"`
}

// RuntimeReason is why a runtime is not available, in words and a normalised code.
type RuntimeReason struct {
	Code   string `json:"code"`
	Step   string `json:"step,omitempty"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// Me is what the caller is and may do here.
type Me struct {
	UserID     string         `json:"user_id"`
	Role       Role           `json:"role"`
	PolicyHash string         `json:"policy_hash"`
	Policy     map[string]any `json:"policy"` // the policy in force, by the names of its settings
	Limits     Limits         `json:"limits"` // of a run that asks for nothing
	MaxLimits  Limits         `json:"max_limits"`
	Quota      Quota          `json:"quota"`
	Used       Used           `json:"used"`
}

// Used is what of a quota is used.
type Used struct {
	ConcurrentRuns  int     `json:"concurrent_runs"`
	QueuedRuns      int     `json:"queued_runs"`
	Sessions        int     `json:"sessions"`
	CPUSecondsToday float64 `json:"cpu_seconds_today"`
	ArtifactBytes   int64   `json:"artifact_bytes"`
	LogBytes        int64   `json:"log_bytes"` // of logs that are kept, those of runs under way included
	MemoryMB        int     `json:"memory_mb"` // that sandboxes may use, those that wait included
	CPU             float64 `json:"cpu"`       // cores that they may use

	EgressBytesToday int64 `json:"egress_bytes_today"` // sent and received
}

// TokenSpec asks for an API key.
type TokenSpec struct {
	UserID string  `json:"user_id"`
	Role   Role    `json:"role,omitempty"`    // "" is user
	Name   string  `json:"name,omitempty"`    // what it is for
	TTLSec float64 `json:"ttl_sec,omitempty"` // 0 is for ever
}

// Token is an API key. Only its hash is stored: Secret is set by Create alone.
type Token struct {
	ID         string     `json:"id"`
	UserID     string     `json:"user_id"`
	Role       Role       `json:"role"`
	Name       string     `json:"name,omitempty"`
	Prefix     string     `json:"prefix"` // its first characters, to tell keys apart
	Secret     string     `json:"secret,omitempty"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"` // to the minute
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
}
