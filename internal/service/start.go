package service

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/store"
)

// start accepts a run: from a request to a row on record and a run on its way.
func (s *Service) start(ctx context.Context, caller belljar.Caller, req belljar.RunRequest) (belljar.Run, error) {
	_, run, err := s.accept(ctx, caller, req, false)
	return run, err
}

// accept is start for a caller who may wait for the run's end, so that it may begin as a draft. A repeated request has
// an answer and no run.
func (s *Service) accept(ctx context.Context, caller belljar.Caller, req belljar.RunRequest, waited bool) (r *run, first belljar.Run, err error) {
	key, prior, err := s.claim(ctx, endpointRuns, caller, req.IdempotencyKey, req.RunSpec)
	if err != nil {
		return nil, first, err
	}
	if prior != nil {
		first, err = replayRun(prior)
		return nil, first, err
	}
	p, err := s.admit(ctx, caller, req)
	if err != nil {
		return nil, first, err
	}
	if err := s.accounts.Room(ctx, caller.ID); err != nil {
		return nil, first, err
	}
	quota, err := s.accounts.Quota(ctx, caller.ID)
	if err == nil {
		err = s.accounts.Afford(ctx, caller.ID, quota)
	}
	if err != nil {
		return nil, first, err
	}
	kept, err := s.accounts.AffordLog(ctx, caller.ID, quota)
	if err != nil {
		return nil, first, err
	}
	r = s.newRun(caller, p, belljar.NewID(), s.now())
	r.kept = kept
	r.draft = waited && key == nil && p.session != nil
	first, err = s.enrol(ctx, r, quota, key)
	if first.ID != r.id { // another request with the key was sooner, and ours goes nowhere
		r = nil
	}
	return r, first, err
}

// enrol gives a run its place in the queue, puts it on record with its key, and sets it going.
func (s *Service) enrol(ctx context.Context, r *run, quota belljar.Quota, key *store.Key) (first belljar.Run, err error) {
	if err := s.enter(r, quota); err != nil {
		r.kept.Close()
		return first, err
	}
	if !r.ticket.Waited() {
		r.state.Phase = belljar.PhaseStarting
	}
	// The log comes first: what has no row is swept, what has one can be read.
	if r.log, err = s.carrier.newLog(r); err != nil {
		s.withdraw(r)
		return first, fault.Record("make the log of a run", err)
	}
	r.say(phaseFrame(r.state.Phase))
	if err := s.register(r); err != nil {
		s.abandon(r)
		return first, err
	}
	first = r.snapshot()
	if r.draft {
		s.carrier.happened(event.RunCreated, r, 0)
		s.launch(r)
		return first, nil
	}
	if key != nil {
		key.ObjectID = r.id
		if key.Response, err = json.Marshal(first); err != nil {
			return first, err
		}
		first.Details = &belljar.Replay{Key: key.Key, Status: keyCreated}
	}
	// A caller who goes away now must not leave it open whether the run is on record.
	prior, err := s.opts.Store.Runs().Insert(context.WithoutCancel(ctx), s.carrier.row(r), key)
	if err != nil || prior != nil {
		s.unregister(r)
		s.abandon(r)
		s.work.Done()
		if err != nil {
			return first, fault.Record("put the run on record", err)
		}
		if err := sameRequest(key, prior); err != nil {
			return first, err
		}
		return replayRun(prior)
	}
	s.carrier.happened(event.RunCreated, r, 0)
	s.launch(r)
	return first, nil
}

// launch sets a run going that is on record, or will be, and lets its time in the queue begin.
func (s *Service) launch(r *run) {
	if r.draft {
		s.carrier.draw(r)
	} else {
		s.carrier.beat(r)
	}
	r.unexpire = func() bool { return false }
	if r.ticket.Waited() {
		r.unexpire = s.clock.AfterFunc(s.opts.QueueTTL, func() { r.stop(fault.ErrQueueTTL) })
	}
	go s.carrier.carry(r)
}

// abandon removes what a run that was not accepted has left.
func (s *Service) abandon(r *run) {
	r.stop(nil)
	s.withdraw(r)
	if err := s.opts.Logs.Remove(r.id); err != nil {
		s.log.Error("log could not be removed", "run_id", r.id, "err", err)
	}
}

// queueFull refuses a run that there is no place for in a queue.
func (s *Service) queueFull(q *queue.Queue, runtime string) error {
	s.carrier.count(event.QueueFull, runtime, "queue_full", 1)
	after := q.Relief().Seconds()
	return &belljar.Error{
		Code: belljar.CodeRateLimited, Message: "the queue is full",
		Details: map[string]any{
			"queue_max_length": s.opts.QueueLength, "retry_after_sec": int(math.Ceil(min(max(after, 1), s.opts.QueueTTL.Seconds()))),
		},
		Hint: "send the same request again later",
	}
}

// wait waits for the run's turn. It reports false if the run is to wait on in the store, after a restart.
func (s *carrier) wait(r *run) bool {
	if !r.ticket.Waited() {
		s.happened(event.RunStarting, r, 0)
		return true
	}
	s.happened(event.RunQueued, r, 0)
	select {
	case <-r.ticket.Ready():
	case <-r.ctx.Done():
	}
	r.unexpire()
	if why := context.Cause(r.ctx); why != nil {
		return !errors.Is(why, fault.ErrShutdown) || !r.resumable() || !s.outlives()
	}
	if err := s.become(r, belljar.PhaseStarting); err != nil {
		s.log.Error("run could not be started", "run_id", r.id, "err", err)
	}
	s.note(r)
	s.happened(event.RunStarting, r, s.now().Sub(r.state.CreatedAt))
	return true
}

// outlives reports whether what is on record outlives the process.
func (s *Service) outlives() bool { return s.opts.Store.Mode() != "memory" }

// stays reports whether sessions outlive the process, and what runs in them.
func (s *Service) stays() bool {
	return s.opts.Lifetime == runtime.LifetimeDetached && s.outlives() && !s.opts.EndSessions
}

// openLog opens the log of a run of a former process, or begins one.
func (s *Service) openLog(id string) (logbook.Log, error) {
	log, err := s.opts.Logs.Open(id)
	if errors.Is(err, logbook.ErrNotFound) {
		return s.opts.Logs.Create(id)
	}
	return log, err
}
