package belljar

import (
	"io"
	"iter"
	"time"
)

// SessionSpec asks for a session (docs/compatibility.md#runs).
type SessionSpec struct {
	SpecVersion       string            `json:"spec_version"`
	Runtime           string            `json:"runtime,omitempty"`
	BaseImage         string            `json:"base_image,omitempty"` // optional with a template
	Resources         Resources         `json:"resources,omitzero"`   // of the sandbox: all its runs together
	StartupTimeoutSec float64           `json:"startup_timeout_sec,omitempty" minimum:"0.001"`
	TimeoutSec        float64           `json:"timeout_sec,omitempty" minimum:"0.001"` // of a run that does not say
	CPUTimeSec        float64           `json:"cpu_time_sec,omitempty" minimum:"0.01"` // of a run that does not say. Belljar's own
	NetworkPolicy     string            `json:"network_policy,omitempty"`              // deny_all | allowlist
	Egress            Egress            `json:"egress,omitzero"`                       // of an allowlist
	Git               *GitSpec          `json:"git,omitempty"`                         // a repository that the workspace begins with
	Packages          Packages          `json:"packages,omitzero"`                     // for every run. Belljar's own
	Snapshot          string            `json:"snapshot,omitempty"`                    // id of the one that the workspace begins with. Belljar's own
	Template          string            `json:"template,omitempty"`                    // that gives image, packages, environment and files. Belljar's own
	Env               map[string]string `json:"env,omitempty"`                         // of every run; a run's own wins
	Secrets           map[string]Secret `json:"secrets,omitempty"`                     // by name, at most 32; of all its runs. Belljar's own
	Labels            map[string]string `json:"labels,omitempty"`

	// Belljar's own.
	Scope  Scope   `json:"scope,omitzero"`    // by which it is found again
	TTLSec float64 `json:"ttl_sec,omitempty"` // life after the last activity; 0 is the server's default
	// LifetimeSec bounds its whole life, used or not; 0 is the server's default.
	LifetimeSec float64 `json:"lifetime_sec,omitempty"`
	// IdleTimeoutSec ends it when nothing has happened in it for so long, also under a run or terminal that prints and
	// reads nothing; 0 is never. The TTL, in contrast, waits for every run.
	IdleTimeoutSec float64 `json:"idle_timeout_sec,omitempty"`
	MaxRuns        int     `json:"max_runs,omitempty"`            // in its whole life; 0 is no limit
	MaxConcurrent  int     `json:"max_concurrent_runs,omitempty"` // at once, others wait; 0 is as many as the server allows
	WorkspaceExec  bool    `json:"workspace_exec,omitempty"`
	// Workspace is what /workspace is made of; the zero value is memory.
	Workspace Workspace `json:"workspace,omitzero"`
	// Isolation and TrustLevel are as in [RunSpec].
	Isolation  string     `json:"isolation,omitempty"`
	TrustLevel TrustLevel `json:"trust_level,omitempty"`
	AllowWeak  []string   `json:"allow_weak,omitempty"` // operators only
}

// SessionRequest is a SessionSpec with what is no part of the body.
type SessionRequest struct {
	SessionSpec
	IdempotencyKey string // at most 128 characters; "" for none
}

// SessionState is where a session stands.
type SessionState string

// The states of a session. The last four are terminal.
const (
	SessionStarting   SessionState = "starting"
	SessionActive     SessionState = "active"
	SessionHibernated SessionState = "hibernated" // it is saved, and has no sandbox until it is used
	SessionClosed     SessionState = "closed"     // its caller deleted it
	SessionExpired    SessionState = "expired"    // it was unused for its TTL
	SessionCrashed    SessionState = "crashed"    // its sandbox died
	SessionLost       SessionState = "lost"       // belljar or the machine stopped, and its sandbox with it
)

// Ended reports whether a session in this state is over.
func (s SessionState) Ended() bool {
	return s != SessionStarting && s != SessionActive && s != SessionHibernated
}

// HibernateSpec asks for the hibernation of a session.
type HibernateSpec struct {
	// Force ends what runs in the session: runs and terminals, and, if its processes are not saved ([Hibernation.Live]), contexts and
	// background processes. Without it a session in which anything runs does not hibernate. A context that executes nothing does not run
	// where processes are saved.
	Force bool `json:"force,omitempty"`
}

// Hibernation is what a hibernated session comes back with, or one that was woken came back with.
type Hibernation struct {
	Live   bool   `json:"live"`             // memory, processes and all files; else the files of its workspace and the state of its shell
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
	// Belljar's own, as the rest of these.
	ScopeKey       string            `json:"scope_key,omitempty"` // its scope as [Scope.String]; that of an isolated one ends with its id
	LastActivityAt time.Time         `json:"last_activity_at,omitzero"`
	Runs           int               `json:"runs,omitempty"`     // that were started in it
	Cwd            string            `json:"cwd,omitempty"`      // of its shell, after the last command; "" before the first
	Packages       *PackageLock      `json:"packages,omitempty"` // what was installed for its runs
	Presets        []NetworkPreset   `json:"presets,omitempty"`  // of its egress, with what they stand for
	Warnings       []string          `json:"warnings,omitempty"` // about rules of its egress of which the server's allow nothing, and its clone
	Isolation      string            `json:"isolation,omitempty"`
	RuntimeReason  string            `json:"runtime_reason,omitempty"` // why it was this runtime
	Limits         Limits            `json:"limits"`
	LimitsEnforced map[string]string `json:"limits_enforced,omitempty"`
	Workspace      Workspace         `json:"workspace,omitzero"`        // a disk, with its size; zero for memory
	Git            *GitSource        `json:"git,omitempty"`             // the repository that its workspace began with; nil for none
	Template       string            `json:"template,omitempty"`        // name of the one that it was made of
	SnapshotDigest string            `json:"snapshot_digest,omitempty"` // of the snapshot, or the template's files, that its workspace began with
	// Hibernated is nil for one that has never hibernated, or has ended.
	Hibernated *Hibernation `json:"hibernated,omitempty"`
	// Approval is as in [Run]. While it is pending the session is starting, and cannot be used.
	Approval *Approval `json:"approval,omitempty"`
	Details  *Replay   `json:"details,omitempty"`
}

// CloseRequest ends sessions by their scope.
type CloseRequest struct {
	// KeyPrefix is the beginning of a scope as [Scope.String] has it: workflow:run_123: is all sessions of a workflow.
	// At least a namespace and its colon. Without a colon at its end it still ends where a part of a scope does: workflow:run_1
	// is not workflow:run_12's.
	KeyPrefix string `json:"key_prefix"`
	// RetainSec ends them after this time: until then they can be inspected. They lose their scope, and activity does not extend them.
	RetainSec float64 `json:"retain_seconds,omitempty"`
}

// SessionQuery selects sessions. The zero value is the caller's first 50 that have not ended.
type SessionQuery struct {
	All           bool   // those that have ended too
	KeyPrefix     string // beginning of the scope; "" is any
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

// UploadFormat is what the bytes of an upload are.
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
	Parts iter.Seq2[UploadPart, error] // each is read to its end before the next is asked for
}

// UploadResult is what an upload brought.
type UploadResult struct {
	SessionID     string `json:"session_id"`
	BytesReceived int64  `json:"bytes_received"` // of the files, unpacked
	FileCount     int    `json:"file_count"`
}
