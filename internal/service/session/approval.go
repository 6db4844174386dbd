package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/approval"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/idempotency"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/recovery"
	"github.com/belljar/belljar/internal/store"
)

// A session that needs an approval is on record and in the table while it waits, in state starting, without memory and without a
// sandbox. It is not usable. After the approval its sandbox is made, and its time begins.

// waiter is a session that waits for approval.
type waiter struct{ session *Session }

var _ approval.Waiter = waiter{}

// Claim reserves memory for the session's sandbox.
func (w waiter) Claim(ctx context.Context, _ bool) error {
	err := w.session.all.claimMemory(ctx, w.session)
	if err != nil {
		w.Unclaim()
	}
	return err
}

// Unclaim releases the memory.
func (w waiter) Unclaim() { w.session.all.opts.Memory.Drop(w.session.id) }

// Decided makes the sandbox, or ends the session.
func (w waiter) Decided(a belljar.Approval) {
	w.session.Approval.set(a)
	why := &fault.ApprovalError{Approval: a}
	switch a.State {
	case belljar.ApprovalApproved:
		close(w.session.Approval.given)
	case belljar.ApprovalDenied:
		w.session.end(belljar.SessionClosed, why.Error(), why)
	default:
		w.session.end(belljar.SessionExpired, why.Error(), why)
	}
}

// Event returns an event about the session.
func (w waiter) Event() event.Event {
	state := w.session.Snapshot()
	return event.Event{Caller: w.session.caller, Session: &state, Runtime: state.Runtime}
}

// Approval is a session's wait for an operator. Its zero value does not wait.
type Approval struct {
	of    *Session
	entry *approval.Entry // the pending approval; nil if it needs none, or has it
	given chan struct{}   // closed after the approval; nil if it needed none
}

func (a *Approval) set(to belljar.Approval) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.of.state.Approval = &to
}

// take takes a place at the desk if the session needs an approval.
func (a *Approval) take() error {
	x, o := a.of, a.of.all.opts
	asks, err := o.Rules.Approval(admission.Question{Caller: x.caller, Session: &x.spec, Placement: x.place})
	if err != nil || asks == nil {
		return err
	}
	if a.entry, err = o.Desk.Take(*asks, x.id); err != nil {
		return err
	}
	a.given = make(chan struct{})
	a.set(a.entry.Approval())
	return nil
}

// withdraw ends the wait. keep leaves the approval on record for the next process.
func (a *Approval) withdraw(keep bool) {
	if a.entry != nil {
		a.set(a.entry.Withdraw(keep))
	}
}

// await makes a session on record wait for its approval, and returns its resulting state.
func (s *Sessions) await(ctx context.Context, x *Session, key *store.Key) (belljar.Session, error) {
	err := x.Approval.entry.Wait(ctx, waiter{x})
	if err != nil {
		x.end(belljar.SessionClosed, "its approval could not be put on record", err)
		s.opts.Keys.Release(key, x.id)
	}
	s.opts.Work.Go(func() { s.carry(x) })
	if err != nil {
		return belljar.Session{}, err
	}
	made := x.Snapshot()
	if key != nil {
		made.Details = &belljar.Replay{Key: key.Key, Status: idempotency.Created}
	}
	return made, nil
}

// carry makes the sandbox of a session after its approval, or ends the session.
func (s *Sessions) carry(x *Session) {
	select {
	case <-x.Approval.given:
	case <-x.ctx.Done():
	}
	detached := errors.Is(context.Cause(x.ctx), fault.ErrDetached)
	x.Approval.withdraw(detached)
	if detached {
		close(x.detached)
		return
	}
	if x.ctx.Err() != nil {
		x.mu.Lock()
		x.fault = Unusable(x.state)
		x.mu.Unlock()
		close(x.ready)
		x.recordEnd()
		return
	}
	x.mu.Lock()
	now := x.all.now()
	x.life.touch(now)
	x.life.ends = now.Add(x.life.lifetime)
	x.mu.Unlock()
	if err := s.makeSandbox(context.Background(), x); err != nil {
		s.opts.Log.Warn("sandbox of an approved session cannot be made", "session_id", x.id, "err", err)
		s.abort(x, nil, err)
	}
}

