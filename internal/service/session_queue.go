package service

import (
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/queue"
)

// queueOf is the queue that a run waits in: its session's, whose sandbox bounds what goes on in it, that of its session's
// shell, or the node's.
func (s *Service) queueOf(p *plan) *queue.Queue {
	switch {
	case p.request.Shell != nil:
		return p.session.line
	case p.session != nil:
		return p.session.queue
	}
	return s.queue
}

// enter takes a run's place in its queue. Its owner's quota bounds how many of his runs go at once, in all sessions
// and none, and what their sandboxes may use together.
func (s *Service) enter(r *run, quota belljar.Quota) (err error) {
	if r.uncharge, err = s.budget.Charge(r.owner, r.plan.request); err != nil {
		s.carrier.count(event.QueueFull, r.state.Runtime, "requests_too_large", 1)
		return err
	}
	x := r.plan.session
	if x != nil {
		err = x.book()
	} else {
		err = s.node.Claim(r.id, r.owner, &r.plan.Placement, quota)
	}
	if err != nil {
		r.discharge()
		return err
	}
	q := s.queueOf(r.plan)
	if r.ticket, err = q.Enter(r.owner, quota.ConcurrentRuns); err == nil {
		return nil
	}
	s.node.Drop(r.id)
	r.discharge()
	if x != nil {
		x.unbook()
	}
	return s.queueFull(q, r.state.Runtime)
}

// withdraw gives up the place of a run that does not get on its way.
func (s *Service) withdraw(r *run) {
	r.ticket.Leave()
	r.discharge()
	r.kept.Close()
	s.node.Drop(r.id)
	if x := r.plan.session; x != nil {
		x.unbook()
	}
}

// book counts a run among those of a session's whole life. One that does not get on its way is given back.
func (x *session) book() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch most := x.terms.runs; {
	case x.state.State.Ended():
		return sessionEnded(x.state)
	case most > 0 && x.state.Runs >= most:
		return &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("the session has had its %d runs", most),
			Details: map[string]any{"quota": "max_runs", "used": x.state.Runs, "limit": most, "session_id": x.id},
			Hint:    "make a session with a larger max_runs",
		}
	}
	x.state.Runs++
	x.touch()
	return nil
}

// unbook gives back a run that did not get on its way.
func (x *session) unbook() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state.Runs--
}
