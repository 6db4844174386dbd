// Package run is the runs of a service, from a request to a result on record.
//
// A request is admitted as a plan (admit.go) and starts as a run, or waits in the queue (start.go, queue.go). The run gets a
// sandbox (provision.go) and is executed there (execute.go, follow.go): its output goes into its log (transcript.go), its files
// into the blob store (capture.go). What its end means is decided in one place (package outcome) and put on record (record.go). After a
// restart the next process recovers it (recover.go, reattach_run.go). What has been kept for its time is swept (sweep.go).
//
// The package decides nothing about who may see a run: the service above it does.
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

// Options is what the runs of a service are made of.
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
	// Snapshots are what runs read, and whose bytes are among the blobs.
	Snapshots *snapshot.Snapshots
	Templates *template.Templates
	Keys      *idempotency.Keys
	Secrets   *secret.Secrets

	// UseSession returns a living session that the caller may see, Session any living one, or nil.
	UseSession func(caller belljar.Caller, id string) (*session.Session, error)
	Session    func(id string) *session.Session

	PolicyHash      string
	NodeID          string       // this daemon among those on the same store
	Stdin, MaxStdin stdin.Limits // of an interactive run: the default, and the most that a request may set
	// Queue is that of runs in sandboxes of their own. A run waits in it for QueueTTL at most. QueueLength is what its errors report.
	Queue       *queue.Queue
	QueueLength int
	QueueTTL    time.Duration
	Heartbeat   time.Duration // between two heartbeats in the log of a run
	Slack       time.Duration // how much longer than its agent should take a command may last
	Lease       time.Duration // of a sandbox

	// Warm is how interpreters wait for programs.
	Warm WarmOptions

	RecordsSurvive  bool // what is on record outlives the process
	SessionsSurvive bool // and so do sessions, with what runs in them
	// Closed ends when the service has closed.
	Closed context.Context
	// Record records an event and fills in its component and, if it has none, its time.
	Record func(event.Event)
	Retry  *retry.Writer
	Work   *lifecycle.Group
	Clock  clock.Clock
	Log    *slog.Logger
}

// Runs is the runs of a service. What has ended is on record; what is under way is in memory too, and there it is more up to date.
type Runs struct {
	*runner
	opts     Options
	admitter *admitter

	mu   sync.Mutex
	runs map[string]*Run // those under way

	sweeping sync.Mutex               // held while the runs are swept, and guards stuck and orphans
	orphans  time.Time                // when orphaned bytes were swept last
	stuck    map[bool]map[string]bool // ids that a sweep, of bytes or of records, has to go on behind
}

// New returns a service without runs.
func New(o Options) *Runs {
	s := &Runs{opts: o, runs: map[string]*Run{}, stuck: map[bool]map[string]bool{true: {}, false: {}}}
	s.runner = &runner{
		recorder: &recorder{
			store: o.Store, logs: o.Logs, record: o.Record, clock: o.Clock, log: o.Log, node: o.NodeID, heartbeat: o.Heartbeat,
			work: o.Work, retry: o.Retry, unregister: s.unregister,
		},
		boxes: o.Boxes, cloner: o.Cloner, installer: o.Packages, snapshots: o.Snapshots, templates: o.Templates, closed: o.Closed, memory: o.Memory, accounts: o.Accounts, blobs: o.Blobs, rules: o.Rules,
		slack: o.Slack, lease: o.Lease, queueTTL: o.QueueTTL, recordsSurvive: o.RecordsSurvive, sessionsSurvive: o.SessionsSurvive,
	}
	s.admitter = &admitter{rules: o.Rules, secrets: o.Secrets, useSession: o.UseSession, snapshots: o.Snapshots, templates: o.Templates, stdin: o.Stdin, maxStdin: o.MaxStdin, warm: o.Warm}
	return s
}

// register adds a run to those under way. Each run that was registered is unregistered later.
func (s *Runs) register(r *Run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.work.Enter() {
		return fault.ShuttingDown()
	}
	s.runs[r.id] = r
	return nil
}

// unregister removes a run from those under way. It has ended, and its end is on record.
func (s *Runs) unregister(r *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, r.id)
}

// Get returns the run of that id if it is under way, or nil.
func (s *Runs) Get(id string) *Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[id]
}

// all returns the runs under way.
func (s *Runs) all() []*Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.runs))
}

// Find returns a run under way, or else the record of one.
func (s *Runs) Find(ctx context.Context, id string) (*Run, store.Run, error) {
	if r := s.Get(id); r != nil {
		return r, store.Run{}, nil
	}
	row, err := s.store.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, row, NotFound(id)
	case err != nil:
		return nil, row, fault.Record("read the record of run "+id, err)
	}
	return nil, row, nil
}

// WithImage are the ids of the runs under way whose own sandboxes have an image.
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

// Flush puts on record in which phases runs are now, so that lists show them. It waits a while for drafts that have just ended.
func (s *Runs) Flush(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, recordDelay)
	defer stop()
	for _, r := range s.all() {
		if err := s.flush(r, true); errors.Is(err, errDraft) {
			select {
			case <-r.done:
			case <-ctx.Done():
			}
		}
	}
}

// Refuse starts no more runs, cancels those that wait in the queue (the next process continues them, if their records survive), and
// returns those to be waited for: all others that end with this process.
func (s *Runs) Refuse() (under []*Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work.Refuse()
	for _, r := range s.runs {
		select {
		case <-r.ticket.Ready():
			if !s.sessionsSurvive || !r.inSession() {
				under = append(under, r)
			}
		default:
			r.stop(fault.ErrShutdown)
		}
	}
	return under
}

// Stop starts no more runs, and stops those under way or detaches those that can outlive the process.
func (s *Runs) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work.Refuse() // under the lock, so that no run is registered afterwards
	for _, r := range s.runs {
		if s.sessionsSurvive && r.inSession() {
			r.stop(fault.ErrDetached)
		} else {
			r.stop(fault.ErrShutdown)
		}
	}
}
