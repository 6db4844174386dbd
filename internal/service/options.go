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

// WarmOptions is whether and how interpreters wait for programs.
type WarmOptions = run.WarmOptions

// Options is what a service is made of. Runtimes, Store, Logs and Blobs are required and remain the caller's.
type Options struct {
	// Runtimes a request can name. The first is the default.
	Runtimes []runtime.Runtime
	// Store remembers runs, sessions, idempotency keys, usage and API keys.
	Store store.Store
	// Logs keeps the output of runs.
	Logs logbook.Book
	// Vault encrypts the secrets on record; nil has a key that ends with the process.
	Vault *vault.Vault
	// Blobs keeps the bytes of artifacts.
	Blobs blob.Store
	// Events receives what happens, for the audit trail and the metrics; nil discards it.
	Events event.Sink
	// Revoked gets the name, as [SignIns.KeyParent] makes it, of each API key and sign-in that was revoked or has expired, once it is not
	// valid; nil discards it.
	Revoked func(name string)
	// Images keeps images; nil knows the host's own programs only.
	Images image.Library
	// Egress is how sandboxes with a network resolve and connect; its zero value does as the system does. Count is the service's.
	Egress EgressOptions
	// GoCache is the folder with the Go build cache of an image, "" for none; nil knows none. wanted reports that a
	// sandbox is made to build Go programs.
	GoCache func(image runtime.Root, wanted bool) string
	// Packages is how the packages of requests are installed and kept.
	Packages PackageOptions
	// Warm is how interpreters wait for programs.
	Warm WarmOptions
	// Snapshots bounds saved workspaces.
	Snapshots SnapshotOptions
	// Volumes is workspaces on disk.
	Volumes VolumeOptions
	// ImageUnused is after how long an unused image is swept. Above ImageKeep bytes of images, the least recently used are swept. 0 is no
	// such bound.
	ImageUnused time.Duration
	ImageKeep   int64
	// Node distinguishes this daemon's runs from those of others on the same store.
	Node Node

	// Limits are those of a request without its own, MaxLimits the most that a request can set. A field left
	// zero is that of [belljar.DefaultLimits] and [belljar.MaxLimits].
	Limits, MaxLimits belljar.Limits
	// Policy is the rest of what the operator decides; the zero value is [DefaultPolicy].
	Policy Policy
	// Quota is what a user may have for whom none is stored. ArtifactMB 0 is that of the policy.
	Quota belljar.Quota
	// Require names the protections that every sandbox must have, or not be made; nil means [AllProtections]. A
	// request of an operator can do without some of them (allow_weak).
	Require []string
	// Lifetime of sandboxes; "" means creator: they end with this process, however it ends. Detached ones outlive it, and
	// [Service.Recover] of the next one finds them.
	Lifetime runtime.Lifetime
	// Lease is for how long a detached sandbox lives without hearing from us; 0 is 15 min, less than 0 for ever. It is the
	// longest that a restart may take, and the time after which nothing is left of a server that never comes back.
	Lease time.Duration
	// EndSessions has Close end the sessions, whatever the Lifetime.
	EndSessions bool

	// Concurrency is how many runs go at once (0 is 8, less than 0 no bound), QueueLength how many may wait for
	// that (0 is 100, less than 0 none) and QueueTTL for how long (0 is 120 s).
	Concurrency int
	QueueLength int
	QueueTTL    time.Duration
	// ApprovalTTL is how long a request waits for an operator (0 is 1 h). MaxUserApprovals is how many requests of one user may wait
	// (0 is 20), MaxApprovals how many in all (0 is 200).
	ApprovalTTL                    time.Duration
	MaxUserApprovals, MaxApprovals int
	// IdempotencyTTL is for how long an Idempotency-Key is remembered; 0 is 600 s.
	IdempotencyTTL time.Duration
	// Heartbeat is the time between two heartbeats in the log of a run; 0 is 10 s.
	Heartbeat time.Duration
	// RowDays is for how many days runs, sessions, API keys that have ended, and days' usage stay on record; 0 is 30. The bytes of runs go
	// after the policy's ArtifactTTLHours.
	RowDays int
	// SessionTTL is how long a session lives after its last use unless its request sets another (0 is 1 h), MaxSessionTTL the
	// most that a request can set (0 is 24 h).
	SessionTTL, MaxSessionTTL time.Duration
	// SessionLifetime is how long a session lives in all, used or not, unless its request sets another (0 is 24 h),
	// MaxSessionLifetime the most that a request can set (0 is 7 days).
	SessionLifetime, MaxSessionLifetime time.Duration
	// SessionRest is after how long without any sign of life a session hibernates; 0 is never.
	SessionRest time.Duration
	// SessionConcurrency is how many runs go at once in one session, at most and unless its request sets fewer; 0 is 16. They
	// are not counted among those of Concurrency.
	SessionConcurrency int
	// MemoryAdmission is by what sandboxes are admitted to the memory that they have together ([runtime.Bounded]); "" is
	// [admission.AdmitUsed]. MemoryOvercommit is how many times the bound the caps of all may be with [admission.AdmitCaps]; 0 is 1.
	MemoryAdmission  Admission
	MemoryOvercommit float64
	// UserRequests is how many bytes the requests of one user's runs under way may have together (0 is 128 MiB), AllRequests
	// those of all users (0 is 512 MiB). Short ones are not counted.
	UserRequests, AllRequests int64
	// ReapEvery is how often living sessions are looked after once [Service.Recover] was called; 0 is 30 s.
	ReapEvery time.Duration
	// DefaultImage is that of a session that is opened and names none; "" is host.
	DefaultImage string
	// MaxSessions is how many living sessions one user may have (0 is 100), MaxNodeSessions how many there may be here in
	// all (0 is 1,000); less than 0 is no bound.
	MaxSessions, MaxNodeSessions int
	// Uploads bound one upload into a session. Bytes left zero is the policy's MaxUploadMB, other fields those of
	// [archive.DefaultLimits].
	Uploads archive.Limits
	// TempDir is where an upload lies while it is checked; "" is the system's temporary folder.
	TempDir string
	// Stdin bounds the input of an interactive run unless its request sets others, MaxStdin what a request can set. A field left
	// zero is that of [stdin.DefaultLimits] and [stdin.MaxLimits].
	Stdin, MaxStdin stdin.Limits
	// Terminals bound those in sessions.
	Terminals terminal.Limits
	// Contexts bound those of one session.
	Contexts kernel.Limits
	// Ports bound the connections with programs in sessions.
	Ports port.Limits
	// FreeBytes returns the free space on the disk for data. Below MinFreeBytes new runs are refused. nil is no watermark.
	FreeBytes    func() (uint64, error)
	MinFreeBytes uint64
	// Slack is how much longer than its agent should take a command may last before the service destroys the sandbox; 0 is 30 s. An agent
	// takes up to 10 s for each of two steps of killing, and then reports what it could not kill: with less slack, a session is lost on a
	// slow machine.
	Slack time.Duration

	// Clock is the time; nil is the machine's.
	Clock Clock
	// Logger logs what no caller can see; nil is silent.
	Logger *slog.Logger
}

