package runtime

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// State is the stage of development of an implementation, apart from what the host allows.
type State string

// The implementation states.
const (
	StateSupported   State = "supported"
	StateHostGated   State = "host_gated" // built, but this host does not support it
	StateScaffold    State = "scaffold"
	StateUnsupported State = "unsupported"
)

// Isolation is the isolation class of a runtime, weakest first.
type Isolation string

// The isolation classes. IsolationNone is the test runtime's.
const (
	IsolationNone       Isolation = "none"
	IsolationNamespace  Isolation = "namespace"
	IsolationUserKernel Isolation = "user_space_kernel"
	IsolationMicroVM    Isolation = "microvm"
	IsolationRemote     Isolation = "remote"
)

// AtLeast reports whether i isolates at least as strongly as other. A remote sandbox is only as strong as itself, because
// the isolation of the remote host is unknown here.
func (i Isolation) AtLeast(other Isolation) bool {
	order := []Isolation{IsolationNone, IsolationNamespace, IsolationUserKernel, IsolationMicroVM}
	mine, least := slices.Index(order, i), slices.Index(order, other)
	return i == other || least >= 0 && mine >= least
}

// Protections that a request can require. The first group is never optional in any runtime that claims isolation; the
// second depends on cgroups.
const (
	ProtectFilesystem = "filesystem"
	ProtectNetwork    = "network"
	ProtectSeccomp    = "seccomp"
	ProtectIdentity   = "identity" // a host uid range of its own
	ProtectWallTime   = "wall_time"
	ProtectCPUTime    = "cpu_time" // of one command; cpu limits the speed instead
	ProtectPids       = "pids"
	ProtectMemory     = "memory"
	ProtectCPU        = "cpu"
	ProtectDisk       = "disk"
	ProtectLandlock   = "landlock"
)

// Protection is one protection or limit as this host can enforce it.
type Protection struct {
	Name     string `json:"name"`
	Enforced bool   `json:"enforced"`
	By       string `json:"by,omitempty"`     // the mechanism that enforces it here, e.g. "cgroup2 memory.max"; if not Enforced, its stand-in
	Weaker   string `json:"weaker,omitempty"` // how it is weaker than this runtime's best
	Hint     string `json:"hint,omitempty"`   // how to fix it
}

// ByRlimitData means that the memory of each process is limited, not that of all processes together. The agent sets the
// limit before a program starts. It does not bound a sandbox, so the protection is not Enforced.
const ByRlimitData = "RLIMIT_DATA of each process"

// Reason states why something is not available, as text for people and as a normalised code for programs.
type Reason struct {
	Code   string `json:"code"` // host_prerequisite_missing, host_permission_denied, unsupported_os …
	Step   string `json:"step,omitempty"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// Capabilities separates the features of the code from those that this host allows.
type Capabilities struct {
	Available   bool         `json:"available"`
	State       State        `json:"implementation_state"`
	Reasons     []Reason     `json:"reasons,omitempty"`
	Isolation   Isolation    `json:"isolation"`
	Version     string       `json:"version,omitempty"`
	Rootless    bool         `json:"rootless,omitempty"`
	OOMScope    string       `json:"oom_scope,omitempty"` // process: only the process that exceeds the limit dies; sandbox: all of the sandbox dies
	AgentUID    string       `json:"agent_uid"`           // separate | shared
	Protections []Protection `json:"protections"`
	Snapshots   bool         `json:"snapshots,omitempty"`
	Pause       bool         `json:"pause,omitempty"`
	// HostImage means that the image "host" can be used. Unpacked means that images that Belljar has unpacked can be used.
	HostImage bool `json:"host_image,omitempty"`
	Unpacked  bool `json:"unpacked_images,omitempty"`
	// GoCache means that sandboxes are given the Go build cache of their image ([Root].GoCache).
	GoCache bool `json:"-"`
	// Overlay means that workspaces can begin with the files of a folder ([Workspace].Below).
	Overlay bool `json:"-"`
	// Layers means that sandboxes are given the layers of their root ([Root].Layers). NoLayers is why not, if the host decides that.
	Layers   bool   `json:"-"`
	NoLayers Reason `json:"-"`
	// SharedTmp means that /tmp and the workspace share one size, and that programs can run in /tmp if they can run in the
	// workspace.
	SharedTmp bool `json:"-"`
	// Disk means that a workspace can be on disk ([MediumDisk]); NoDisk is why not.
	Disk   bool   `json:"-"`
	NoDisk Reason `json:"-"`
	// NoShare is why a disk cannot be read-only while another sandbox writes to it; zero if it can.
	NoShare Reason `json:"-"`
	// LimitMemory means that sandboxes are a [MemoryLimiter].
	LimitMemory bool `json:"-"`
	// Relay means that the agent has a relay, through which a host can let programs reach chosen hosts.
	Relay bool `json:"relay,omitempty"`
	// OCIRuntime is the program that an engine uses for isolation: runc, runsc, kata …
	OCIRuntime string `json:"oci_runtime,omitempty"`
	// Start is the approximate duration of a cold start. Among suitable runtimes, the fastest is chosen.
	Start time.Duration `json:"-"`
}

// Refuse marks the runtime as unavailable and adds a reason.
func (c *Capabilities) Refuse(why Reason) {
	c.Available, c.State = false, StateHostGated
	c.Reasons = append(c.Reasons, why)
}

// Protection returns the named protection. If the runtime does not know the name, the protection is not Enforced.
func (c Capabilities) Protection(name string) Protection {
	for _, p := range c.Protections {
		if p.Name == name {
			return p
		}
	}
	return Protection{Name: name}
}

// ErrNotFound means that the runtime has no living sandbox of that name.
var ErrNotFound = errors.New("sandbox not found")

// ErrGone means that a sandbox has ended.
var ErrGone = errors.New("sandbox is gone")

// ErrInUse means that another sandbox writes to the disk of a workspace.
var ErrInUse = errors.New("another sandbox writes to the disk")

// ErrMemoryHeld means that programs hold more memory than their new limit.
var ErrMemoryHeld = errors.New("programs hold more memory")

// ErrNoImage means that an image is missing: it never existed or was removed.
var ErrNoImage = errors.New("there is no such image")

// StepError states which step of building a sandbox failed.
type StepError struct {
	Step string // userns, mount, pivot_root, seccomp, cgroup …
	Err  error
	Hint string
}

// FailedStep returns the error of a failed step, with a hint, "" if there is none. Any step can fail because this process, or the host, has too
// many open files: then the hint is about these.
func FailedStep(step string, err error, hint string) *StepError {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		hint = "raise the limit of open files (ulimit -n)"
	}
	return &StepError{Step: step, Err: err, Hint: hint}
}

func (e *StepError) Error() string { return fmt.Sprintf("%s: %v", e.Step, e.Err) }

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// WallTime is the protection of runs by a time limit, which is the same on every runtime.
func WallTime() Protection {
	return Protection{Name: ProtectWallTime, Enforced: true, By: "timers in the agent and in the service"}
}

// MemoryDisk is the protection of a disk by keeping files in memory.
func MemoryDisk() Protection {
	return Protection{Name: ProtectDisk, Enforced: true, By: "memory file systems with size and inode caps"}
}
