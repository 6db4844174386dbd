package belljar

import (
	"io"
	"time"
)

// InlineFile is a small file sent inside a request. Path is relative to the workspace.
type InlineFile struct {
	Path    string `json:"path" minLength:"1"`
	Content []byte `json:"content_b64"`
	Mode    uint32 `json:"mode,omitempty"` // permission bits; 0 means 0644. Belljar's own
}

// RunSpec is a request to run a command once (docs/compatibility.md#runs). [RunSpec.Validate] checks it.
type RunSpec struct {
	SpecVersion       string            `json:"spec_version,omitempty"`
	Runtime           string            `json:"runtime,omitempty"`
	SessionID         string            `json:"session_id,omitempty"`
	BaseImage         string            `json:"base_image,omitempty"`
	Command           []string          `json:"command,omitempty"`
	Code              string            `json:"code,omitempty"`     // a program's text, instead of command. Belljar's own
	Language          string            `json:"language,omitempty"` // of Code, or of the file that is Command's first element: python, c … ([Languages])
	Context           string            `json:"context,omitempty"`  // of the session, to execute Code; created if missing with Language. Belljar's own
	Replay            bool              `json:"replay,omitempty"`   // if Context has lost its interpreter, first execute its earlier code again. Belljar's own
	Shell             *ShellCommand     `json:"shell,omitempty"`    // instead of command, in a session. Belljar's own
	Cwd               string            `json:"cwd,omitempty"`      // in the workspace; "" is its root. Belljar's own
	Env               map[string]string `json:"env,omitempty"`
	Secrets           map[string]Secret `json:"secrets,omitempty"` // by name, at most 32; runs in a session use the session's secrets. Belljar's own
	Files             []InlineFile      `json:"files,omitempty"`
	Git               *GitSpec          `json:"git,omitempty"` // repository cloned into the workspace; not in a session
	StartupTimeoutSec float64           `json:"startup_timeout_sec,omitempty" minimum:"0.001"`
	TimeoutSec        float64           `json:"timeout_sec,omitempty" minimum:"0.001"`
	BuildTimeoutSec   float64           `json:"build_timeout_sec,omitempty" minimum:"0.001"` // timeout of the compiler. Belljar's own
	BuildMemoryMB     int               `json:"build_memory_mb,omitempty" minimum:"8"`       // of the compiler; 0 is as resources.memory_mb. Belljar's own
	CPUTimeSec        float64           `json:"cpu_time_sec,omitempty" minimum:"0.01"`       // of all its processes together; not in a shell. Belljar's own
	BuildCache        bool              `json:"build_cache,omitempty"`                       // reuse a program that the same user built. Belljar's own
	Resources         Resources         `json:"resources,omitzero"`
	NetworkPolicy     string            `json:"network_policy,omitempty"` // deny_all | allowlist
	Egress            Egress            `json:"egress,omitzero"`          // of an allowlist
	Packages          Packages          `json:"packages,omitzero"`        // installed first. Belljar's own
	Warm              string            `json:"warm,omitempty"`           // auto ("") | off: use an interpreter that was started in advance. Belljar's own
	Snapshot          string            `json:"snapshot,omitempty"`       // id of the snapshot mounted read-only at /snapshot; not in a session. Belljar's own
	Template          string            `json:"template,omitempty"`       // provides image, packages, environment and files; not in a session. Belljar's own
	CapturePatterns   []string          `json:"capture_patterns,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Stdin             string            `json:"stdin,omitempty"`       // the command's whole standard input. Belljar's own
	Interactive       bool              `json:"interactive,omitempty"` // stdin stays open for the caller (spec 1.1)

	// Limits of an interactive run's standard input (spec 1.1): total bytes, bytes per message, bytes per second, and idle time. A zero
	// field is the server's default.
	StdinMaxBytes       int64   `json:"stdin_max_bytes,omitempty" minimum:"1"`
	StdinMaxFrameBytes  int64   `json:"stdin_max_frame_bytes,omitempty" minimum:"1"`
	StdinBytesPerSec    int64   `json:"stdin_bps,omitempty" minimum:"1"`
	StdinIdleTimeoutSec float64 `json:"stdin_idle_timeout_sec,omitempty" minimum:"0.001"`
	// ResumeFromSeq is where a stream of this run's log starts by default (spec 1.1).
	ResumeFromSeq uint64 `json:"resume_from_seq,omitempty"`

	// WorkspaceExec mounts /workspace without noexec, for compile-and-run. Belljar's own.
	WorkspaceExec bool `json:"workspace_exec,omitempty"`
	// Workspace is the storage of /workspace; the zero value is memory. Not in a session. Belljar's own.
	Workspace Workspace `json:"workspace,omitzero"`
	// Isolation is the weakest acceptable class of isolation ([Isolations]). TrustLevel is how far the program is trusted; the policy
	// maps it to a class. Without a runtime, the fastest acceptable one is used. Belljar's own.
	Isolation  string     `json:"isolation,omitempty"`
	TrustLevel TrustLevel `json:"trust_level,omitempty"`
	// AllowWeak names protections that may be missing on this host. Operators only. Belljar's own.
	AllowWeak []string `json:"allow_weak,omitempty"`
}

// The values of [RunSpec.Warm].
const (
	WarmAuto = "auto"
	WarmOff  = "off"
)

// ShellCommand is a line or a script for the session's shell: a bash whose directory, variables, functions and background jobs persist
// between commands (docs/compatibility.md#shell-api). Commands run one at a time, in order of arrival.
type ShellCommand struct {
	Cmd string `json:"cmd" minLength:"1"` // at most [maxArgBytes]
	// Separate captures stdout and stderr on separate pipes. Otherwise both are a terminal, and all output is stdout.
	Separate bool `json:"separate,omitempty"`
}

// The states of a shell after a command.
const (
	ShellKept     = "kept"
	ShellReplaced = "replaced"
)

// ShellState is the state of a shell after a command.
type ShellState struct {
	Cwd string `json:"cwd"`
	// State is kept, or replaced if the command, or an earlier background job, ended the shell (exit, a kill, a timeout). The next
	// command then gets a new shell in the same directory, without the variables and functions.
	State string `json:"state"`
	// Program is the shell's program: bash, or sh in an image without bash.
	Program string `json:"program"`
}

// RunRequest is a RunSpec with its byte streams, which JSON cannot carry.
type RunRequest struct {
	RunSpec
	// Upload is a tar stream unpacked into the workspace before the command starts; nil for none.
	Upload io.Reader
	// Input is the command's standard input, until it ends or returns an error. It excludes RunSpec.Stdin. With neither, the command reads /dev/null.
	Input io.Reader
	// IdempotencyKey makes a repeated request return the first request's run; at most 128 characters, "" for none.
	IdempotencyKey string
	// Reread may refuse to read the output of an ended run for a repeated request that waits; nil allows it.
	Reread func(Run) error
}

// Run is a run in the form that GET /runs/{id} returns.
type Run struct {
	ID             string   `json:"id"`
	UserID         string   `json:"user_id,omitempty"`
	SessionID      string   `json:"session_id,omitempty"`
	Phase          Phase    `json:"phase"`
	ExitCode       *int     `json:"exit_code"` // 128+n if signalled, null if never started
	Signal         string   `json:"signal,omitempty"`
	ReasonCode     Reason   `json:"reason_code,omitempty"`
	Message        string   `json:"message,omitempty"`
	Hint           string   `json:"hint,omitempty"` // the next step for the user, lower case, no full stop. Belljar's own
	Warnings       []string `json:"warnings,omitempty"`
	SpecVersion    string   `json:"spec_version"`
	Runtime        string   `json:"runtime"`
	RuntimeVersion string   `json:"runtime_version,omitempty"`
	// Isolation is the class of the runtime, RuntimeReason why this runtime was chosen. Belljar's own.
	Isolation     string `json:"isolation,omitempty"`
	RuntimeReason string `json:"runtime_reason,omitempty"`
	BaseImage     string `json:"base_image,omitempty"`
	ImageDigest   string `json:"image_digest,omitempty"`
	// Template is the name of the template that the sandbox was made from. Belljar's own.
	Template string `json:"template,omitempty"`
	// SnapshotDigest is the digest of the snapshot at /snapshot, or of the initial files of the template or session. Belljar's own.
	SnapshotDigest string `json:"snapshot_digest,omitempty"`
	// Workspace is the disk of the workspace, with its size; zero for memory, and in a session. Belljar's own.
	Workspace  Workspace         `json:"workspace,omitzero"`
	Command    []string          `json:"command,omitempty"`
	PolicyHash string            `json:"policy_hash,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	CreatedAt  time.Time         `json:"created_at"`
	// Approval is the operator's pending or final decision about the run; nil if it needed none. Belljar's own.
	Approval *Approval `json:"approval,omitempty"`
	// EstimatedStartTime is set while a run is queued.
	EstimatedStartTime *time.Time     `json:"estimated_start_time,omitempty"`
	StartedAt          *time.Time     `json:"started_at"`
	FinishedAt         *time.Time     `json:"finished_at"`
	ResourceUsage      *ResourceUsage `json:"resource_usage,omitempty"`
	// Egress reports the network use of the run and of its repository's clone; nil without either. The part of the sandbox follows when the run has ended.
	Egress *EgressReport `json:"egress,omitempty"`
	// Packages lists the packages installed for the command; nil without packages. Belljar's own.
	Packages *PackageLock `json:"packages,omitempty"`
	// LimitsEnforced names what enforces each limit; a limit that is not enforced is absent. Belljar's own.
	LimitsEnforced map[string]string `json:"limits_enforced,omitempty"`
	Truncated      bool              `json:"truncated,omitempty"` // the log was truncated at its cap
	// Failure is the reason of the failure, parsed from the output; nil if none was found. Lists leave it out. Belljar's own.
	Failure       *RunFailure `json:"failure,omitempty"`
	Interactive   bool        `json:"interactive,omitempty"`
	ResumeFromSeq uint64      `json:"resume_from_seq,omitempty"`
	// LastSeq is the seq of the log's last frame, in the response for a single run; 0 if there is none yet. Belljar's own.
	LastSeq uint64 `json:"last_seq,omitempty"`
	// CommandTruncated reports that Command is only the beginning: a record keeps 16 KiB. Belljar's own.
	CommandTruncated bool `json:"command_truncated,omitempty"`
	// EnvNames are the names of the request's env, sorted, at most 16 KiB. No record has the values. Belljar's own.
	EnvNames []string `json:"env_names,omitempty"`
	// Network is the request's network policy; nil without a network, and in a session, which has its own. Belljar's own.
	Network *NetworkSpec `json:"network,omitempty"`
	// Shell is the state of the session's shell after the command; nil for other runs and until the run has ended.
	Shell *ShellState `json:"shell,omitempty"`
	// Context is the session's context that executed the code; nil for other runs. Belljar's own.
	Context *ContextRun `json:"context,omitempty"`
	// Build describes how the program was compiled; nil without a build, and until it begins. Belljar's own.
	Build *Build `json:"build,omitempty"`
	// Warm reports whether the interpreter was started in advance; nil if that was impossible, and until the command runs. Belljar's own.
	Warm *bool `json:"warm,omitempty"`
	// Git is the repository that was cloned into the workspace; nil for none.
	Git     *GitSource `json:"git,omitempty"`
	Details *Replay    `json:"details,omitempty"`
}

