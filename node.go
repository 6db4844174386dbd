package belljar

import "time"

// Discovery describes the capabilities of a server (docs/compatibility.md#discovery).
type Discovery struct {
	StoreMode string        `json:"store_mode"` // memory | sqlite | postgres | redis
	Runtimes  []RuntimeInfo `json:"runtimes"`
	// TrustLevels is the weakest isolation for each trust level. DefaultTrustLevel is the level of requests that set none, if there
	// is one. Belljar's own.
	TrustLevels       map[TrustLevel]string `json:"trust_levels"`
	DefaultTrustLevel TrustLevel            `json:"default_trust_level,omitempty"`
}

// RuntimeInfo is one runtime, with its capabilities on this host (docs/compatibility.md#discovery; fields after Notes are Belljar's
// own).
type RuntimeInfo struct {
	Name                     string   `json:"name"`
	Available                bool     `json:"available"`
	Default                  bool     `json:"default"`
	DefaultImages            []string `json:"default_images"`
	MaxCPU                   float64  `json:"max_cpu"`
	MaxMemMB                 int      `json:"max_mem_mb"`
	MaxUploadMB              int      `json:"max_upload_mb"`
	MaxUploadFiles           int      `json:"max_upload_files"` // Belljar's own, like the next
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
	// Protections are all boundaries and limits, including those that this host cannot enforce.
	Protections []RuntimeProtection `json:"protections,omitempty"`
	Rootless    bool                `json:"rootless,omitempty"`
	OOMScope    string              `json:"oom_scope,omitempty"` // out of memory kills one process (process) or all (sandbox)
	AgentUID    string              `json:"agent_uid,omitempty"` // separate: programs and agent have different users; shared: the same
	OCIRuntime  string              `json:"oci_runtime,omitempty"`
	// HostImage reports support for the image host, UnpackedImages for images in Belljar's store, OwnImages for images of the
	// runtime's engine.
	HostImage      bool `json:"host_image"`
	UnpackedImages bool `json:"unpacked_images"`
	OwnImages      bool `json:"own_images"`
	Snapshots      bool `json:"snapshots"`
	Pause          bool `json:"pause"`
	// DiskWorkspaces reports whether a workspace can be on disk, of at most DiskCapMB MiB. NoDisk is the reason if not.
	DiskWorkspaces bool           `json:"disk_workspaces"`
	DiskCapMB      int            `json:"disk_workspace_cap_mb"`
	NoDisk         *RuntimeReason `json:"disk_workspaces_reason,omitempty"`
}

// RuntimeProtection is one boundary or limit with its enforcement on this host.
type RuntimeProtection struct {
	Name     string `json:"name"`
	Enforced bool   `json:"enforced"`
	By       string `json:"by,omitempty"`     // what enforces it here
	Weaker   string `json:"weaker,omitempty"` // how it is weaker than the runtime's best
	Hint     string `json:"hint,omitempty"`
}

// RuntimeReason is why a runtime is not available, as text and as a normalised code.
type RuntimeReason struct {
	Code   string `json:"code"`
	Step   string `json:"step,omitempty"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// Me describes the caller and their permissions on this server.
type Me struct {
	UserID     string         `json:"user_id"`
	Role       Role           `json:"role"`
	PolicyHash string         `json:"policy_hash"`
	Policy     map[string]any `json:"policy"` // the policy in force, keyed by setting
	Limits     Limits         `json:"limits"` // of a run that sets none
	MaxLimits  Limits         `json:"max_limits"`
	MaxTTLSec  float64        `json:"max_ttl_sec,omitempty"` // of a session
	Quota      Quota          `json:"quota"`
	Used       Used           `json:"used"`
}

// Used is the used part of a quota.
type Used struct {
	ConcurrentRuns  int     `json:"concurrent_runs"`
	QueuedRuns      int     `json:"queued_runs"`
	Sessions        int     `json:"sessions"`
	CPUSecondsToday float64 `json:"cpu_seconds_today"`
	ArtifactBytes   int64   `json:"artifact_bytes"`
	LogBytes        int64   `json:"log_bytes"` // of kept logs, running runs included
	MemoryMB        int     `json:"memory_mb"` // that sandboxes may use, queued ones included
	CPU             float64 `json:"cpu"`       // cores that sandboxes may use

	EgressBytesToday int64 `json:"egress_bytes_today"` // sent and received
}

// TokenSpec is a request for an API key.
type TokenSpec struct {
	UserID string  `json:"user_id" minLength:"1"`
	Role   Role    `json:"role,omitempty"`    // "" is user
	Name   string  `json:"name,omitempty"`    // its purpose
	TTLSec float64 `json:"ttl_sec,omitempty"` // 0 is no expiry
}

// Token is an API key. Only its hash is stored: Secret is set by Create alone.
type Token struct {
	ID         string     `json:"id"`
	UserID     string     `json:"user_id"`
	Role       Role       `json:"role"`
	Name       string     `json:"name,omitempty"`
	Prefix     string     `json:"prefix"` // its first characters, for display
	Secret     string     `json:"secret,omitempty"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"` // to the minute
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
}
