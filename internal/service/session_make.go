package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

// createSession takes a session from its request to a sandbox that can be used.
func (s *Service) createSession(ctx context.Context, caller belljar.Caller, req belljar.SessionRequest) (belljar.Session, error) {
	key, prior, err := s.claim(ctx, endpointSessions, caller, req.IdempotencyKey, req.SessionSpec)
	if err != nil {
		return belljar.Session{}, err
	}
	if prior != nil {
		return s.replaySession(ctx, caller, prior)
	}
	x, err := s.admitSession(ctx, caller, req.SessionSpec)
	if err == nil {
		err = s.accounts.Room(ctx, caller.ID)
	}
	if err == nil {
		err = s.enterSession(ctx, x)
	}
	if err != nil {
		return belljar.Session{}, err
	}
	if key == nil {
		s.drawSession(x)
	} else if prior, err = s.enrolSession(ctx, x, key); err != nil || prior != nil {
		s.forget(x, err)
		if err != nil {
			return belljar.Session{}, err
		}
		if err := sameRequest(key, prior); err != nil {
			return belljar.Session{}, err
		}
		return s.replaySession(ctx, caller, prior)
	}
	if err := s.makeSession(ctx, x); err != nil {
		s.unmake(x, key, err)
		return belljar.Session{}, err
	}
	made := x.snapshot()
	s.recordSession(event.SessionCreated, x.caller, made, s.clock.Now().Sub(made.CreatedAt))
	if key != nil {
		made.Details = &belljar.Replay{Key: key.Key, Status: keyCreated}
	}
	return made, nil
}

// forget takes a session back that did not get on record.
func (s *Service) forget(x *session, fault error) {
	s.sessions.leave(x)
	x.mu.Lock()
	x.fault = fault
	x.endLocked(belljar.SessionClosed, "it was not made", fault)
	x.mu.Unlock()
	close(x.ready)
	close(x.over)
}

// admitSession checks a request against everything that can be known before its sandbox exists.
func (s *Service) admitSession(ctx context.Context, caller belljar.Caller, spec belljar.SessionSpec) (*session, error) {
	if err := s.checkSession(spec); err != nil {
		return nil, err
	}
	spec.Env, spec.Labels = maps.Clone(spec.Env), maps.Clone(spec.Labels)
	if err := s.rules.Enabled(); err != nil {
		return nil, err
	}
	p, err := s.rules.Place(ctx, caller, admission.AskOfSession(spec))
	if err != nil {
		return nil, err
	}
	return s.newSession(caller, spec, &p, s.termsOf(spec)), nil
}

// enrolSession puts a session on record, with its key, if it has one. A crash from here on leaves a name to clean up.
func (s *Service) enrolSession(ctx context.Context, x *session, key *store.Key) (prior *store.Key, err error) {
	row := x.row()
	if key != nil {
		key.ObjectID = x.id
		if key.Response, err = json.Marshal(row.Session); err != nil {
			return nil, err
		}
	}
	prior, err = s.opts.Store.Sessions().Insert(context.WithoutCancel(ctx), row, key)
	switch {
	case errors.Is(err, store.ErrExists):
		return nil, s.taken(ctx, x)
	case err != nil:
		return nil, fault.Record("put the session on record", err)
	}
	x.life.recorded = row.ExpiresAt
	return prior, nil
}

// makeSession makes a session's sandbox within its startup timeout. It gives up when the caller goes away, or the
// session is to end.
func (s *Service) makeSession(ctx context.Context, x *session) error {
	limit := seconds(x.place.Limits.StartupTimeoutSec)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(x.ctx, func() { cancel(context.Cause(x.ctx)) })()
	ctx, end := context.WithTimeoutCause(ctx, limit, fault.ErrStartupTimeout)
	defer end()
	b, err := s.boxes.Make(ctx, box.Order{
		ID: x.id, Caller: x.caller, Placement: x.place, Know: x.know,
		Made: func(sandbox runtime.Sandbox) { s.node.Hold(x.id, sandbox, x.starved) },
	})
	if b == nil {
		return makeError(x, err)
	}
	if err == nil {
		err = s.noteActive(x)
	}
	if err == nil {
		x.typed() // its time begins now
		x.hits.New()
	}
	if err == nil && !x.begin(b) {
		err = context.Cause(x.ctx)
	}
	if err != nil {
		s.boxes.Destroy(x.id, b)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return makeError(x, err)
	}
	go x.watch(b)
	return nil
}