// pending reports whether the session waits. The caller holds its lock.
func (a *Approval) pending() bool {
	is := a.of.state.Approval
	return is != nil && is.State == belljar.ApprovalPending && !a.of.state.State.Ended()
}

// Check refuses the use of a session that waits for an approval.
func (a *Approval) Check() error {
	x := a.of
	x.mu.Lock()
	defer x.mu.Unlock()
	if !a.pending() {
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("session %s waits for an operator's approval", x.id),
		Details: map[string]any{"session_id": x.id, "approval": x.state.Approval.ID, "expires_at": x.state.Approval.ExpiresAt},
		Hint:    "ask for the session until its approval is no longer pending",
	}
}

// reviveAsked continues a session of a previous process that waits for its approval, or was approved but not made.
func (s *Recovery) reviveAsked(ctx context.Context, row store.Session) (x *Session, err error) {
	a := *row.Approval
	var broker *placement.Broker
	if row.Spec.Secrets, broker, err = s.sessions.opts.Secrets.Open(row.ID, row.Secrets); err != nil {
		return nil, err
	}
	switch is, err := admission.Fingerprint(&row.Spec); {
	case err != nil:
		return nil, err
	case is != a.Fingerprint:
		return nil, errors.New("the request on record is not the one that its approval is about")
	}
	ask := admission.RequestOfSession(row.Spec)
	ask.Digest = row.ImageDigest
	caller := s.sessions.opts.Rules.Recovered(recovery.Caller(row.UserID, row.Operator), ask, row.Isolation, row.PolicyHash == s.sessions.opts.PolicyHash)
	p, err := s.sessions.opts.Rules.Place(ctx, caller, ask)
	if err != nil {
		return nil, err
	}
	p.Broker = broker
	side, err := s.sessions.opts.Rules.PlaceGit(ctx, caller, &p, ask, row.Spec.Git)
	if err == nil {
		err = s.sessions.opts.Secrets.BrokerGit(side, row.Spec.Git, row.Spec.Secrets)
	}
	if err != nil {
		return nil, err
	}
	if row.PolicyHash != s.sessions.opts.PolicyHash {
		caller := belljar.Caller{ID: row.UserID, Role: belljar.RoleUser, Source: a.Source}
		now, err := s.sessions.opts.Rules.Approval(admission.Question{Caller: caller, Session: &row.Spec, Placement: &p})
		if err != nil {
			return nil, err
		}
		if now != nil && !approval.Covers(a.Reasons, now.Reasons) {
			a = s.sessions.opts.Desk.Begin(*now, row.ID)
		}
	}
	s.sessions.opts.Boxes.Remove(ctx, row.Runtime, row.ID) // it may have been approved and partly made
	t, now := s.sessions.termsOf(row.Spec), s.sessions.now()
	x = s.sessions.bare(row.ID, caller, row.Spec, &p, t)
	x.sealed, x.gitPlace = row.Secrets, side
	x.state, x.scope, x.Approval.given = row.Session, row.Key, make(chan struct{})
	x.state.PolicyHash, x.state.Approval = s.sessions.opts.PolicyHash, &a
	x.life.touch(now)
	x.life.ends, x.life.recorded = now.Add(t.lifetime), row.ExpiresAt
	s.sessions.table.adopt(x)
	if x.Approval.entry, err = s.sessions.opts.Desk.Resume(ctx, a, waiter{x}); err != nil {
		s.sessions.remove(x)
		return nil, err
	}
	s.sessions.opts.Work.Go(func() { s.sessions.carry(x) })
	return x, nil
}