// Artifact is a file captured from a run's workspace. A symbolic link that matches a pattern is listed with size 0 and its target. It is never followed.
type Artifact struct {
	Path       string `json:"path"`
	Size       int64  `json:"size"`
	Mode       uint32 `json:"mode,omitempty"`
	Digest     string `json:"digest,omitempty"` // sha256:… of the bytes
	LinkTarget string `json:"link_target,omitempty"`
	Skipped    string `json:"skipped,omitempty"` // why the bytes were not kept, such as artifact_cap_exceeded
}

// ExitStatus maps the run's end to one number, as the command line does: the exit code, or the compiler's if the build failed, or 125
// if the run has no exit code because it never began or was lost. Call it only for runs that have ended.
func (r Run) ExitStatus() int {
	switch {
	case r.ExitCode != nil:
		return *r.ExitCode
	case r.ReasonCode == ReasonCompileFailed && r.Build != nil && r.Build.ExitCode != nil && *r.Build.ExitCode != 0:
		return *r.Build.ExitCode
	}
	return noExitStatus
}

const noExitStatus = 125

// Took is the time from a run's start to its end in milliseconds; false if it lacks either.
func (r Run) Took() (ms int64, ok bool) {
	if r.StartedAt == nil || r.FinishedAt == nil {
		return 0, false
	}
	return r.FinishedAt.Sub(*r.StartedAt).Milliseconds(), true
}
