// Package approval holds requests until an operator decides. It tracks waiting requests with their deadlines, and records the
// decisions. Each request is decided once: by an operator, by expiry, or because it ended earlier.
//
// The package does not start runs or sessions. A [Waiter] receives the decision.
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
	// Claim reserves the resources for the start. After an error it still waits, and the operator who tried to approve it gets the error.
	// again means that a previous process recorded the approval, after it had checked the quota.
	Claim(ctx context.Context, again bool) error
	// Unclaim releases the reservation.
	Unclaim()
	// Decided starts or ends it according to the approval, which is on record. It is called at most once, and never after [Entry.Withdraw].
	Decided(a belljar.Approval)
	// Event returns an event about it, without a name.
	Event() event.Event
}

// Options configures a desk.
type Options struct {
	Store store.Approvals
	// TTL is the maximum wait of a request.
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

// Desk holds the waiting requests. All methods are safe for concurrent use.
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

	mu        sync.Mutex // held during the decision
	approval  belljar.Approval
	waiter    Waiter // nil until it waits
	over      bool
	stopTimer func() bool
}

// New returns an empty desk.
func New(opts Options) *Desk { return &Desk{opts: opts, waiting: map[string]*Entry{}} }

// Take reserves a place at the desk for a request with an id, which expires. Call [Entry.Wait] or [Entry.Withdraw] next.
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

// Begin returns the approval with its id and times, as requested now.
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

// Approval returns the entry's current approval.
func (e *Entry) Approval() belljar.Approval {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.approval
}

// Wait records that the request waits, and makes w its waiter. After an error w does not wait.
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

// begin makes w wait for the remaining time. The caller holds the lock.
func (e *Entry) begin(w Waiter) {
	e.waiter = w
	e.stopTimer = e.desk.opts.Clock.AfterFunc(max(e.approval.ExpiresAt.Sub(e.desk.opts.Clock.Now()), 0), e.expire)
}

// leave removes the entry from the desk. The caller holds the lock.
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

// Resume makes w wait again after a restart, according to the approval that a previous process recorded: for a decision, unless it was
// decided. The error is the reason why w cannot start. The entry is nil for a decided approval.
func (d *Desk) Resume(ctx context.Context, a belljar.Approval, w Waiter) (*Entry, error) {
	name := event.ApprovalResumed
	if recorded, err := d.opts.Store.Get(ctx, a.ID); err == nil && recorded.Fingerprint == a.Fingerprint && recorded.RequestedAt.Equal(a.RequestedAt) {
		a = recorded
	} else if err == nil || errors.Is(err, store.ErrNotFound) {
		err = d.opts.Store.Put(ctx, a) // the previous process ended before it stored this, or the request waits anew
		if err != nil {
			return nil, fault.Record("put the approval on record", err)
		}
		name = event.ApprovalRequested
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
		d.record(name, e)
		return e, nil
	}
	if a.State == belljar.ApprovalApproved {
		if err := w.Claim(ctx, true); err != nil {
			return nil, err
		}
	}
	w.Decided(a)
	return nil, nil
}

// Lost records that a waiting request of a previous process does not continue, and returns its approval; nil for nil.
func (d *Desk) Lost(ctx context.Context, a *belljar.Approval) *belljar.Approval {
	if a == nil || a.State != belljar.ApprovalPending {
		return a
	}
	now, lost := clock.Stamp(d.opts.Clock), *a
	lost.State, lost.DecidedAt = belljar.ApprovalWithdrawn, &now
	err := d.opts.Store.Decide(ctx, lost)
	if errors.Is(err, store.ErrEnded) { // it was decided, but its run or session does not record that yet
		if lost, err = d.opts.Store.Get(ctx, a.ID); err == nil {
			return &lost
		}
	}
	switch {
	case errors.Is(err, store.ErrNotFound): // it was not requested yet
	case err != nil:
		d.opts.Log.Error("end of an approval cannot be recorded", "approval_id", a.ID, "err", err)
		return a
	default: // resumed first, so that the number of pending approvals does not fall below zero
		ev := event.Event{Caller: belljar.Caller{ID: a.UserID, Source: a.Source}}
		d.report(event.ApprovalResumed, *a, ev)
		d.report(event.ApprovalWithdrawn, lost, ev)
	}
	return &lost
}

// WithdrawLost withdraws the pending approvals of a previous process whose requests do not wait here: their end could not be recorded. Call
// it after those that wait have resumed.
func (d *Desk) WithdrawLost(ctx context.Context) error {
	var pending []belljar.Approval
	for q := (belljar.ApprovalQuery{State: belljar.ApprovalPending, Limit: belljar.MaxPage}); ; q.Offset += q.Limit {
		page, total, err := d.opts.Store.List(ctx, q)
		if err != nil {
			return fault.Record("list approvals", err)
		}
		if pending = append(pending, page...); q.Offset+q.Limit >= total {
			break
		}
	}
	d.mu.Lock()
	pending = slices.DeleteFunc(pending, func(a belljar.Approval) bool { return d.waiting[a.ID] != nil })
	d.mu.Unlock()
	for _, a := range pending {
		d.Lost(ctx, &a)
	}
	return nil
}

// Decide approves or denies the request with an id. Of concurrent calls only one succeeds.
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
		if err := e.waiter.Claim(ctx, false); err != nil {
			return belljar.Approval{}, err
		}
	}
	// Record the approval before the start, so that a restart does not ask again about a started request.
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

// settled returns the result for a decision about a request that does not wait here.
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

// expire ends an approval at its deadline. The timer calls it.
func (e *Entry) expire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.end(belljar.ApprovalExpired)
	}
}

// Withdraw ends the wait of a request that does not continue, and returns its approval. It waits for a concurrent decision. With keep,
// the approval stays as it is, for a request that continues to wait in another process. It may be called twice.
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

// end ends the wait without a decision. The caller holds the lock.
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

// finish passes the recorded approval to the waiter. The caller holds the lock.
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
	d.report(name, e.approval, e.waiter.Event())
}

// report records an event of an approval. ev has what is known about the request.
func (d *Desk) report(name string, a belljar.Approval, ev event.Event) {
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

// Sweep removes the records of approvals that were requested before t and are not pending.
func (d *Desk) Sweep(ctx context.Context, t time.Time) error {
	if _, err := d.opts.Store.DeleteBefore(ctx, t); err != nil {
		return fmt.Errorf("sweep approvals: %w", err)
	}
	return nil
}

// Covers reports whether an approval for some reasons also covers others.
func Covers(approved, now []string) bool {
	return !slices.ContainsFunc(now, func(r string) bool { return !slices.Contains(approved, r) })
}
