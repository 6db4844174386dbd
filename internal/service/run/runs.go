// Package run manages the runs of a service, from a request to a recorded result.
//
// A request is admitted as a plan (admit.go) and starts as a run, or waits in the queue (start.go, queue.go). The run gets a sandbox
// (provision.go) and is executed there (execute.go, follow.go): its output goes into its log (transcript.go), its files into the blob
// store (capture.go). Package outcome alone derives the outcome, which record.go records. After a restart the next process recovers the
// run (recover.go, reattach_run.go). Expired data is swept (sweep.go).
//
// The package does not decide which callers may see a run: the service above it does.
package run

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/approval"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/git"
	"github.com/belljar/belljar/internal/service/idempotency"
	"github.com/belljar/belljar/internal/service/install"
	"github.com/belljar/belljar/internal/service/lifecycle"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/service/retry"
	"github.com/belljar/belljar/internal/service/secret"
	"github.com/belljar/belljar/internal/service/session"
	"github.com/belljar/belljar/internal/service/snapshot"
	"github.com/belljar/belljar/internal/service/stdin"
	"github.com/belljar/belljar/internal/service/template"
	"github.com/belljar/belljar/internal/store"
)

// Options configures [Runs].
type Options struct {
	Store    store.Runs
	Logs     logbook.Book
	Blobs    blob.Store
	Rules    *admission.Rules
	Accounts *admission.Accounts
	Budget   *admission.Budget
	Memory   *admission.Memory
	Desk     *approval.Desk
	Boxes    *box.Maker
	Cloner   *git.Cloner
	Packages *install.Installer
	// Snapshots are the snapshots that runs read. Their bytes are in the blob store, too.
	Snapshots *snapshot.Snapshots
	Templates *template.Templates
	Keys      *idempotency.Keys
	Secrets   *secret.Secrets

	// UseSession returns a live session that the caller may see, Session any live one, or nil.
	UseSession func(caller belljar.Caller, id string) (*session.Session, error)
	Session    func(id string) *session.Session

	PolicyHash      string
	NodeID          string       // this server among those on the same store
	Stdin, MaxStdin stdin.Limits // of an interactive run: the default and the maximum
	// Queue is the queue of runs in sandboxes of their own. A run waits in it for at most QueueTTL. QueueLength is the length that errors report.
	Queue       *queue.Queue
	QueueLength int
	QueueTTL    time.Duration
	Heartbeat   time.Duration // interval of heartbeats in the log of a run
	Slack       time.Duration // how much longer than its agent's deadline a command may last
	Lease       time.Duration // lease of a sandbox

	// Warm configures interpreters that wait for programs.
	Warm WarmOptions

	RecordsSurvive  bool // records outlive the process
	SessionsSurvive bool // sessions and their processes outlive the process
	// Closed ends when the service has closed.
	Closed context.Context
	// Record records an event and fills in its component and, if it has none, its time.
	Record func(event.Event)
	Retry  *retry.Writer
	Work   *lifecycle.Group
	Clock  clock.Clock
	Log    *slog.Logger
}

// Runs manages the runs of a service. Ended runs are on record. Live ones are also in memory, where their state is more recent.
type Runs struct {
	runner   *runner
	opts     Options
	admitter *admitter

	mu   sync.Mutex
	runs map[string]*Run // live runs

	sweeping sync.Mutex               // held during a sweep, and guards stuck and orphans
	orphans  time.Time                // time of the last sweep of orphaned bytes
	stuck    map[bool]map[string]bool // ids at which a sweep, of bytes or of records, was stuck; the next sweep continues after them
}

// New returns Runs with these options.
func New(o Options) *Runs {
	s := &Runs{opts: o, runs: map[string]*Run{}, stuck: map[bool]map[string]bool{true: {}, false: {}}}
	s.runner = &runner{
		recorder: &recorder{
			store: o.Store, logs: o.Logs, record: o.Record, clock: o.Clock, log: o.Log, node: o.NodeID, heartbeat: o.Heartbeat,
			work: o.Work, retry: o.Retry, unregister: s.unregister,
		},
		boxes: o.Boxes, cloner: o.Cloner, installer: o.Packages, snapshots: o.Snapshots, templates: o.Templates, closed: o.Closed, memory: o.Memory, accounts: o.Accounts, blobs: o.Blobs, rules: o.Rules,
		slack: o.Slack, lease: o.Lease, queueTTL: o.QueueTTL, queues: o.QueueLength > 0, recordsSurvive: o.RecordsSurvive, sessionsSurvive: o.SessionsSurvive,
	}
	s.admitter = &admitter{rules: o.Rules, secrets: o.Secrets, useSession: o.UseSession, snapshots: o.Snapshots, templates: o.Templates, stdin: o.Stdin, maxStdin: o.MaxStdin, warm: o.Warm}
	return s
}

// register adds a live run. Each registered run is unregistered later.
func (s *Runs) register(r *Run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.runner.work.Enter() {
		return fault.ShuttingDown()
	}
	s.runs[r.id] = r
	return nil
}

// unregister removes a live run. It has ended, and its end is on record.
func (s *Runs) unregister(r *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, r.id)
}

// Get returns the live run with an id, or nil.
func (s *Runs) Get(id string) *Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[id]
}

// all returns the live runs.
func (s *Runs) all() []*Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.runs))
}

// Find returns a live run, or else the record of a run.
func (s *Runs) Find(ctx context.Context, id string) (*Run, store.Run, error) {
	if r := s.Get(id); r != nil {
		return r, store.Run{}, nil
	}
	row, err := s.runner.store.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, row, NotFound(id)
	case err != nil:
		return nil, row, fault.Record("read the record of run "+id, err)
	}
	return nil, row, nil
}

// WithImage returns the ids of the live runs whose own sandboxes use an image.
func (s *Runs) WithImage(digest string) []string {
	var ids []string
	for _, r := range s.all() {
		if state := r.Snapshot(); state.ImageDigest == digest && state.SessionID == "" {
			ids = append(ids, r.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Flush records the current phases of runs, so that lists show them. It waits briefly for drafts that have just ended.
func (s *Runs) Flush(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, recordDelay)
	defer stop()
	for _, r := range s.all() {
		if err := s.runner.flush(r, true); errors.Is(err, errDraft) {
			select {
			case <-r.done:
			case <-ctx.Done():
			}
		}
	}
}

// Refuse starts no more runs, cancels those in the queue (the next process continues them, if their records survive), and returns those
// to wait for: all others that end with this process.
func (s *Runs) Refuse() (under []*Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runner.work.Refuse()
	for _, r := range s.runs {
		if !r.stopQueued() && (!s.runner.sessionsSurvive || !r.inSession()) {
			under = append(under, r)
		}
	}
	return under
}

// Stop starts no more runs, and stops live ones or detaches those that can outlive the process.
func (s *Runs) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runner.work.Refuse() // under the lock, so that no run is registered afterwards
	for _, r := range s.runs {
		r.stopQueued() // before the end of another run gives it a place
	}
	for _, r := range s.runs {
		if s.runner.sessionsSurvive && r.inSession() {
			r.stop(fault.ErrDetached)
		} else {
			r.stop(fault.ErrShutdown)
		}
	}
}
