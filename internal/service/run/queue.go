package run

import (
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/queue"
)

// queueOf returns the queue of a run: the node's, its session's, or that of its session's shell.
func (s *Runs) queueOf(p *plan) *queue.Queue {
	if p.session != nil {
		if q := p.session.Contexts.Queue(p.request.Context); q != nil {
			return q
		}
		return p.session.Queue(p.request.Shell != nil)
	}
	return s.opts.Queue
}

// openContext creates the context of a run, if it does not exist. A refused request must not leave one.
func (s *Runs) openContext(p *plan) (err error) {
	if p.request.Context != "" {
		p.undoContext, err = p.session.Contexts.Use(p.request.Context, p.request.Language, s.runner.now())
	}
	return err
}

// leaveSession reverts the entry of a run that does not start into its session, if it has one.
func (r *Run) leaveSession() {
	if r.plan.session == nil {
		return
	}
	if r.plan.undoContext != nil {
		r.plan.undoContext()
	}
	r.plan.session.RemoveRun()
}

// enter gives a run its place in its queue. Its owner's quota bounds how many of the owner's runs execute at the same time,
// inside and outside of sessions, and the resources of their sandboxes together.
func (s *Runs) enter(r *Run, quota belljar.Quota) (err error) {
	if r.releaseBudget, err = s.opts.Budget.Charge(r.owner, &r.plan.request.RunSpec); err != nil {
		s.runner.count(event.QueueFull, r.state.Runtime, "requests_too_large", 1)
		return err
	}
	x := r.plan.session
	if x != nil {
		if err = x.AddRun(); err == nil {
			if err = s.openContext(r.plan); err != nil {
				x.RemoveRun()
			}
		}
	} else if r.asked == nil {
		err = s.runner.memory.Claim(r.id, r.owner, &r.plan.Placement, quota)
	}
	if err != nil {
		r.releaseRequest()
		return err
	}
	q := s.queueOf(r.plan)
	if r.asked != nil {
		r.ticket = q.Park()
		return nil
	}
	if r.ticket, err = q.Enter(r.owner, quota.ConcurrentRuns); err == nil {
		return nil
	}
	s.runner.memory.Drop(r.id)
	r.releaseRequest()
	r.leaveSession()
	return s.queueFull(q, r.state.Runtime)
}

// withdraw releases the reservations of a run that is not started.
func (s *Runs) withdraw(r *Run) {
	r.withdrawApproval(true)
	r.ticket.Leave()
	r.releaseRequest()
	r.kept.Close()
	s.runner.memory.Drop(r.id)
	r.leaveSession()
}

// awaitMemory waits until the node's memory has room for the run's sandbox, or the run must stop.
func (s *runner) awaitMemory(r *Run) {
	for ok, later := s.memory.Place(r.id, false); !ok; ok, later = s.memory.Place(r.id, false) {
		select {
		case <-later:
		case <-r.ctx.Done():
			return
		}
	}
}

// queuedAt returns when the run's time in the queue began: after its approval, if it needed one.
func (r *Run) queuedAt() time.Time {
	if a := r.Snapshot().Approval; a != nil && a.DecidedAt != nil {
		return *a.DecidedAt
	}
	return r.state.CreatedAt
}
