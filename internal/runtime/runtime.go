// Package runtime is the contract between the service and the isolation technologies below it: a runtime builds a jar,
// hands back byte streams to the agent inside, states what the jar used and why it died, and does nothing else. Exec,
// files and terminals are the agent's and written once.
//
// Implementations live in child packages and import only this one, the root package, agent/wire and linux/*. Every one
// of them passes runtimetest.
package runtime

import (
	"context"
	"net"
	"time"

	"github.com/belljar/belljar"
)

// Runtime is an isolation technology on this host. All methods are safe for concurrent use.
type Runtime interface {
	// Name is what a request calls it: native, docker, gvisor …
	Name() string
	// Probe finds out what this host can do, cheaply: it looks and builds nothing, so it can stand before every run. An
	// unusable host is no error: it is a Capabilities with Available false and reasons.
	Probe(ctx context.Context) (Capabilities, error)
	// Create builds a sandbox and returns when its agent can be dialled. The caller has stored Spec.ID before the
	// call, so that a crash leaves a name to clean up. A failure leaves nothing and is a [StepError] where a
	// step of the construction failed. ctx bounds the construction only.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
	// Attach finds a living detached sandbox again, after a restart of the daemon. [ErrNotFound] if there is none.
	Attach(ctx context.Context, id string) (Sandbox, error)
	// List names the sandboxes of this installation that exist in any state, also half-made ones, for reconciliation:
	// Attach or, failing that, Remove deals with each.
	List(ctx context.Context) ([]string, error)
	// Remove destroys whatever is left of id, alive or not. It is idempotent and returns when it is gone.
	Remove(ctx context.Context, id string) error
}

// Tester is a runtime that can prove what Probe reports, by building a sandbox and taking it down again. For doctor and
// the start of a daemon.
type Tester interface {
	Test(ctx context.Context) (Capabilities, error)
}

// Sandbox is one isolated instance. All methods are safe for concurrent use.
type Sandbox interface {
	ID() string
	// Dial opens a fresh stream to the agent. Many may be open at once. The caller closes it.
	Dial(ctx context.Context) (net.Conn, error)
	// Usage reads what the sandbox has used so far, with the source of each figure.
	Usage(ctx context.Context) (Usage, error)
	// Wait blocks until the sandbox is gone and states why. Many may wait; all get the same answer.
	Wait(ctx context.Context) (Exit, error)
	// Destroy kills everything inside and removes every trace from the host. It is idempotent, returns when the
	// sandbox is gone, and continues in spite of a cancelled ctx.
	Destroy(ctx context.Context) error
}

// Spec is a request for one sandbox. A limit in it that the runtime cannot enforce is refused by Create unless
// AllowWeak names it.
type Spec struct {
	ID        string // the service's name for it; [belljar.ValidID]
	Root      Root
	Limits    belljar.Limits
	Workspace Workspace
	Network   Network
	Lifetime  Lifetime
	// Lease is how long the agent lives without hearing from a host; 0 for ever. A creator's sandbox ends with its
	// process in any case.
	Lease time.Duration
	// Isolation is the class that the runtime said it is when it was chosen; where it has become weaker Create refuses. "" is any.
	Isolation Isolation
	// Require names the protections that Create must enforce or refuse; see [Protections].
	Require []string
	// Park is a command whose interpreter may be started before the sandbox has a caller; nil for none. Runtimes ignore it: a pool asks
	// the agent of a sandbox that it makes ahead.
	Park *Park
}

// Park is a command as an agent starts the interpreter of it, which then waits. It holds nothing of a caller.
type Park struct {
	Argv, Env []string
	Cwd       string
	UID, GID  int
	Rlimits   map[string]uint64
	Preload   []string // modules that Python imports while it waits
}

// Root is the read-only root file system of a sandbox: an image, ready on this host.
type Root struct {
	Ref    string   // as asked for: host, python:3.11-slim …
	Digest string   // sha256:…, "" when the image has none
	Dir    string   // folder with the unpacked image; "" for the host's own programs, and for an engine's image
	Env    []string // the image's environment
	// WorkingDir is where the image says that programs start, absolute; "" is the workspace. The service honours it.
	WorkingDir string
	// Lock is a file next to Dir on which each user of Dir holds a shared flock(2) for as long as the sandbox lives,
	// whatever becomes of the daemon: a descriptor that the sandbox's own process inherits. The image is removed under an
	// exclusive one only. "" for an image that is never removed. Once the lock is held, Dir may be gone: [ErrNoImage].
	Lock string
	// Name is what the runtime's own engine calls the image (see [Imager]); "" for all others.
	Name string
	// UID and GID are the user of programs and the owner of the workspace; 0 is 1000. A runtime may choose another one, if
	// it says that the agent's user is shared.
	UID, GID int
	// GoCache is a folder of the host with what Go's compiler needs for every program of this image, for the sandbox to
	// read; "" for none. A runtime with [Capabilities.GoCache] shows it at [GoCacheDir] where the workspace may execute,
	// below what the sandbox itself writes there.
	GoCache string
	// Layers are folders of the host that the sandbox sees read-only. A runtime without [Capabilities.Layers] refuses them.
	Layers []Layer
}

