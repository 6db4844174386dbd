// Package runtime is the contract between the service and the isolation technologies below it: a runtime builds a jar, returns byte
// streams to the agent inside, reports the jar's usage and why it died, and does nothing else. The agent implements exec, files and
// terminals, once for all runtimes.
//
// Implementations live in child packages and import only this one, the root package, agent/wire, keylock and linux/*. Every one of them passes
// runtimetest.
package runtime

import (
	"context"
	"net"
	"time"

	"github.com/belljar/belljar"
)

// Runtime is an isolation technology on this host. All methods are safe for concurrent use.
type Runtime interface {
	// Name is the runtime's name in requests: native, docker, gvisor …
	Name() string
	// Probe finds out what this host supports. It is cheap enough to precede every run: it looks and builds nothing. An unusable host is
	// not an error, but a Capabilities with Available false and reasons.
	Probe(ctx context.Context) (Capabilities, error)
	// Create builds a sandbox and returns when its agent can be dialled. The caller must store Spec.ID before the call, so that a crash
	// leaves a name to clean up. After a failure nothing is left. If a step of the construction failed, the error is a [StepError]. ctx
	// bounds the construction only.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
	// Attach finds a living detached sandbox again, after a restart of the daemon. [ErrNotFound] if there is none.
	Attach(ctx context.Context, id string) (Sandbox, error)
	// List returns the names of this installation's sandboxes in any state, also half-made ones, for reconciliation: Attach or, if that
	// fails, Remove each.
	List(ctx context.Context) ([]string, error)
	// Remove destroys all remains of id, alive or not. It is idempotent and returns when they are gone.
	Remove(ctx context.Context, id string) error
}

// Tester is a runtime that can prove what Probe reports, by building a sandbox and destroying it. Doctor and a starting daemon use it.
type Tester interface {
	Test(ctx context.Context) (Capabilities, error)
}

// Sandbox is one isolated instance. All methods are safe for concurrent use.
type Sandbox interface {
	ID() string
	// Dial opens a new stream to the agent. Many may be open at the same time. The caller closes it.
	Dial(ctx context.Context) (net.Conn, error)
	// Usage returns the sandbox's usage so far, with the source of each figure. If the counters have ended with the sandbox, it returns
	// ErrGone with the earlier figures that still hold, without the CPU time.
	Usage(ctx context.Context) (Usage, error)
	// Wait blocks until the sandbox is gone and returns the reason. Any number of callers may wait; all get the same answer.
	Wait(ctx context.Context) (Exit, error)
	// Destroy kills everything inside and removes every trace from the host. It is idempotent, returns when the
	// sandbox is gone, and continues in spite of a cancelled ctx.
	Destroy(ctx context.Context) error
}

// Spec is a request for one sandbox. Create refuses a limit that the runtime cannot enforce, unless AllowWeak names it.
type Spec struct {
	ID        string // the service's name for the sandbox; [belljar.ValidID]
	Root      Root
	Limits    belljar.Limits
	Workspace Workspace
	Network   Network
	Lifetime  Lifetime
	// Lease is how long the agent lives without a request from a host; 0 for ever. A creator's sandbox ends with its process in any case.
	Lease time.Duration
	// Isolation is the class that the runtime reported when it was chosen. If the runtime has become weaker, Create refuses. "" is any.
	Isolation Isolation
	// Require lists the protections without which Create must refuse; see [Protections].
	Require []string
	// Park is a command whose interpreter may be started before the sandbox has a caller; nil for none. Runtimes ignore it. A pool sends
	// it to the agent of a sandbox that it makes in advance.
	Park *Park
}

// Park describes how an agent starts the interpreter of a command, which then waits. It contains no data of a caller.
type Park struct {
	Argv, Env []string
	Cwd       string
	UID, GID  int
	Rlimits   map[string]uint64
	Preload   []string // modules for Python to import while it waits
}

// Root is the read-only root file system of a sandbox: an image, ready on this host.
type Root struct {
	Ref    string   // as requested: host, python:3.11-slim …
	Digest string   // sha256:…; "" if the image has none
	Dir    string   // folder of the unpacked image; "" for the host's own programs, and for an engine's image
	Env    []string // the image's environment
	// WorkingDir is the image's working folder for programs, absolute; "" is the workspace. The service honours it.
	WorkingDir string
	// Lock is a file next to Dir on which each user of Dir holds a shared flock(2) while the sandbox lives, even without a daemon: the
	// sandbox's own process inherits the descriptor. Removing the image takes an exclusive lock. "" is an image that is never removed.
	// Once the lock is held, Dir may be gone: [ErrNoImage].
	Lock string
	// Name is the image's name in the runtime's own engine (see [Imager]); "" for all others.
	Name string
	// UID and GID are the user of programs and the owner of the workspace; 0 is 1000. A runtime may choose another user, if it reports
	// that the agent's user is shared.
	UID, GID int
	// GoCache is a folder of the host with the compiled packages that Go needs for every program of this image; "" for none. A runtime
	// with [Capabilities.GoCache] mounts it at [GoCacheDir] if programs can be executed in the workspace, below the sandbox's own writes.
	GoCache string
	// Layers are folders of the host that the sandbox can read. A runtime without [Capabilities.Layers] refuses them.
	Layers []Layer
}

