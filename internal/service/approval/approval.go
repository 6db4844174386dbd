// Package approval holds requests until an operator decides. It knows which wait, since when and for how long, and puts on record what
// was decided. Each request is decided once: by an operator, by the time, or because it ended before.
//
// The package starts no run or session. What waits is a [Waiter], which learns what became of its approval.
package approval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/lifecycle"
	"github.com/belljar/belljar/internal/service/retry"
	"github.com/belljar/belljar/internal/store"
)

// Waiter is a run or a session that waits for a decision.
type Waiter interface {
	// Claim reserves what it needs to begin. After an error it still waits, and who wanted to approve it gets the error.
	Claim(ctx context.Context) error
	// Unclaim releases that again.
	Unclaim()
	// Decided has it begin or end, as the approval says, which is on record. It is called at most once, and never after
	// [Entry.Withdraw].
	Decided(a belljar.Approval)
	// Event is an event about it, without a name.
	Event() event.Event
}

// Options is what a desk is made of.
type Options struct {
	Store store.Approvals
	// TTL is how long a request waits at most.
	TTL time.Duration
	// MaxPerUser is how many requests of one user may wait, Max how many in all.
	MaxPerUser, Max int
	// Record records an event and fills in its component and, if it has none, its time.
	Record func(event.Event)
	Clock  clock.Clock
	Retry  *retry.Writer
	Work   *lifecycle.Group
	Log    *slog.Logger
}

// Desk is where requests wait. All methods are safe for concurrent use.
type Desk struct {
	opts Options

	mu      sync.Mutex
	waiting map[string]*Entry
}

// Entry is one request at the desk.
type Entry struct {
	desk *Desk
	id   string
	user string

	mu        sync.Mutex // held while it is decided
	approval  belljar.Approval
	waiter    Waiter // nil until it waits
	over      bool
	stopTimer func() bool
}

// New returns an empty desk.
func New(opts Options) *Desk { return &Desk{opts: opts, waiting: map[string]*Entry{}} }

// Take takes a place at the desk for a request with an id, from now until its time is over. [Entry.Wait] or [Entry.Withdraw] follows.
func (d *Desk) Take(a belljar.Approval, id string) (*Entry, error) {
	a = d.Begin(a, id)
	d.mu.Lock()
	defer d.mu.Unlock()
	own := 0
	for _, e := range d.waiting {
		if e.user == a.UserID {
			own++
		}
	}
	switch {
	case own >= d.opts.MaxPerUser:
		return nil, tooMany("approvals", "you have", own, d.opts.MaxPerUser)
	case len(d.waiting) >= d.opts.Max:
		return nil, tooMany("node_approvals", "the server has", len(d.waiting), d.opts.Max)
	}
	return d.put(a), nil
}

// Begin returns the approval with its id and times: it is requested now.
func (d *Desk) Begin(a belljar.Approval, id string) belljar.Approval {
	a.ID, a.RequestedAt = id, clock.Stamp(d.opts.Clock)
	a.ExpiresAt = a.RequestedAt.Add(d.opts.TTL)
	return a
}

func tooMany(quota, who string, used, limit int) error {
	return &belljar.Error{
		Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("%s %d requests that wait for an approval, and at most %d are allowed", who, used, limit),
		Details: map[string]any{"quota": quota, "used": used, "limit": limit},
		Hint:    "cancel one, or wait until an operator has decided",
	}
}

// put adds an entry. The caller holds the lock.
func (d *Desk) put(a belljar.Approval) *Entry {
	e := &Entry{desk: d, id: a.ID, user: a.UserID, approval: a}
	d.waiting[a.ID] = e
	return e
}

// Approval is the entry's approval as it stands.
func (e *Entry) Approval() belljar.Approval {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.approval
}

// Wait puts it on record that the request waits, and has w wait from now on. After an error it does not.
func (e *Entry) Wait(ctx context.Context, w Waiter) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.desk
	if err := d.opts.Store.Put(context.WithoutCancel(ctx), e.approval); err != nil {
		e.leave()
		return fault.Record("put the approval on record", err)
	}
	e.begin(w)
	d.record(event.ApprovalRequested, e)
	return nil
}

// begin has w wait for the time that is left. The caller holds the lock.
func (e *Entry) begin(w Waiter) {
	e.waiter = w
	e.stopTimer = e.desk.opts.Clock.AfterFunc(max(e.approval.ExpiresAt.Sub(e.desk.opts.Clock.Now()), 0), e.expire)
}