// EgressOptions is how sandboxes with a network reach it.
type EgressOptions = box.Egress

// PackageOptions are how packages are installed and kept. A zero field has its default.
type PackageOptions struct {
	Shelf *shelf.Shelf  // nil refuses packages
	TTL   time.Duration // for which versions that were found are taken again; 24 hours
	Time  time.Duration // of one installation; 5 minutes
	MB    int           // of one layer; 1024
}

// VolumeOptions are what workspaces on disk are made of. The zero value allows none.
type VolumeOptions struct {
	Dir    string                                       // has all of them
	MB     int                                          // of the largest
	Make   func(path string, bytes, inodes int64) error // makes an image
	Unable *runtime.Reason                              // why this host can make none; nil where it can
}

// TerminalOptions bound the terminals in sessions.
type TerminalOptions = terminal.Limits

// ContextLimits bound the contexts of one session.
type ContextLimits = kernel.Limits

// PortLimits bound the connections with programs in sessions.
type PortLimits = port.Limits

// Node is one daemon among those that share a store.
type Node struct {
	ID string // "" where there is only one
}

// complete checks the options and fills in what was left out.
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

// sessionsSurvive reports whether sessions outlive the process, with what runs in them.
func (o *Options) sessionsSurvive() bool {
	return o.Lifetime == runtime.LifetimeDetached && o.recordsSurvive() && !o.EndSessions
}