// Layer is a folder of the host, for a sandbox to read at its Path. Its files may be executed. Dir must stay as it is while the sandbox
// lives.
type Layer struct {
	Name string // a single part of a path
	Dir  string
}

// Path is where a sandbox has the layer: [LayersDir]/Name, or [SnapshotDir].
func (l Layer) Path() string {
	if l.Name == SnapshotLayer {
		return SnapshotDir
	}
	return LayersDir + "/" + l.Name
}

// Hidden are the folders of an image that are not shown because layers take their place, without the slash.
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

// SnapshotLayer is the name of a layer that is a saved workspace, and SnapshotDir where a sandbox has it.
const (
	SnapshotLayer = "snapshot"
	SnapshotDir   = "/snapshot"
)

// LayersDir is where a sandbox has its layers. An image's own folder of that name is not shown then.
const LayersDir = "/packages"

// GoCacheDir is where a sandbox has its Go build cache if it is given one.
const GoCacheDir = "/run/go-build"

// HostRef is the reference of the image that is the host's own /usr, read-only.
const HostRef = "host"

// Medium is what a workspace is made of.
type Medium string

// The media.
const (
	MediumMemory Medium = "memory" // tmpfs, gone with the sandbox
	MediumDisk   Medium = "disk"
)

// Workspace is the writable /workspace: a handle whose life need not be the sandbox's.
type Workspace struct {
	ID     string // "" for one that lives and dies with the sandbox
	Bytes  int64
	Inodes int64
	Exec   bool // programs in it may be executed
	Medium Medium
	Below  Below // what it begins with

	// Image is the file with the file system of a disk, and Lock a file on which the sandbox of a writer holds an exclusive flock(2) as
	// long as it lives; "" for a disk that no other sandbox can have.
	Image, Lock string
	ReadOnly    bool // of a disk
}

// Below is a folder of the host whose files a workspace begins with, without a copy. They belong to the image's user ([Root].UID) and must
// stay as they are while the sandbox lives. The zero value is none. A runtime with [Capabilities.Overlay] may still find, once, that it
// cannot do that over the folder's file system: [errors.ErrUnsupported]. It leaves nothing then.
type Below struct {
	Dir string `json:",omitempty"`
	// Bytes and Files are what the files take up. They count to the workspace's limits, of which they may be half.
	Bytes int64 `json:",omitempty"`
	Files int64 `json:",omitempty"`
}

// NetworkMode is how much network a sandbox has.
type NetworkMode string

// NetworkNone is a loopback of its own and nothing else: no route, no DNS.
const NetworkNone NetworkMode = "none"

// Network is a sandbox's network. The zero value means [NetworkNone].
type Network struct{ Mode NetworkMode }

// Lifetime is whose death ends a sandbox.
type Lifetime string

// The lifetimes.
const (
	LifetimeCreator  Lifetime = "creator"  // ends when the creating process ends, however it ends
	LifetimeDetached Lifetime = "detached" // survives it and can be attached to again
)

// Usage is what a sandbox has used since it was made. A nil figure has no honest source here.
type Usage struct {
	CPU        *time.Duration
	Memory     *int64 // bytes that programs hold now
	PeakMemory *int64 // bytes that they held at most
	Files      *int64 // bytes that files in memory hold now; nil where they are part of Memory
	PeakFiles  *int64
	// MemoryTotal is the limit in bytes where it is one for programs, files in memory and what the runtime needs itself; nil
	// where programs have their own.
	MemoryTotal *int64
	Pids        *int64
	PeakPids    *int64
	OOMKills    *int64 // processes that the kernel killed for lack of memory
	// LimitHits is how often the sandbox's own memory limit was reached. OOMKills without any are the node's: its sandboxes
	// together, or the host, had no memory left.
	LimitHits   *int64
	PidsRefused *int64            // forks that the pids limit refused
	Sources     map[string]string // cpu, memory, peak_memory, files, peak_files, pids, peak_pids → where it was read
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

// String is both, for people.
func (e Exit) String() string {
	if e.Detail == "" {
		return string(e.Reason)
	}
	return string(e.Reason) + ": " + e.Detail
}