// Layer is a folder of the host that a sandbox can read, and execute, at its Path. Dir must not change while the sandbox lives.
type Layer struct {
	Name string // one part of a path
	Dir  string
}

// Path is the layer's place in a sandbox: [LayersDir]/Name, or [SnapshotDir].
func (l Layer) Path() string {
	if l.Name == SnapshotLayer {
		return SnapshotDir
	}
	return LayersDir + "/" + l.Name
}

// Hidden returns the top folders of an image that layers replace, without the slash.
func Hidden(layers []Layer) (names []string) {
	for _, l := range layers {
		name := LayersDir
		if l.Name == SnapshotLayer {
			name = SnapshotDir
		}
		names = append(names, name[1:])
	}
	return names
}

// SnapshotLayer is the name of a layer that is a saved workspace, and SnapshotDir its place in a sandbox.
const (
	SnapshotLayer = "snapshot"
	SnapshotDir   = "/snapshot"
)

// LayersDir is the place of the layers in a sandbox. If there are any, it hides an image's own folder of that name.
const LayersDir = "/packages"

// GoCacheDir is the place of the Go build cache in a sandbox, if it gets one.
const GoCacheDir = "/run/go-build"

// HostRef is the reference of the image that is the host's own /usr, read-only.
const HostRef = "host"

// Medium is the storage of a workspace.
type Medium string

// The media.
const (
	MediumMemory Medium = "memory" // tmpfs, removed with the sandbox
	MediumDisk   Medium = "disk"
)

// Workspace is the writable /workspace. It may outlive the sandbox.
type Workspace struct {
	ID     string // "" for one that ends with the sandbox
	Bytes  int64
	Inodes int64
	Exec   bool // programs in it may be executed
	Medium Medium
	Below  Below // files that it begins with

	// Image is the file with the file system of a disk. Lock is a file on which a writer's sandbox holds an exclusive flock(2) while it
	// lives; "" for a disk that no other sandbox can have.
	Image, Lock string
	ReadOnly    bool // for a disk
}

// Flushes reports whether programs may flush the workspace: it is on a disk, to which they can write.
func (w Workspace) Flushes() bool { return w.Medium == MediumDisk && !w.ReadOnly }

// Below is a folder of the host whose files a workspace begins with, without a copy. They belong to the image's user ([Root].UID) and must
// not change while the sandbox lives. The zero value is none. A runtime with [Capabilities.Overlay] may still find, once, that it cannot
// do that over the folder's file system. Create then fails with [errors.ErrUnsupported], and leaves nothing.
type Below struct {
	Dir string `json:",omitempty"`
	// Bytes and Files are the size of these files. They count toward the workspace's limits, and may be at most half of them.
	Bytes int64 `json:",omitempty"`
	Files int64 `json:",omitempty"`
}

// NetworkMode is how much network a sandbox has.
type NetworkMode string

// NetworkNone is a loopback only: no route, no DNS.
const NetworkNone NetworkMode = "none"

// Network is a sandbox's network. The zero value means [NetworkNone].
type Network struct{ Mode NetworkMode }

// Lifetime states which process's death ends a sandbox.
type Lifetime string

// The lifetimes.
const (
	LifetimeCreator  Lifetime = "creator"  // ends when the creating process ends, however it ends
	LifetimeDetached Lifetime = "detached" // survives its creator and can be attached to again
)

// Usage is a sandbox's usage since it was made. A figure is nil if there is no reliable source for it.
type Usage struct {
	CPU        *time.Duration
	Memory     *int64 // bytes that programs hold now
	PeakMemory *int64 // highest number of bytes that programs held
	Files      *int64 // bytes that files in memory hold now; nil if Memory includes them
	PeakFiles  *int64
	// MemoryTotal is the limit in bytes, if it covers programs, files in memory and the runtime's own needs together; nil if programs have
	// their own limit.
	MemoryTotal *int64
	Pids        *int64
	PeakPids    *int64
	OOMKills    *int64 // processes that the kernel killed for lack of memory
	// LimitHits is how often the sandbox's own memory limit was reached. OOMKills without any are due to the node: its sandboxes together,
	// or the host, had no memory left.
	LimitHits   *int64
	PidsRefused *int64            // forks that the pids limit refused
	PidsBelow   bool              // the sandbox never reached that limit: the host, or its sandboxes together, had no more processes
	Sources     map[string]string // cpu, memory, peak_memory, files, peak_files, pids, peak_pids → the source of the figure
}

// ExitReason states why a sandbox is gone.
type ExitReason string

// The exit reasons.
const (
	ExitDestroyed  ExitReason = "destroyed"   // Destroy was called
	ExitOOM        ExitReason = "oom"         // its agent was killed for lack of memory
	ExitKilled     ExitReason = "killed"      // its agent was killed by a signal from outside
	ExitAgent      ExitReason = "agent_exit"  // its agent ended: lease over, creator gone, or a fault
	ExitEngineGone ExitReason = "engine_gone" // the engine under the runtime is gone
)

// Exit is how a sandbox ended.
type Exit struct {
	Reason ExitReason
	Detail string // for the log: signal or status of the agent
}

// String returns reason and detail, for people.
func (e Exit) String() string {
	if e.Detail == "" {
		return string(e.Reason)
	}
	return string(e.Reason) + ": " + e.Detail
}
