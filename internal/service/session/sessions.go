// Package session manages the sessions of a service: named, expiring holds on sandboxes.
//
// A session is made (make.go) or opened by its scope (open.go), lives in the table of this process (table.go) for the time that its
// terms permit (terms.go, life.go), and ends once (end.go). When the process ends it is detached (detach.go), and the next process
// recovers it (recover.go). The reaper checks all of them (reap.go).
//
// The package does not decide which callers may see a session: the service above it does.
package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/approval"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/git"
	"github.com/belljar/belljar/internal/service/idempotency"
	"github.com/belljar/belljar/internal/service/install"
	"github.com/belljar/belljar/internal/service/kernel"
	"github.com/belljar/belljar/internal/service/lifecycle"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/service/retry"
	"github.com/belljar/belljar/internal/service/secret"
	"github.com/belljar/belljar/internal/service/snapshot"
	"github.com/belljar/belljar/internal/service/template"
	"github.com/belljar/belljar/internal/service/terminal"
	"github.com/belljar/belljar/internal/store"
)

// Runs are the runs in sessions.
type Runs interface {
	// ActiveIn reports whether a session has live runs, queued ones included, and whether one of them shows no activity although it is not
	// idle: it waits for an approval, or its output is no longer kept.
	ActiveIn(session string) (active, quiet bool)
	// StopIn stops the runs of a session.
	StopIn(session string, why error)
	// CountIn returns how many runs a session has had.
	CountIn(ctx context.Context, session string) (int, error)
	// Busy returns the ids of the sessions with unfinished runs on record: runs of a previous process, before they are recovered.
	Busy(ctx context.Context) (map[string]bool, error)
	// Orphaned reports whether a command at an agent belongs to a run that is not live.
	Orphaned(command string) bool
}

// Options configures [Sessions].
type Options struct {
	Terms
	Store      store.Sessions
	Rules      *admission.Rules
	Accounts   *admission.Accounts
	Memory     *admission.Memory
	Desk       *approval.Desk
	Boxes      *box.Maker
	Cloner     *git.Cloner
	Packages   *install.Installer
	Snapshots  *snapshot.Snapshots
	Templates  *template.Templates
	Closed     context.Context // ends when the service has closed
	Keys       *idempotency.Keys
	Secrets    *secret.Secrets
	Runs       Runs
	PolicyHash string
	NodeID     string // this server among those on the same store
	// Queue is the queue of all runs. Each session has a branch of it, of at most QueueLength.
	Queue       *queue.Queue
	Contexts    kernel.Limits
	QueueLength int
	Survive     bool // sessions outlive the process
	// RecoverTerminals reattaches to a session's terminals, among the commands that its agent knows.
	RecoverTerminals func(ctx context.Context, x terminal.Session, known []wire.ExecInfo)
	// Record records an event and fills in its time and component.
	Record func(event.Event)
	// Slack is how much longer than its agent's deadline a command may last.
	Slack time.Duration
	Retry *retry.Writer
	Work  *lifecycle.Group
	Clock clock.Clock
	Log   *slog.Logger
}

// Sessions manages the sessions of a service.
type Sessions struct {
	opts  Options
	table table

	resting *queue.Queue // of idle sessions that hibernate
}

// New returns Sessions with these options.
func New(opts Options) *Sessions {
	return &Sessions{opts: opts, resting: queue.New(queue.Options{Slots: restsAtOnce})}
}

// now returns the time in the precision of records.
func (s *Sessions) now() time.Time { return clock.Stamp(s.opts.Clock) }

// Get returns a live session, or nil.
func (s *Sessions) Get(id string) *Session { return s.table.get(id) }

// Find returns a live session, or else the record of one.
func (s *Sessions) Find(ctx context.Context, id string) (*Session, store.Session, error) {
	if x := s.table.get(id); x != nil {
		return x, store.Session{}, nil
	}
	row, err := s.opts.Store.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, row, NotFound(id)
	case err != nil:
		return nil, row, fault.Record("read the record of session "+id, err)
	}
	markLost(&row)
	return nil, row, nil
}

// markLost corrects the state of a session that is live on record but in no table.
func markLost(row *store.Session) {
	if !row.State.Ended() {
		row.State, row.Message = belljar.SessionLost, "belljar was stopped"
	}
}

// List returns one page of a user's sessions. Live ones have their current state.
func (s *Sessions) List(ctx context.Context, user string, q belljar.SessionQuery) (belljar.SessionPage, error) {
	page := belljar.SessionPage{Items: []belljar.Session{}}
	s.insertDrafts()
	rows, total, err := s.opts.Store.List(ctx, user, q)
	if err != nil {
		return page, fault.Record("list sessions", err)
	}
	for _, row := range rows {
		if x := s.table.get(row.ID); x != nil {
			page.Items = append(page.Items, x.Snapshot())
			continue
		}
		if !row.State.Ended() { // it may have ended, and left the table, since it was read
			row, err = s.opts.Store.Get(ctx, row.ID)
			if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
				continue
			}
			if err != nil {
				return page, fault.Record("list sessions", err)
			}
		}
		markLost(&row)
		page.Items = append(page.Items, row.Session)
	}
	page.Total, page.Limit, page.Offset = total, q.Limit, q.Offset
	page.HasMore = q.Offset+len(rows) < total
	return page, nil
}

// Count returns the number of live sessions.
func (s *Sessions) Count() int { return len(s.table.all()) }

// CountOf returns the number of a user's live sessions.
func (s *Sessions) CountOf(user string) int { return s.table.count(user) }

// WithImage returns the ids of the live sessions whose sandboxes use an image.
func (s *Sessions) WithImage(digest string) []string {
	var ids []string
	for _, x := range s.table.all() {
		if x.Snapshot().ImageDigest == digest {
			ids = append(ids, x.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Sweep removes the records of sessions that ended before t.
func (s *Sessions) Sweep(ctx context.Context, t time.Time) error {
	if _, err := s.opts.Store.DeleteEnded(ctx, t); err != nil {
		return fmt.Errorf("sweep sessions: %w", err)
	}
	return nil
}

// record records an event of a session.
func (s *Sessions) record(name string, caller belljar.Caller, state belljar.Session, took time.Duration) {
	e := event.Event{Name: name, Caller: caller, Session: &state, Runtime: state.Runtime, Took: took}
	if name == event.SessionEnded {
		e.Reason = string(state.State)
	}
	s.opts.Record(e)
}
