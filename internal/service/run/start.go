package run

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/idempotency"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/store"
)

// Start admits a run and starts or queues it.
func (s *Runs) Start(ctx context.Context, caller belljar.Caller, req belljar.RunRequest) (belljar.Run, error) {
	_, run, err := s.accept(ctx, caller, req, false)
	return run, err
}

// accept is Start for a caller that may wait for the run's end (waited), so that it may begin as a draft. For a repeated
// request, r is nil and first is the response.
func (s *Runs) accept(ctx context.Context, caller belljar.Caller, req belljar.RunRequest, waited bool) (r *Run, first belljar.Run, err error) {
	done, err := s.opts.Keys.Turn(ctx, idempotency.Runs, caller, req.IdempotencyKey)
	if err != nil {
		return nil, first, err
	}
	defer done()
	key, prior, err := s.opts.Keys.Claim(ctx, idempotency.Runs, caller, req.IdempotencyKey, req.RunSpec)
	if err != nil {
		return nil, first, err
	}
	if prior != nil {
		first, err = replay(prior)
		return nil, first, err
	}
	p, err := s.admitter.admit(ctx, caller, req)
	if err != nil {
		return nil, first, err
	}
	if err := s.runner.accounts.Room(ctx, caller.ID); err != nil {
		return nil, first, err
	}
	if err := s.runner.accounts.CheckDay(ctx, caller.ID, p.network() || p.git != nil || !p.request.Packages.IsZero()); err != nil {
		return nil, first, err
	}
	quota, err := s.runner.accounts.Quota(ctx, caller.ID)
	if err != nil {
		return nil, first, err
	}
	asks, err := askFor(s, caller, p)
	if err != nil {
		return nil, first, err
	}
	id := belljar.NewID()
	if p.sealed, err = s.opts.Secrets.Seal(id, p.request.Secrets, p.Broker); err != nil {
		return nil, first, err
	}
	kept, err := s.runner.accounts.AffordLog(ctx, caller.ID, quota) // last: a refusal from here on must close it
	if err != nil {
		return nil, first, err
	}
	r = s.create(caller, p, id, s.runner.now())
	r.kept = kept
	r.draft = waited && key == nil && p.session != nil && asks == nil
	if asks != nil {
		if err := ask(s, r, *asks); err != nil {
			r.kept.Close()
			return nil, first, err
		}
	}
	first, err = s.enrol(ctx, r, quota, key)
	if first.ID != r.id { // a concurrent request with the key was faster, and this run does not start
		r = nil
	}
	return r, first, err
}

// enrol gives a run its place in the queue, records it with its key, and launches it.
func (s *Runs) enrol(ctx context.Context, r *Run, quota belljar.Quota, key *store.Key) (first belljar.Run, err error) {
	if err := s.enter(r, quota); err != nil {
		r.withdrawApproval(true)
		r.kept.Close()
		return first, err
	}
	if !r.ticket.Waited() {
		if ok, _ := s.runner.memory.Place(r.id, false); ok {
			r.state.Phase = belljar.PhaseStarting
		}
	}
	// Create the log first: a log without a record is swept, but a record must always have its log.
	if r.log, err = s.runner.newLog(r); err != nil {
		s.withdraw(r)
		return first, fault.Record("make the log of a run", err)
	}
	r.appendLog(phaseFrame(r.state.Phase))
	if r.asked != nil {
		r.appendLog(approvalFrame(*r.state.Approval))
	}
	if err := s.register(r); err != nil {
		s.abandon(r)
		return first, err
	}
	first = r.Snapshot()
	if r.draft {
		s.runner.happened(event.RunCreated, r, 0)
		s.launch(r)
		return first, nil
	}
	if key != nil {
		key.ObjectID = r.id
		if key.Response, err = json.Marshal(first); err != nil {
			return first, err
		}
		first.Details = &belljar.Replay{Key: key.Key, Status: idempotency.Created}
	}
	// If the caller disconnects now, it must still be definite whether the run is on record.
	prior, err := s.runner.store.Insert(context.WithoutCancel(ctx), s.runner.row(r), key)
	if err != nil || prior != nil {
		s.unregister(r)
		s.abandon(r)
		s.runner.work.Done()
		if err != nil {
			return first, fault.Record("put the run on record", err)
		}
		if err := idempotency.Same(key, prior); err != nil {
			return first, err
		}
		return replay(prior)
	}
	s.runner.happened(event.RunCreated, r, 0)
	s.opts.Secrets.RecordUse(r.caller, r.plan.used)
	if r.asked != nil {
		if err = r.asked.Wait(ctx, waiter{runs: s, run: r}); err != nil {
			r.stop(err)
			s.opts.Keys.Release(key, r.id)
		}
	}
	s.launch(r)
	return first, err
}

// launch executes a run that is on record, or will be. Its time in the queue begins.
func (s *Runs) launch(r *Run) {
	if r.draft {
		s.runner.flushLater(r, draftFor)
	} else {
		s.runner.startHeartbeat(r)
	}
	if r.waiting() && !r.parked {
		s.runner.startQueueTTL(r)
	}
	go s.runner.carry(r)
}

// startQueueTTL bounds a run's time in the queue, unless it is a command of a shell: clients rely on each being run, in order.
func (s *runner) startQueueTTL(r *Run) {
	if !r.ordered {
		r.cancelQueueTTL = s.clock.AfterFunc(s.queueTTL, func() { r.stop(fault.ErrQueueTTL) })
	}
}

// abandon cleans up after a run that is not started.
func (s *Runs) abandon(r *Run) {
	r.stop(nil)
	s.withdraw(r)
	if err := s.runner.logs.Remove(r.id); err != nil {
		s.runner.log.Error("log cannot be removed", "run_id", r.id, "err", err)
	}
	close(r.done) // for a server that ends meanwhile
}

// queueFull refuses a run because its queue is full.
func (s *Runs) queueFull(q *queue.Queue, runtime string) error {
	s.runner.count(event.QueueFull, runtime, "queue_full", 1)
	after := q.RetryAfter().Seconds()
	return &belljar.Error{
		Code: belljar.CodeRateLimited, Message: "the queue is full",
		Details: map[string]any{
			"queue_max_length": s.opts.QueueLength, "retry_after_sec": int(math.Ceil(min(max(after, 1), s.runner.queueTTL.Seconds()))),
		},
		Hint: "send the same request again later",
	}
}

// wait waits for a slot for a queued run, and then for memory. It returns false for a run that stays queued on record, for the next process.
func (s *runner) wait(r *Run) bool {
	s.happened(event.RunQueued, r, 0)
	select {
	case <-r.ticket.Ready():
		s.awaitMemory(r)
	case <-r.ctx.Done():
	}
	r.cancelQueueTTL()
	why := s.become(r, belljar.PhaseStarting) // fails if the run must stop
	stays := errors.Is(why, fault.ErrShutdown) && r.resumable() && s.recordsSurvive
	r.withdrawApproval(stays)
	if why != nil {
		return !stays
	}
	s.happened(event.RunStarting, r, s.now().Sub(r.queuedAt()))
	s.note(r)
	return true
}

// replay returns the response to a repeated request for a run.
func replay(prior *store.Key) (run belljar.Run, err error) {
	note, err := idempotency.Replay(prior, &run)
	run.Details = note
	return run, err
}
