package run

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/approval"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/outcome"
	"github.com/belljar/belljar/internal/store"
)

// A run that needs an approval has a parked ticket: it waits as if it were queued, but without a place in the queue and without
// memory. When it is approved, it takes both, and its time in the queue begins.

// askFor returns the approval that a plan needs; nil if it needs none.
func askFor(s *Runs, caller belljar.Caller, p *plan) (*belljar.Approval, error) {
	q := admission.Question{Caller: caller, Run: &p.request.RunSpec, Placement: &p.Placement}
	if p.session != nil {
		q.SessionTimeout = p.session.Placement().Limits.TimeoutSec
	}
	return s.opts.Rules.Approval(q)
}

// ask makes the run wait for an approval, and takes a place at the desk for it.
func ask(s *Runs, r *Run, a belljar.Approval) (err error) {
	a.Command, a.CommandTruncated = r.state.Command, r.state.CommandTruncated
	if r.asked, err = s.opts.Desk.Take(a, r.id); err != nil {
		return err
	}
	a = r.asked.Approval()
	r.state.Approval, r.parked = &a, true
	return nil
}

// waiter is a run at the desk.
type waiter struct {
	runs *Runs
	run  *Run
}

var _ approval.Waiter = waiter{}

// Claim reserves memory for the run's sandbox.
func (w waiter) Claim(ctx context.Context, again bool) error {
	r := w.run
	if r.plan.session != nil {
		return nil
	}
	var quota belljar.Quota
	if !again {
		var err error
		if quota, err = w.runs.runner.accounts.Quota(ctx, r.owner); err != nil {
			return err
		}
	}
	return w.runs.runner.memory.Claim(r.id, r.owner, &r.plan.Placement, quota)
}

// Unclaim releases the memory.
func (w waiter) Unclaim() { w.runs.runner.memory.Drop(w.run.id) }

// Decided puts the run into its queue, or ends it.
func (w waiter) Decided(a belljar.Approval) {
	r := w.run
	r.mu.Lock()
	r.state.Approval = &a
	r.mu.Unlock()
	r.appendUnlessOver(approvalFrame(a))
	w.runs.runner.note(r)
	if a.State != belljar.ApprovalApproved {
		r.stop(&fault.ApprovalError{Approval: a})
		return
	}
	quota, err := w.runs.runner.accounts.Quota(context.Background(), r.owner)
	if err != nil {
		w.runs.runner.log.Error("quota of an approved run cannot be read", "run_id", r.id, "err", err)
	}
	w.runs.runner.startQueueTTL(r)
	r.ticket.Join(r.owner, quota.ConcurrentRuns)
}

// Event is an event about the run.
func (w waiter) Event() event.Event {
	state := w.run.Snapshot()
	return event.Event{Caller: w.run.caller, Run: &state, Runtime: state.Runtime}
}

// withdrawApproval ends the wait for an approval. A run that stays queued keeps its approval for the next process.
func (r *Run) withdrawApproval(keep bool) {
	if r.asked == nil {
		return
	}
	a := r.asked.Withdraw(keep)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Approval = &a
}

func approvalFrame(a belljar.Approval) belljar.Frame {
	data := map[string]any{"id": a.ID, "state": string(a.State), "reasons": a.Reasons, "expires_at": a.ExpiresAt}
	if a.DecidedBy != "" {
		data["decided_by"] = a.DecidedBy
	}
	if a.Note != "" {
		data["note"] = a.Note
	}
	return belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventApproval, Data: data}
}

// recoverApproval returns the approval that a queued run of a previous process needs: its own, or a new one if the rules have changed
// since and add reasons. It returns nil if the run needs none.
func recoverApproval(s *Runs, row store.Run, p *plan) (*belljar.Approval, error) {
	before := row.Approval
	if before != nil {
		is, err := admission.Fingerprint(&p.request.RunSpec)
		if err == nil && is != before.Fingerprint {
			err = &belljar.Error{Code: belljar.CodePolicyDenied, Message: "the request on record is not the one that its approval is about"}
		}
		if err != nil {
			return nil, err
		}
	}
	if row.PolicyHash == s.opts.PolicyHash {
		return before, nil // the rules have not changed
	}
	caller := belljar.Caller{ID: row.UserID, Role: belljar.RoleUser}
	if before != nil {
		caller.Source = before.Source
	}
	now, err := askFor(s, caller, p)
	if err != nil || now == nil || before != nil && approval.Covers(before.Reasons, now.Reasons) {
		return before, err
	}
	now.Command, now.CommandTruncated = outcome.TruncateCommand(p.argv)
	return new(s.opts.Desk.Begin(*now, row.ID)), nil
}

// requeueAsked parks a run of a previous process until its approval is decided.
func requeueAsked(ctx context.Context, s *Runs, r *Run, a belljar.Approval) (err error) {
	if before := r.state.Approval; before == nil || !before.RequestedAt.Equal(a.RequestedAt) {
		r.appendLog(approvalFrame(a))
	}
	r.state.Approval, r.parked = &a, true
	r.asked, err = s.opts.Desk.Resume(ctx, a, waiter{runs: s, run: r})
	return err
}
