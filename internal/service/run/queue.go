package run

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
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

// openContext creates the context of an accepted run, if it does not exist. A refused request must not create one.
func (s *Runs) openContext(p *plan) error {
	if p.request.Context == "" {
		return nil
	}
	return p.session.Contexts.Use(p.request.Context, p.request.Language, s.now())
}

// enter gives a run its place in its queue. Its owner's quota bounds how many of the owner's runs execute at the same time,
// inside and outside of sessions, and the resources of their sandboxes together.
func (s *Runs) enter(r *Run, quota belljar.Quota) (err error) {
	if r.releaseBudget, err = s.opts.Budget.Charge(r.owner, r.plan.request); err != nil {
		s.count(event.QueueFull, r.state.Runtime, "requests_too_large", 1)
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
		err = s.memory.Claim(r.id, r.owner, &r.plan.Placement, quota)
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
	s.memory.Drop(r.id)
	r.releaseRequest()
	if x != nil {
		x.RemoveRun()
	}
	return s.queueFull(q, r.state.Runtime)
}

// withdraw releases the reservations of a run that is not started.
func (s *Runs) withdraw(r *Run) {
	r.withdrawApproval(true)
	r.ticket.Leave()
	r.releaseRequest()
	r.kept.Close()
	s.memory.Drop(r.id)
	if x := r.plan.session; x != nil {
		x.RemoveRun()
	}
}

// awaitMemory waits until the node's memory has room for the run's sandbox, at most as long as a run may wait in the queue.
func (s *runner) awaitMemory(r *Run) error {
	ok, later := s.memory.Place(r.id, false)
	if ok {
		return nil
	}
	s.count(event.QueueFull, r.state.Runtime, "node_memory", 1)
	defer s.clock.AfterFunc(s.queueTTL, func() { r.stop(fault.ErrQueueTTL) })()
	for !ok {
		select {
		case <-later:
			ok, later = s.memory.Place(r.id, false)
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
	}
	return nil
}
