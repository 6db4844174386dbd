package service

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/archive"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/runtime"
	vault "github.com/belljar/belljar/internal/secret"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/kernel"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/port"
	"github.com/belljar/belljar/internal/service/run"
	"github.com/belljar/belljar/internal/service/stdin"
	"github.com/belljar/belljar/internal/service/terminal"
	"github.com/belljar/belljar/internal/shelf"
	"github.com/belljar/belljar/internal/store"
)

// WarmOptions configures interpreters that wait for programs.
type WarmOptions = run.WarmOptions

// Options configures a service. Runtimes, Store, Logs and Blobs are required, and the caller stays their owner.
type Options struct {
	// Runtimes a request can name. The first is the default.
	Runtimes []runtime.Runtime
	// Store records runs, sessions, idempotency keys, usage and API keys.
	Store store.Store
	// Logs keeps the output of runs.
	Logs logbook.Book
	// Vault encrypts the stored secrets; nil uses a key that ends with the process.
	Vault *vault.Vault
	// Blobs keeps the bytes of artifacts.
	Blobs blob.Store
	// Events receives all events, for the audit trail and the metrics; nil discards them.
	Events event.Sink
	// Revoked gets the name, as [SignIns.KeyParent] makes it, of each API key and sign-in that was revoked or has expired, once it is not
	// valid; nil discards it.
	Revoked func(name string)
	// Images stores images; nil supports only the host image.
	Images image.Library
	// Egress configures how sandboxes with a network resolve and connect; its zero value uses the system's defaults. The service sets Count.
	Egress EgressOptions
	// GoCache returns the folder with the Go build cache for an image, "" for none; nil means no cache. wanted reports that the user's
	// sandbox is made to build Go programs.
	GoCache func(image runtime.Root, user string, wanted bool) string
	// Packages configures how packages are installed and cached.
	Packages PackageOptions
	// Warm configures interpreters that wait for programs.
	Warm WarmOptions
	// Snapshots bounds saved workspaces.
	Snapshots SnapshotOptions
	// Volumes configures workspaces on disk.
	Volumes VolumeOptions
	// ImageUnused removes images not used for this long. Above ImageKeep bytes of images, the least recently used are removed. 0 disables each.
	ImageUnused time.Duration
	ImageKeep   int64
	// Node distinguishes this server's runs from those of other servers on the same store.
	Node Node

	// Limits are the defaults of a request, MaxLimits its maximum. A zero field has the value of [belljar.DefaultLimits] and [belljar.MaxLimits].
	Limits, MaxLimits belljar.Limits
	// Policy is the rest of the operator's policy; the zero value is [DefaultPolicy].
	Policy Policy
	// Quota is the default quota of a user. ArtifactMB 0 uses the policy's value.
	Quota belljar.Quota
	// Require names the protections without which no sandbox is made; nil means [AllProtections]. An operator's request can waive some of them (allow_weak).
	Require []string
	// Lifetime of sandboxes; "" means creator: they end with this process, however it ends. Detached sandboxes outlive it, and
	// [Service.Recover] of the next process finds them.
	Lifetime runtime.Lifetime
	// Lease is how long a detached sandbox lives without contact to the server; 0 is 15 min, less than 0 is forever. It bounds the
	// duration of a restart. If the server never returns, all its sandboxes are gone after this time.
	Lease time.Duration
	// EndSessions makes Close end the sessions, whatever the Lifetime.
	EndSessions bool

	// Concurrency is how many runs execute at the same time (0 is 8, less than 0 no bound), QueueLength how many may wait (0 is 100, less
	// than 0 none) and QueueTTL for how long (0 is 120 s).
	Concurrency int
	QueueLength int
	QueueTTL    time.Duration
	// ApprovalTTL is how long a request waits for an operator (0 is 1 h). MaxUserApprovals is how many requests of one user may wait
	// (0 is 20), MaxApprovals how many in all (0 is 200).
	ApprovalTTL                    time.Duration
	MaxUserApprovals, MaxApprovals int
	// IdempotencyTTL is how long an Idempotency-Key is remembered; 0 is 600 s.
	IdempotencyTTL time.Duration
	// Heartbeat is the interval of heartbeats in the log of a run; 0 is 10 s.
	Heartbeat time.Duration
	// RowDays is for how many days runs, sessions, API keys that have ended, and days' usage stay on record; 0 is 30. The bytes of runs go
	// after the policy's ArtifactTTLHours.
	RowDays int
	// Keep, if set, is how long ended runs and sessions stay on record, with their bytes, instead of RowDays and ArtifactTTLHours: for a
	// service with its records in memory. Sweeps are at least that frequent.
	Keep time.Duration
	// SessionTTL is how long a session lives after its last use by default (0 is 1 h), MaxSessionTTL the maximum that a request can set (0 is 24 h).
	SessionTTL, MaxSessionTTL time.Duration
	// SessionLifetime is the total life of a session, used or not, by default (0 is 24 h), MaxSessionLifetime the maximum that a request can set (0 is 7
	// days).
	SessionLifetime, MaxSessionLifetime time.Duration
	// SessionRest is the idle time after which a session hibernates; 0 is never.
	SessionRest time.Duration
	// SessionConcurrency is how many runs execute at the same time in one session, as the default and the maximum; 0 is 16. They do not
	// count towards Concurrency.
	SessionConcurrency int
	// MemoryAdmission is the rule by which sandboxes are admitted to their shared memory ([runtime.Bounded]); "" is [admission.AdmitUsed].
	// MemoryOvercommit is the ratio of all caps to the bound that [admission.AdmitCaps] permits; 0 is 1.
	MemoryAdmission  Admission
	MemoryOvercommit float64
	// NodeMemory is the bound in bytes for [admission.AdmitCaps] if no runtime enforces one; 0 is no bound.
	NodeMemory int64
	// UserRequests is the most bytes of one user's requests for unfinished runs (0 is 128 MiB), AllRequests those of all users (0 is 512
	// MiB). Small requests do not count.
	UserRequests, AllRequests int64
	// ReapEvery is the interval of [Service.Reap] after [Service.Recover] was called; 0 is 30 s.
	ReapEvery time.Duration
	// DefaultImage is the image of a session that is opened without one; "" is host.
	DefaultImage string
	// MaxSessions is how many live sessions one user may have (0 is 100), MaxNodeSessions how many this node may have (0 is 1,000); less than 0 is no bound.
	MaxSessions, MaxNodeSessions int
	// Uploads bounds one upload into a session. Zero Bytes is the policy's MaxUploadMB; other zero fields have the values of [archive.DefaultLimits].
	Uploads archive.Limits
	// TempDir holds an upload while it is checked; "" is the system's temporary folder.
	TempDir string
	// Stdin bounds the input of an interactive run by default, MaxStdin is the maximum that a request can set. A zero field has the value
	// of [stdin.DefaultLimits] and [stdin.MaxLimits].
	Stdin, MaxStdin stdin.Limits
	// Terminals bounds the terminals in sessions.
	Terminals terminal.Limits
	// Contexts bounds the contexts of one session.
	Contexts kernel.Limits
	// Ports bounds the connections to programs in sessions.
	Ports port.Limits
	// FreeBytes returns the free space on the data disk. Below MinFreeBytes new runs are refused. nil disables the check.
	FreeBytes    func() (uint64, error)
	MinFreeBytes uint64
	// FreeFiles returns how many files that disk still has room for, and its total number; 0 if it does not count them. While fewer than one in
	// [admission.FilesKept] are free, new runs are refused. nil disables the check.
	FreeFiles func() (free, all uint64, err error)
	// Slack is how much longer than its agent's deadline a command may last before the service destroys the sandbox; 0 is 30 s. An agent needs up
	// to 10 s for each of two kill steps, and then reports the processes that survived. With less slack, a slow machine would lose the session.
	Slack time.Duration

	// Clock is the time source; nil is the machine's clock.
	Clock Clock
	// Logger logs errors that no caller sees; nil is silent.
	Logger *slog.Logger
}

