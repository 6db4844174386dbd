package belljar

import (
	"io"
	"iter"
	"time"
)

// SessionSpec is a request for a session (docs/compatibility.md#runs).
type SessionSpec struct {
	SpecVersion       string            `json:"spec_version"`
	Runtime           string            `json:"runtime,omitempty"`
	BaseImage         string            `json:"base_image,omitempty"` // optional with a template
	Resources         Resources         `json:"resources,omitzero"`   // of the sandbox, shared by all its runs
	StartupTimeoutSec float64           `json:"startup_timeout_sec,omitempty" minimum:"0.001"`
	TimeoutSec        float64           `json:"timeout_sec,omitempty" minimum:"0.001"` // of a run that sets none
	CPUTimeSec        float64           `json:"cpu_time_sec,omitempty" minimum:"0.01"` // of a run that sets none. Belljar's own
	NetworkPolicy     string            `json:"network_policy,omitempty"`              // deny_all | allowlist
	Egress            Egress            `json:"egress,omitzero"`                       // of an allowlist
	Git               *GitSpec          `json:"git,omitempty"`                         // repository cloned into the workspace
	Packages          Packages          `json:"packages,omitzero"`                     // for every run. Belljar's own
	Snapshot          string            `json:"snapshot,omitempty"`                    // id of the snapshot with the initial files. Belljar's own
	Template          string            `json:"template,omitempty"`                    // provides image, packages, environment and files. Belljar's own
	Env               map[string]string `json:"env,omitempty"`                         // of every run; a run's own env overrides it
	Secrets           map[string]Secret `json:"secrets,omitempty"`                     // by name, at most 32; for all its runs. Belljar's own
	Labels            map[string]string `json:"labels,omitempty"`

	// The fields from here on are Belljar's own.
	Scope  Scope   `json:"scope,omitzero"`    // identifies the session for a later request
	TTLSec float64 `json:"ttl_sec,omitempty"` // life after the last activity; 0 is the server's default
	// LifetimeSec bounds the session's total life, used or not; 0 is the server's default.
	LifetimeSec float64 `json:"lifetime_sec,omitempty"`
	// IdleTimeoutSec ends the session after this long without activity, even if a run or terminal is open that neither prints nor reads;
	// 0 is never. The TTL, in contrast, waits for every run.
	IdleTimeoutSec float64 `json:"idle_timeout_sec,omitempty"`
	MaxRuns        int     `json:"max_runs,omitempty"`            // over the session's life; 0 is no limit
	MaxConcurrent  int     `json:"max_concurrent_runs,omitempty"` // running at the same time, others wait; 0 is the server's maximum
	WorkspaceExec  bool    `json:"workspace_exec,omitempty"`
	// Workspace is the storage of /workspace; the zero value is memory.
	Workspace Workspace `json:"workspace,omitzero"`
	// Isolation and TrustLevel are as in [RunSpec].
	Isolation  string     `json:"isolation,omitempty"`
	TrustLevel TrustLevel `json:"trust_level,omitempty"`
	AllowWeak  []string   `json:"allow_weak,omitempty"` // operators only
}

// SessionRequest is a SessionSpec with the parts that are not in the body.
type SessionRequest struct {
	SessionSpec
	IdempotencyKey string // at most 128 characters; "" for none
}

// SessionState is the state of a session.
type SessionState string

// The states of a session. The last four are terminal.
const (
	SessionStarting   SessionState = "starting"
	SessionActive     SessionState = "active"
	SessionHibernated SessionState = "hibernated" // saved, without a sandbox until the next use
	SessionClosed     SessionState = "closed"     // its caller deleted it
	SessionExpired    SessionState = "expired"    // its TTL, idle timeout or lifetime ended it
	SessionCrashed    SessionState = "crashed"    // its sandbox died
	SessionLost       SessionState = "lost"       // belljar or the machine stopped, and the sandbox with it
)

// Ended reports whether the state is terminal.
func (s SessionState) Ended() bool {
	return s != SessionStarting && s != SessionActive && s != SessionHibernated
}

// HibernateSpec is a request to hibernate a session.
type HibernateSpec struct {
	// Force ends the session's runs and terminals and, unless its processes are saved ([Hibernation.Live]), its contexts and background
	// processes. Without Force a session in which anything runs does not hibernate. An idle context does not count if processes are saved.
	Force bool `json:"force,omitempty"`
}

// Hibernation describes what a hibernated session restores, or what a resumed session has restored.
type Hibernation struct {
	Live   bool   `json:"live"`             // memory, processes and all files; otherwise only the workspace's files and the shell's state
	Reason string `json:"reason,omitempty"` // why it is not live
}