// leave gives up the place at the desk. The caller holds the lock.
func (e *Entry) leave() {
	e.over = true
	if e.stopTimer != nil {
		e.stopTimer()
	}
	e.desk.mu.Lock()
	defer e.desk.mu.Unlock()
	if e.desk.waiting[e.id] == e {
		delete(e.desk.waiting, e.id)
	}
}

// Resume has w wait again after a restart, as its approval says that a former process put on record: for a decision, unless it was
// decided. What w lacks to begin is the error. The entry is nil for what is decided.
func (d *Desk) Resume(ctx context.Context, a belljar.Approval, w Waiter) (*Entry, error) {
	if recorded, err := d.opts.Store.Get(ctx, a.ID); err == nil && recorded.Fingerprint == a.Fingerprint && recorded.RequestedAt.Equal(a.RequestedAt) {
		a = recorded
	} else if err == nil || errors.Is(err, store.ErrNotFound) {
		err = d.opts.Store.Put(ctx, a) // the former process ended before, or it is asked anew
		if err != nil {
			return nil, fault.Record("put the approval on record", err)
		}
	} else {
		return nil, fault.Record("read the approval of "+a.ID, err)
	}
	if a.State == belljar.ApprovalPending {
		d.mu.Lock()
		e := d.put(a)
		d.mu.Unlock()
		e.mu.Lock()
		defer e.mu.Unlock()
		e.begin(w)
		d.record(event.ApprovalResumed, e)
		return e, nil
	}
	if a.State == belljar.ApprovalApproved {
		if err := w.Claim(ctx); err != nil {
			return nil, err
		}
	}
	w.Decided(a)
	return nil, nil
}

// Lost puts on record that what a former process left waiting does not continue, and returns its approval; nil for nil.
func (d *Desk) Lost(ctx context.Context, a *belljar.Approval) *belljar.Approval {
	if a == nil || a.State != belljar.ApprovalPending {
		return a
	}
	now, lost := clock.Stamp(d.opts.Clock), *a
	lost.State, lost.DecidedAt = belljar.ApprovalWithdrawn, &now
	err := d.opts.Store.Decide(ctx, lost)
	if errors.Is(err, store.ErrEnded) { // it was decided, but that is not on its own record yet
		if lost, err = d.opts.Store.Get(ctx, a.ID); err == nil {
			return &lost
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		d.opts.Log.Error("end of an approval cannot be recorded", "approval_id", a.ID, "err", err)
		return a
	}
	return &lost
}

// Decide approves or denies what waits under an id. Of many who decide at once, one does.
func (d *Desk) Decide(ctx context.Context, by belljar.Caller, id string, decision belljar.ApprovalDecision) (belljar.Approval, error) {
	if err := decision.Validate(); err != nil {
		return belljar.Approval{}, err
	}
	d.mu.Lock()
	e := d.waiting[id]
	d.mu.Unlock()
	if e == nil {
		return d.settled(ctx, id)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.waiter == nil {
		return d.settled(ctx, id)
	}
	now := clock.Stamp(d.opts.Clock)
	if !now.Before(e.approval.ExpiresAt) {
		e.end(belljar.ApprovalExpired)
		return d.settled(ctx, id)
	}
	a := e.approval
	a.State, a.DecidedAt, a.DecidedBy, a.Note = belljar.ApprovalDenied, &now, by.ID, decision.Note
	if decision.Decision == belljar.DecisionApprove {
		a.State = belljar.ApprovalApproved
		if err := e.waiter.Claim(ctx); err != nil {
			return belljar.Approval{}, err
		}
	}
	// It begins only when its approval is on record: a restart must not ask again what has begun.
	if err := d.opts.Store.Decide(context.WithoutCancel(ctx), a); err != nil {
		if a.State == belljar.ApprovalApproved {
			e.waiter.Unclaim()
		}
		if errors.Is(err, store.ErrEnded) {
			return d.settled(ctx, id)
		}
		return belljar.Approval{}, fault.Record("put the decision on record", err)
	}
	e.finish(a)
	return a, nil
}

// settled is the answer to a decision about what does not wait here.
func (d *Desk) settled(ctx context.Context, id string) (belljar.Approval, error) {
	a, err := d.opts.Store.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return a, &belljar.Error{
			Code: belljar.CodeNotFound, Message: fmt.Sprintf("no approval %q exists", id), Details: map[string]any{"approval_id": id},
			Hint: "belljar approval ls lists those that are pending",
		}
	case err != nil:
		return a, fault.Record("read the approval of "+id, err)
	}
	e := &belljar.Error{Code: belljar.CodeConflict, Details: map[string]any{"approval_id": id, "state": string(a.State)}}
	switch at := a.DecidedAt; {
	case at == nil:
		e.Message = fmt.Sprintf("what approval %s is for does not wait on this server now", id)
	case a.DecidedBy != "":
		e.Message = fmt.Sprintf("%s has %s it already, at %s", a.DecidedBy, a.State, at.UTC().Format(time.RFC3339))
		e.Details["decided_by"], e.Details["decided_at"] = a.DecidedBy, at.UTC()
	case a.State == belljar.ApprovalExpired:
		e.Message = "it expired at " + at.UTC().Format(time.RFC3339)
	default:
		e.Message = fmt.Sprintf("the %s ended at %s, before a decision", a.Kind, at.UTC().Format(time.RFC3339))
	}
	return belljar.Approval{}, e
}

// expire ends an approval whose time is over. The timer calls it.
func (e *Entry) expire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.end(belljar.ApprovalExpired)
	}
}