// EgressOptions configures how sandboxes reach the network.
type EgressOptions = box.Egress

// PackageOptions configures how packages are installed and cached. A zero field has its default.
type PackageOptions struct {
	Shelf *shelf.Shelf  // nil refuses packages
	TTL   time.Duration // how long resolved versions are reused; 24 hours
	Time  time.Duration // timeout of one installation; 5 minutes
	MB    int           // size of one layer; 1024
}

// VolumeOptions configures workspaces on disk. The zero value permits none.
type VolumeOptions struct {
	Dir    string                                       // holds all of them
	MB     int                                          // maximum size of one
	Make   func(path string, bytes, inodes int64) error // makes an image
	Unable *runtime.Reason                              // why this host cannot make any; nil if it can
}

// TerminalOptions bounds the terminals in sessions.
type TerminalOptions = terminal.Limits

// ContextLimits bounds the contexts of one session.
type ContextLimits = kernel.Limits

// PortLimits bounds the connections to programs in sessions.
type PortLimits = port.Limits

// Node is one server among those that share a store.
type Node struct {
	ID string // "" if there is only one
}

// complete checks the options and fills in defaults.
func (o Options) complete() (Options, error) {
	switch {
	case len(o.Runtimes) == 0:
		return o, errors.New("service: no runtime")
	case o.Store == nil:
		return o, errors.New("service: no store")
	case o.Logs == nil:
		return o, errors.New("service: no logbook")
	case o.Blobs == nil:
		return o, errors.New("service: no blob store")
	}
	seen := map[string]bool{}
	for _, rt := range o.Runtimes {
		if seen[rt.Name()] {
			return o, fmt.Errorf("service: two runtimes are called %s", rt.Name())
		}
		seen[rt.Name()] = true
	}
	if o.Images == nil {
		o.Images = &image.Store{}
	}
	if o.Events == nil {
		o.Events = event.Sinks(nil)
	}
	if o.Require == nil {
		o.Require = AllProtections()
	}
	if o.Vault == nil {
		o.Vault = vault.Temporary()
	}
	if o.Clock == nil {
		o.Clock = clock.Wall{}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Lifetime = cmp.Or(o.Lifetime, runtime.LifetimeCreator)
	o.Lease = cmp.Or(o.Lease, 15*time.Minute)
	if o.Lifetime != runtime.LifetimeDetached {
		o.Lease = 0
	}
	o.Lease = max(o.Lease, 0)
	o.Concurrency = cmp.Or(o.Concurrency, 8)
	o.MemoryAdmission = cmp.Or(o.MemoryAdmission, admission.AdmitUsed)
	o.MemoryOvercommit = cmp.Or(o.MemoryOvercommit, 1)
	o.UserRequests = cmp.Or(o.UserRequests, 128<<20)
	o.AllRequests = cmp.Or(o.AllRequests, 512<<20)
	o.QueueLength = cmp.Or(o.QueueLength, 100)
	o.QueueTTL = cmp.Or(o.QueueTTL, 120*time.Second)
	o.ApprovalTTL = cmp.Or(o.ApprovalTTL, time.Hour)
	o.MaxUserApprovals = cmp.Or(o.MaxUserApprovals, 20)
	o.MaxApprovals = cmp.Or(o.MaxApprovals, 200)
	o.IdempotencyTTL = cmp.Or(o.IdempotencyTTL, 600*time.Second)
	o.Heartbeat = cmp.Or(o.Heartbeat, 10*time.Second)
	o.RowDays = cmp.Or(o.RowDays, 30)
	o.Slack = cmp.Or(o.Slack, 30*time.Second)
	o.Concurrency, o.QueueLength = max(o.Concurrency, 0), max(o.QueueLength, 0)
	o.Limits = placement.WithDefaults(o.Limits, belljar.DefaultLimits())
	o.MaxLimits = placement.WithDefaults(o.MaxLimits, belljar.MaxLimits())
	if o.Policy.IsZero() {
		o.Policy = DefaultPolicy()
	}
	o.Quota.ArtifactMB = cmp.Or(o.Quota.ArtifactMB, o.Policy.MaxArtifactsPerUserMB)
	o.completeSessions()
	o.Terminals.Complete()
	o.Snapshots.Complete()
	o.Packages.TTL = cmp.Or(o.Packages.TTL, 24*time.Hour)
	o.Packages.Time = cmp.Or(o.Packages.Time, 5*time.Minute)
	o.Packages.MB = cmp.Or(o.Packages.MB, 1024)
	o.Policy = o.Policy.Effective(admission.Effect{
		DefaultRuntime: o.Runtimes[0].Name(), Limits: o.Limits, MaxLimits: o.MaxLimits, ArtifactMB: o.Quota.ArtifactMB, Require: o.Require, Uploads: o.Uploads,
	})
	return o, nil
}

// recordsSurvive reports whether what is on record outlives the process.
func (o *Options) recordsSurvive() bool { return o.Store.Mode() != "memory" }

// sessionsSurvive reports whether sessions and their processes outlive the process.
func (o *Options) sessionsSurvive() bool {
	return o.Lifetime == runtime.LifetimeDetached && o.recordsSurvive() && !o.EndSessions
}