// Session is a caller's named, expiring hold on a sandbox.
type Session struct {
	ID             string            `json:"session_id"`
	UserID         string            `json:"user_id,omitempty"`
	State          SessionState      `json:"state"`
	Message        string            `json:"message,omitempty"` // why it ended
	SpecVersion    string            `json:"spec_version"`
	Runtime        string            `json:"runtime"`
	RuntimeVersion string            `json:"runtime_version,omitempty"`
	BaseImage      string            `json:"base_image"`
	ImageDigest    string            `json:"image_digest,omitempty"`
	PolicyHash     string            `json:"policy_hash"`
	Labels         map[string]string `json:"labels,omitempty"`
	CreatedAt      time.Time         `json:"created_at"`
	ExpiresAt      time.Time         `json:"expires_at"`
	// The fields from here on are Belljar's own.
	ScopeKey       string            `json:"scope_key,omitempty"` // its scope as [Scope.String]; an isolated scope ends with the session's id
	LastActivityAt time.Time         `json:"last_activity_at,omitzero"`
	Runs           int               `json:"runs,omitempty"`     // number of runs started in it
	Cwd            string            `json:"cwd,omitempty"`      // of its shell, after the last command; "" before the first
	Packages       *PackageLock      `json:"packages,omitempty"` // installed for its runs
	Presets        []NetworkPreset   `json:"presets,omitempty"`  // the presets of its egress, with their expansions
	Warnings       []string          `json:"warnings,omitempty"` // about its clone, and about egress rules that the server's policy fully denies
	Isolation      string            `json:"isolation,omitempty"`
	RuntimeReason  string            `json:"runtime_reason,omitempty"` // why this runtime was chosen
	Limits         Limits            `json:"limits"`
	LimitsEnforced map[string]string `json:"limits_enforced,omitempty"`
	Workspace      Workspace         `json:"workspace,omitzero"`        // a disk, with its size; zero for memory
	Git            *GitSource        `json:"git,omitempty"`             // repository cloned into the workspace; nil for none
	Template       string            `json:"template,omitempty"`        // name of the template that it was made from
	SnapshotDigest string            `json:"snapshot_digest,omitempty"` // of the snapshot, or the template's files, that provided the initial files
	// Hibernated is nil for a session that has never hibernated, or has ended.
	Hibernated *Hibernation `json:"hibernated,omitempty"`
	// Approval is as in [Run]. While it is pending, the session is starting and not usable.
	Approval *Approval `json:"approval,omitempty"`
	Details  *Replay   `json:"details,omitempty"`
}

// CloseRequest ends sessions by their scope.
type CloseRequest struct {
	// KeyPrefix is a prefix of a scope in the form of [Scope.String]: workflow:run_123: matches all sessions of a workflow. It has at least a namespace
	// and a colon. Without a final colon it still matches only whole parts of a scope: workflow:run_1 does not match the sessions of workflow:run_12.
	KeyPrefix string `json:"key_prefix" minLength:"1"`
	// RetainSec delays the end by this time, so that you can inspect the sessions. They lose their scope, and activity does not extend them.
	RetainSec float64 `json:"retain_seconds,omitempty"`
}

// SessionQuery selects sessions. The zero value is the caller's first 50 live sessions.
type SessionQuery struct {
	All           bool   // include ended sessions
	KeyPrefix     string // prefix of the scope; "" is any
	Limit, Offset int
}

// SessionPage is one page of a list.
type SessionPage struct {
	Items   []Session `json:"items"`
	Total   int       `json:"total"`
	Limit   int       `json:"limit"`
	Offset  int       `json:"offset"`
	HasMore bool      `json:"has_more"`
}

// UploadFormat is the format of an upload.
type UploadFormat string

// The formats.
const (
	UploadFile  UploadFormat = "file"
	UploadTar   UploadFormat = "tar"
	UploadTarGz UploadFormat = "tar.gz"
	UploadZip   UploadFormat = "zip"
)

// UploadPart is one file, or one archive of files.
type UploadPart struct {
	Name   string // of a file: its path below Upload.Dir
	Format UploadFormat
	Body   io.Reader
}

// Upload is files for a session's workspace.
type Upload struct {
	Dir   string                       // folder in the workspace; "" is its root
	Parts iter.Seq2[UploadPart, error] // each part is read to its end before the next is requested
}

// UploadResult describes a finished upload.
type UploadResult struct {
	SessionID     string `json:"session_id"`
	BytesReceived int64  `json:"bytes_received"` // of the files, unpacked
	FileCount     int    `json:"file_count"`
}