// noteActive puts on record that a session is about to be active.
func (s *Service) noteActive(x *session) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	row := x.row()
	row.State = belljar.SessionActive
	if x.draft {
		return s.enlistSession(x, row)
	}
	if err := s.opts.Store.Sessions().Update(context.Background(), row); err != nil {
		return fault.Record("put the session on record", err)
	}
	return nil
}

// begin makes a session active, unless it was ended while its sandbox was made.
func (x *session) begin(j *box.Box) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state.State.Ended() {
		return false
	}
	x.jar, x.state.State = j, belljar.SessionActive
	x.wind(x.service.now())
	close(x.ready)
	return true
}

// unmake ends a session whose sandbox could not be made. Its key is given up: whoever sends it again tries again.
func (s *Service) unmake(x *session, key *store.Key, fault error) {
	s.keepSession(x)
	x.mu.Lock()
	x.fault = fault
	state := belljar.SessionCrashed
	switch {
	case s.work.Closing().Err() != nil:
		state = belljar.SessionLost
	case belljar.CodeOf(fault) == belljar.CodeCanceled:
		state = belljar.SessionClosed
	}
	x.endLocked(state, fault.Error(), nil)
	x.mu.Unlock()
	if key != nil {
		err := s.opts.Store.Keys().Delete(context.Background(), key.Endpoint, key.UserKey, key.Key, x.id)
		if err != nil {
			s.log.Error("idempotency key could not be given up", "session_id", x.id, "err", err)
		}
	}
	close(x.ready)
	x.bury()
}

// makeError is what a caller hears of a sandbox that could not be made.
func makeError(x *session, err error) error {
	var step *runtime.StepError
	var fetching *box.FetchError
	e := &belljar.Error{Code: belljar.CodeInternal, Message: "the session's sandbox could not be made", Err: err,
		Details: map[string]any{"session_id": x.id}}
	switch {
	case errors.Is(err, fault.ErrStartupTimeout):
		e.Code, e.Err = belljar.CodeTimeout, nil
		e.Message, e.Hint = notReady(x.place.Limits, err)
		e.Hint = cmp.Or(e.Hint, "allow more with startup_timeout_sec")
	case errors.Is(err, fault.ErrShutdown):
		return fault.ShuttingDown()
	case errors.Is(err, fault.ErrCanceled), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Code, e.Message, e.Err = belljar.CodeCanceled, "the session was given up while its sandbox was made", nil
	case errors.As(err, &fetching):
		return aboutSession(fetching.Reason(), x.id)
	case errors.As(err, &step):
		e.Code, e.Hint = belljar.CodeRuntimeUnavailable, step.Hint
		e.Details["runtime"], e.Details["step"] = x.place.Host.Name(), step.Step
	case belljar.CodeOf(err) != belljar.CodeInternal:
		return err
	}
	return e
}

// aboutSession adds to an error which session it is about.
func aboutSession(err *belljar.Error, id string) error {
	e := *err
	e.Details = maps.Clone(e.Details)
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details["session_id"] = id
	return &e
}

// replaySession answers a repeated request for a session with that session as it is now, once it can be used.
func (s *Service) replaySession(ctx context.Context, caller belljar.Caller, prior *store.Key) (belljar.Session, error) {
	x, row, err := s.findSession(ctx, caller, prior.ObjectID)
	if err != nil {
		return belljar.Session{}, err
	}
	answer := row.Session
	if x != nil {
		select {
		case <-x.ready:
		case <-ctx.Done():
			return belljar.Session{}, context.Cause(ctx)
		}
		x.mu.Lock()
		fault := x.fault
		x.mu.Unlock()
		if fault != nil {
			return belljar.Session{}, fault
		}
		answer = x.snapshot()
	}
	answer.Details = &belljar.Replay{Key: prior.Key, Status: keyReplayed}
	return answer, nil
}