// Withdraw ends the wait of a request that goes no further, and returns its approval. It waits for a decision that is being made. A
// request that waits on in another process keeps its approval as it is. It may be called twice.
func (e *Entry) Withdraw(keep bool) belljar.Approval {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.over:
	case keep || e.waiter == nil:
		e.leave()
	default:
		e.end(belljar.ApprovalWithdrawn)
	}
	return e.approval
}

// end is an end without a decision. The caller holds the lock.
func (e *Entry) end(state belljar.ApprovalState) {
	d, a := e.desk, e.approval
	a.State, a.DecidedAt = state, new(clock.Stamp(d.opts.Clock))
	write := func() error { return d.opts.Store.Decide(context.Background(), a) }
	if err := write(); err != nil {
		d.opts.Log.Error("end of an approval cannot be recorded; retrying", "approval_id", e.id, "err", err)
		d.opts.Work.Go(func() { d.opts.Retry.Do(write, "approval_id", a.ID) })
	}
	e.finish(a)
}

// finish tells the waiter what is on record. The caller holds the lock.
func (e *Entry) finish(a belljar.Approval) {
	e.approval = a
	e.leave()
	name := map[belljar.ApprovalState]string{
		belljar.ApprovalApproved: event.ApprovalApproved, belljar.ApprovalDenied: event.ApprovalDenied,
		belljar.ApprovalExpired: event.ApprovalExpired, belljar.ApprovalWithdrawn: event.ApprovalWithdrawn,
	}[a.State]
	e.desk.record(name, e)
	if a.State != belljar.ApprovalWithdrawn {
		e.waiter.Decided(a)
	}
}

// record records an event of an approval. The caller holds the entry's lock.
func (d *Desk) record(name string, e *Entry) {
	a := e.approval
	ev := e.waiter.Event()
	ev.Name, ev.Kind, ev.Approval, ev.Detail = name, a.Kind, &a, map[string]string{"approval_id": a.ID, "reasons": strings.Join(a.Reasons, ", ")}
	if a.DecidedBy != "" {
		ev.Detail["decided_by"] = a.DecidedBy
	}
	if a.DecidedAt != nil {
		ev.Took = a.DecidedAt.Sub(a.RequestedAt)
	}
	d.opts.Record(ev)
}

// List returns one page of the approvals.
func (d *Desk) List(ctx context.Context, q belljar.ApprovalQuery) (belljar.ApprovalPage, error) {
	page := belljar.ApprovalPage{Items: []belljar.Approval{}, Limit: q.Limit, Offset: q.Offset}
	rows, total, err := d.opts.Store.List(ctx, q)
	if err != nil {
		return page, fault.Record("list approvals", err)
	}
	page.Items, page.Total = append(page.Items, rows...), total
	page.HasMore = q.Offset < total-q.Limit
	return page, nil
}

// Sweep removes the records of those that were requested before t and are not pending.
func (d *Desk) Sweep(ctx context.Context, t time.Time) error {
	if _, err := d.opts.Store.DeleteBefore(ctx, t); err != nil {
		return fmt.Errorf("sweep approvals: %w", err)
	}
	return nil
}

// Covers reports whether what was approved for some reasons is approved for others.
func Covers(approved, now []string) bool {
	return !slices.ContainsFunc(now, func(r string) bool { return !slices.Contains(approved, r) })
}
