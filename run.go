package belljar

import (
	"io"
	"time"
)

// InlineFile is a small file sent inside a request. Path is relative to the workspace.
type InlineFile struct {
	Path    string `json:"path"`
	Content []byte `json:"content_b64"`
	Mode    uint32 `json:"mode,omitempty"` // permission bits; 0 means 0644. Belljar's own
}

// RunSpec is a request to run a command once (docs/compatibility.md#runs). [RunSpec.Validate] is its whole grammar.
type RunSpec struct {
	SpecVersion       string            `json:"spec_version,omitempty"`
	Runtime           string            `json:"runtime,omitempty"`
	SessionID         string            `json:"session_id,omitempty"`
	BaseImage         string            `json:"base_image,omitempty"`
	Command           []string          `json:"command,omitempty"`
	Code              string            `json:"code,omitempty"`     // a program's text, in place of command. Belljar's own
	Language          string            `json:"language,omitempty"` // of Code, or of the file that Command begins with: python, c … ([Languages])
	Context           string            `json:"context,omitempty"`  // of a session, in which Code is executed; with Language it is made if missing. Belljar's own
	Replay            bool              `json:"replay,omitempty"`   // if Context has lost its interpreter, its earlier code is executed again first. Belljar's own
	Shell             *ShellCommand     `json:"shell,omitempty"`    // in place of command, in a session. Belljar's own
	Cwd               string            `json:"cwd,omitempty"`      // in the workspace; "" is its root. Belljar's own
	Env               map[string]string `json:"env,omitempty"`
	Secrets           map[string]Secret `json:"secrets,omitempty"` // by name, at most 32; in a session, they are the session's. Belljar's own
	Files             []InlineFile      `json:"files,omitempty"`
	Git               *GitSpec          `json:"git,omitempty"` // a repository that the workspace begins with; not in a session
	StartupTimeoutSec float64           `json:"startup_timeout_sec,omitempty" minimum:"0.001"`
	TimeoutSec        float64           `json:"timeout_sec,omitempty" minimum:"0.001"`
	BuildTimeoutSec   float64           `json:"build_timeout_sec,omitempty" minimum:"0.001"` // of a program that is compiled first. Belljar's own
	BuildMemoryMB     int               `json:"build_memory_mb,omitempty" minimum:"8"`       // of its compiler; 0 is as resources.memory_mb. Belljar's own
	CPUTimeSec        float64           `json:"cpu_time_sec,omitempty" minimum:"0.01"`       // of all its processes together; not in a shell. Belljar's own
	BuildCache        bool              `json:"build_cache,omitempty"`                       // the same program of the same user is built once. Belljar's own
	Resources         Resources         `json:"resources,omitzero"`
	NetworkPolicy     string            `json:"network_policy,omitempty"` // deny_all | allowlist
	Egress            Egress            `json:"egress,omitzero"`          // of an allowlist
	Packages          Packages          `json:"packages,omitzero"`        // installed first. Belljar's own
	Warm              string            `json:"warm,omitempty"`           // auto ("") | off: whether an interpreter started before may execute it. Belljar's own
	Snapshot          string            `json:"snapshot,omitempty"`       // id of the one that is at /snapshot, read-only; not in a session. Belljar's own
	Template          string            `json:"template,omitempty"`       // that gives image, packages, environment and files; not in a session. Belljar's own
	CapturePatterns   []string          `json:"capture_patterns,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Stdin             string            `json:"stdin,omitempty"`       // the command's whole standard input. Belljar's own
	Interactive       bool              `json:"interactive,omitempty"` // stdin stays open for the caller (spec 1.1)

	// Limits of an interactive run's standard input (spec 1.1): in all, of one message, a second, and without a message. A
	// zero field is the server's default.
	StdinMaxBytes       int64   `json:"stdin_max_bytes,omitempty" minimum:"1"`
	StdinMaxFrameBytes  int64   `json:"stdin_max_frame_bytes,omitempty" minimum:"1"`
	StdinBytesPerSec    int64   `json:"stdin_bps,omitempty" minimum:"1"`
	StdinIdleTimeoutSec float64 `json:"stdin_idle_timeout_sec,omitempty" minimum:"0.001"`
	// ResumeFromSeq is where a stream of this run's log starts that does not say (spec 1.1).
	ResumeFromSeq uint64 `json:"resume_from_seq,omitempty"`

	// WorkspaceExec mounts /workspace without noexec, for compile-and-run. Belljar's own.
	WorkspaceExec bool `json:"workspace_exec,omitempty"`
	// Workspace is what /workspace is made of; the zero value is memory. Not in a session. Belljar's own.
	Workspace Workspace `json:"workspace,omitzero"`
	// Isolation is the weakest class of isolation that will do ([Isolations]), TrustLevel how far the program is trusted, from
	// which the policy knows one too. Without a runtime the fastest that will do is taken. Belljar's own.
	Isolation  string     `json:"isolation,omitempty"`
	TrustLevel TrustLevel `json:"trust_level,omitempty"`
	// AllowWeak names protections that may be missing on this host. Belljar's own; operators only.
	AllowWeak []string `json:"allow_weak,omitempty"`
}

// The values of [RunSpec.Warm].
const (
	WarmAuto = "auto"
	WarmOff  = "off"
)

// ShellCommand is a line, or a script, for the session's shell: a bash that keeps its directory, variables, functions and
// background jobs from one command to the next (docs/compatibility.md#shell-api). Commands wait for each other in the order they came.
type ShellCommand struct {
	Cmd string `json:"cmd"` // at most [maxArgBytes]
	// Separate keeps stdout and stderr apart, on pipes; otherwise both are a terminal, and all output is stdout.
	Separate bool `json:"separate,omitempty"`
}

// The states of a shell after a command.
const (
	ShellKept     = "kept"
	ShellReplaced = "replaced"
)

// ShellState is how a shell stood after a command.
type ShellState struct {
	Cwd string `json:"cwd"`
	// State is kept, or replaced if the command, or a job of an earlier one, ended the shell (exit, a kill, a timeout that
	// it did not survive): the next command finds a new one, in the same directory, without its variables and functions.
	State string `json:"state"`
	// Program is what the shell is: bash, or sh in an image without bash.
	Program string `json:"program"`
}

// RunRequest is a RunSpec with the byte streams that do not fit in JSON.
type RunRequest struct {
	RunSpec
	// Upload is a tar stream unpacked into the workspace before the command starts; nil for none.
	Upload io.Reader
	// Input feeds the command's standard input until it ends or returns an error. It goes with no RunSpec.Stdin; with
	// neither, the command reads /dev/null.
	Input io.Reader
	// IdempotencyKey makes a repeated request return the first one's run; at most 128 characters, "" for none.
	IdempotencyKey string
}

// Run is a run as GET /runs/{id} shows it.
type Run struct {
	ID             string   `json:"id"`
	UserID         string   `json:"user_id,omitempty"`
	SessionID      string   `json:"session_id,omitempty"`
	Phase          Phase    `json:"phase"`
	ExitCode       *int     `json:"exit_code"` // 128+n if signalled, null if never started
	Signal         string   `json:"signal,omitempty"`
	ReasonCode     Reason   `json:"reason_code,omitempty"`
	Message        string   `json:"message,omitempty"`
	Hint           string   `json:"hint,omitempty"` // the next thing to do, lower case, no full stop. Belljar's own
	Warnings       []string `json:"warnings,omitempty"`
	SpecVersion    string   `json:"spec_version"`
	Runtime        string   `json:"runtime"`
	RuntimeVersion string   `json:"runtime_version,omitempty"`
	// Isolation is the class of the runtime, RuntimeReason why it was this one. Belljar's own.
	Isolation     string `json:"isolation,omitempty"`
	RuntimeReason string `json:"runtime_reason,omitempty"`
	BaseImage     string `json:"base_image,omitempty"`
	ImageDigest   string `json:"image_digest,omitempty"`
	// Template is the name of the one that its sandbox was made of. Belljar's own.
	Template string `json:"template,omitempty"`
	// SnapshotDigest is that of the snapshot at /snapshot, or of the files that the template or session began with. Belljar's own.
	SnapshotDigest string `json:"snapshot_digest,omitempty"`
	// Workspace is a disk, with its size; zero for memory, and in a session. Belljar's own.
	Workspace  Workspace         `json:"workspace,omitzero"`
	Command    []string          `json:"command,omitempty"`
	PolicyHash string            `json:"policy_hash,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	CreatedAt  time.Time         `json:"created_at"`
	// Approval is what an operator decides, or decided, before the run may begin; nil if it needed none. Belljar's own.
	Approval *Approval `json:"approval,omitempty"`
	// EstimatedStartTime is set while a run is queued.
	EstimatedStartTime *time.Time     `json:"estimated_start_time,omitempty"`
	StartedAt          *time.Time     `json:"started_at"`
	FinishedAt         *time.Time     `json:"finished_at"`
	ResourceUsage      *ResourceUsage `json:"resource_usage,omitempty"`
	// Egress is what left the sandbox while the run lasted, and before for its repository; nil with neither. The sandbox's own part
	// comes when the run has ended.
	Egress *EgressReport `json:"egress,omitempty"`
	// Packages is what was installed, or had been, before the command; nil without packages. Belljar's own.
	Packages *PackageLock `json:"packages,omitempty"`
	// LimitsEnforced names for each limit what enforces it; a limit that is not is absent. Belljar's own.
	LimitsEnforced map[string]string `json:"limits_enforced,omitempty"`
	Truncated      bool              `json:"truncated,omitempty"` // the log was cut at its cap
	// Failure is what the output of a failed run says about the reason; nil if it says nothing. Lists leave it out. Belljar's own.
	Failure       *RunFailure `json:"failure,omitempty"`
	Interactive   bool        `json:"interactive,omitempty"`
	ResumeFromSeq uint64      `json:"resume_from_seq,omitempty"`
	// LastSeq is the seq of the log's last frame when a single run was asked for; 0 while there is none. Belljar's own.
	LastSeq uint64 `json:"last_seq,omitempty"`
	// CommandTruncated reports that Command is only the beginning of what runs: 16 KiB go on record. Belljar's own.
	CommandTruncated bool `json:"command_truncated,omitempty"`
	// EnvNames are the variables of the request's env, sorted; 16 KiB go on record. No record has their values. Belljar's own.
	EnvNames []string `json:"env_names,omitempty"`
	// Network is what the request allowed; nil without a network, and in a session, which has its own. Belljar's own.
	Network *NetworkSpec `json:"network,omitempty"`
	// Shell is how the session's shell stood after its command; nil for other runs and until it has ended.
	Shell *ShellState `json:"shell,omitempty"`
	// Context is the session's context in which its code was executed; nil for other runs. Belljar's own.
	Context *ContextRun `json:"context,omitempty"`
	// Build is how its program was compiled; nil where none is, and until that begins. Belljar's own.
	Build *Build `json:"build,omitempty"`
	// Warm is whether its interpreter was started in advance; nil if it could not have been, and until the command runs. Belljar's own.
	Warm *bool `json:"warm,omitempty"`
	// Git is the repository that its workspace began with; nil for none.
	Git     *GitSource `json:"git,omitempty"`
	Details *Replay    `json:"details,omitempty"`
}

// Artifact is a file captured from a run's workspace. A symbolic link that matches a
// pattern is listed with size 0 and its target, and never followed.
type Artifact struct {
	Path       string `json:"path"`
	Size       int64  `json:"size"`
	Mode       uint32 `json:"mode,omitempty"`
	Digest     string `json:"digest,omitempty"` // sha256:… of the bytes
	LinkTarget string `json:"link_target,omitempty"`
	Skipped    string `json:"skipped,omitempty"` // why the bytes were not kept, e.g. artifact_cap_exceeded
}

// ExitStatus is what a client that looks at a number alone takes a run's end for: its exit code, or 125 if it has none
// because it never began or was lost, as the command line says; the compiler's exit code if that is why. It is meant for
// runs that have ended.
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

// Took is the time from a run's start to its end in milliseconds; false if it has not both.
func (r Run) Took() (ms int64, ok bool) {
	if r.StartedAt == nil || r.FinishedAt == nil {
		return 0, false
	}
	return r.FinishedAt.Sub(*r.StartedAt).Milliseconds(), true
}
