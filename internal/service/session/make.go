package session

import (
	"cmp"
	"context"
	"errors"
	"maps"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/git"
	"github.com/belljar/belljar/internal/service/idempotency"
	"github.com/belljar/belljar/internal/service/install"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/secret"
	"github.com/belljar/belljar/internal/service/snapshot"
	"github.com/belljar/belljar/internal/store"
)

// Create makes a session and its sandbox, and returns when it is usable.
func (s *Sessions) Create(ctx context.Context, caller belljar.Caller, req belljar.SessionRequest) (belljar.Session, error) {
	return create(ctx, s, caller, req, nil)
}

// create is Create for a session that is a copy of another one, unless from is nil.
func create(ctx context.Context, s *Sessions, caller belljar.Caller, req belljar.SessionRequest, from *original) (belljar.Session, error) {
	for {
		made, err := try(ctx, s, caller, req, from)
		if !errors.Is(err, errGivenUp) {
			return made, err
		}
	}
}

// errGivenUp means that the caller of the first request disconnected, and its key is free for the next request.
var errGivenUp = errors.New("the first request was given up")

// try is create, except that it fails with errGivenUp if it waits for a concurrent request with the same key whose caller disconnects.
func try(ctx context.Context, s *Sessions, caller belljar.Caller, req belljar.SessionRequest, from *original) (belljar.Session, error) {
	done, err := s.opts.Keys.Turn(ctx, idempotency.Sessions, caller, req.IdempotencyKey)
	if err != nil {
		return belljar.Session{}, err
	}
	defer done()
	key, prior, err := s.opts.Keys.Claim(ctx, idempotency.Sessions, caller, req.IdempotencyKey, req.SessionSpec)
	if err != nil {
		return belljar.Session{}, err
	}
	if prior != nil {
		return s.replay(ctx, prior)
	}
	x, err := s.admit(ctx, caller, req.SessionSpec)
	if err == nil {
		err = s.opts.Accounts.Room(ctx, caller.ID)
	}
	if err == nil {
		err = s.opts.Accounts.CheckDay(ctx, caller.ID, x.place.Egress != nil || x.gitPlace != nil || !x.spec.Packages.IsZero())
	}
	if err == nil {
		if x.from = from; from != nil {
			x.state.SnapshotDigest, x.state.RuntimeReason = from.files.Digest(), "it is the session's"
			err = inherit(x, from.limits)
		}
	}
	if err == nil {
		err = x.Approval.take()
	}
	if err == nil && from != nil && x.Approval.entry != nil {
		x.Approval.withdraw(true)
		err = errAsks
	}
	if err == nil {
		if err = s.enter(ctx, x); err != nil {
			x.Approval.withdraw(true)
		}
	}
	if err != nil {
		return belljar.Session{}, err
	}
	if key == nil && x.Approval.entry == nil {
		s.beginDraft(x)
	} else {
		prior, err = s.insertWithKey(ctx, x, key)
	}
	done()
	if err != nil || prior != nil {
		s.discard(x, err)
		if err != nil {
			return belljar.Session{}, err
		}
		if err := idempotency.Same(key, prior); err != nil {
			return belljar.Session{}, err
		}
		return s.replay(ctx, prior)
	}
	s.opts.Secrets.RecordUse(caller, x.used)
	if x.Approval.entry != nil {
		return s.await(ctx, x, key)
	}
	if err := s.makeSandbox(ctx, x); err != nil {
		s.abort(x, key, err)
		return belljar.Session{}, err
	}
	made := x.Snapshot()
	if key != nil {
		made.Details = &belljar.Replay{Key: key.Key, Status: idempotency.Created}
	}
	return made, nil
}

// admit makes all checks of a request that are possible before its sandbox exists.
func (s *Sessions) admit(ctx context.Context, caller belljar.Caller, spec belljar.SessionSpec) (*Session, error) {
	if err := s.check(spec); err != nil {
		return nil, err
	}
	spec.Env, spec.Labels = maps.Clone(spec.Env), maps.Clone(spec.Labels)
	if err := s.opts.Rules.Enabled(); err != nil {
		return nil, err
	}
	spec, of, err := s.opts.Templates.Session(ctx, caller, spec)
	if err != nil {
		return nil, err
	}
	p, err := s.opts.Rules.Place(ctx, caller, admission.RequestOfSession(spec))
	var used secret.Used
	if err == nil {
		spec.Secrets, used, err = s.opts.Secrets.Resolve(ctx, caller, spec.Secrets)
	}
	if err == nil {
		p.Broker, err = s.opts.Secrets.Broker(&p, spec.Secrets, spec.Git)
	}
	if err != nil {
		return nil, err
	}
	side, err := s.opts.Rules.PlaceGit(ctx, caller, &p, admission.RequestOfSession(spec), spec.Git)
	if err == nil {
		err = s.opts.Secrets.BrokerGit(side, spec.Git, spec.Secrets)
	}
	if err != nil {
		return nil, err
	}
	saved, err := findSnapshot(ctx, s, caller, spec)
	if err != nil {
		return nil, err
	}
	x := s.create(caller, spec, &p, s.termsOf(spec))
	x.state.Template, x.state.SnapshotDigest = of.Name, cmp.Or(saved.Digest, of.SnapshotDigest)
	if x.gitPlace = side; spec.Git != nil {
		x.state.Git = &belljar.GitSource{URL: spec.Git.URL, Ref: spec.Git.Ref}
	}
	x.used = used
	x.sealed, err = s.opts.Secrets.Seal(x.id, spec.Secrets, p.Broker)
	return x, err
}

// enter adds a session to the table, after the previous session of its scope has ended.
func (s *Sessions) enter(ctx context.Context, x *Session) error {
	for {
		other, err := s.table.enter(x, s.opts.MaxPerUser, s.opts.MaxPerNode)
		if other == nil && err == nil && x.Approval.entry == nil {
			if err = s.claimMemory(ctx, x); err != nil {
				s.discard(x, err)
			}
		}
		switch {
		case other == nil:
			return err
		case other.Snapshot().State.Ended():
			if err := other.wait(ctx); err != nil {
				return err
			}
		default:
			return scopeTaken(x.scope, other.id, errScopeInUse)
		}
	}
}

// claimMemory reserves memory for a session's sandbox.
func (s *Sessions) claimMemory(ctx context.Context, x *Session) error {
	quota, err := s.opts.Accounts.Quota(ctx, x.caller.ID)
	if err == nil {
		err = s.opts.Memory.Claim(x.id, x.caller.ID, x.place, quota)
	}
	if err != nil {
		return err
	}
	if ok, _ := s.opts.Memory.Place(x.id, false); !ok {
		s.opts.Record(event.Event{Name: event.QueueFull, Runtime: x.place.Host.Name(), Reason: "node_memory", Count: 1})
		return s.opts.Memory.Full()
	}
	return nil
}

// discard removes a session that could not be recorded.
func (s *Sessions) discard(x *Session, fault error) {
	x.Approval.withdraw(true)
	s.remove(x)
	x.mu.Lock()
	x.fault = fault
	x.endLocked(belljar.SessionClosed, "it was not made", fault)
	x.mu.Unlock()
	close(x.ready)
	close(x.over)
}

// insertWithKey records a session, with its key unless that is nil. If the process dies from here on, the next one finds the session and cleans
// up after it.
func (s *Sessions) insertWithKey(ctx context.Context, x *Session, key *store.Key) (prior *store.Key, err error) {
	row := x.row()
	if key != nil {
		key.ObjectID = x.id // a repeated request gets the session's current record
	}
	prior, err = s.opts.Store.Insert(context.WithoutCancel(ctx), row, key)
	switch {
	case errors.Is(err, store.ErrExists):
		return nil, s.taken(ctx, x)
	case err != nil:
		return nil, fault.Record("put the session on record", err)
	}
	x.life.recorded = row.ExpiresAt
	return prior, nil
}

// makeSandbox makes a session's sandbox within its startup timeout. It stops when the caller disconnects, or the session must end.
func (s *Sessions) makeSandbox(ctx context.Context, x *Session) error {
	limit := clock.Seconds(x.place.Limits.StartupTimeoutSec)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(x.ctx, func() { cancel(context.Cause(x.ctx)) })()
	tree, err := x.clone(ctx)
	if err != nil {
		return makeError(x, err)
	}
	defer tree.Close()
	from, err := beginning(ctx, x)
	if err != nil {
		return makeError(x, err)
	}
	packages, err := preparePackages(ctx, x, limit)
	if err != nil {
		return makeError(x, err)
	}
	s.opts.Memory.Settle(x.id, x.Placement())
	if err := furnish(ctx, x, packages, from, tree); err != nil {
		return makeError(x, err)
	}
	return nil
}

// furnish makes a session's sandbox, with its initial files, and activates the session.
func furnish(ctx context.Context, x *Session, packages *install.Ready, from *snapshot.Source, tree *git.Tree) error {
	s := x.all
	ctx, end := context.WithTimeoutCause(ctx, clock.Seconds(x.place.Limits.StartupTimeoutSec), fault.ErrStartupTimeout)
	defer end()
	b, err := makeBox(ctx, x, packages, from)
	if b == nil {
		return err
	}
	if err == nil {
		err = tree.Unpack(ctx, b)
	}
	if err == nil {
		b.Hidden = secret.Patterns(x.spec.Secrets)
		err = b.WriteSecrets(ctx, x.spec.Secrets)
	}
	if err == nil {
		err = from.Start(ctx, b, Use{b, x, ctx}.Execution())
	}
	if err == nil {
		err = s.activate(x, b)
	}
	if err != nil {
		s.opts.Boxes.Destroy(x.id, b)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	go x.watch(b)
	return nil
}

// activate makes a session active, first on record. Nothing may write the record in between, because it would write the old state.
func (s *Sessions) activate(x *Session, b *box.Box) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	row := x.row()
	row.State, row.Hibernation = belljar.SessionActive, awake(x)
	if x.draft {
		if err := s.insert(x, row); err != nil {
			return err
		}
	} else if err := s.opts.Store.Update(context.Background(), row); err != nil {
		return fault.Record("put the session on record", err)
	}
	x.Touch() // its time begins now
	b.Shared.New()
	recordCreated(x) // first, because its end may be recorded as soon as it is usable
	if !x.begin(b) {
		return context.Cause(x.ctx)
	}
	return nil
}

// recordCreated records the event of a session that is about to become usable, unless it wakes, or has been ended.
func recordCreated(x *Session) {
	made := x.Snapshot()
	x.mu.Lock()
	wakes := x.asleep.saved != nil
	x.made = x.made || !wakes && !made.State.Ended()
	x.mu.Unlock()
	if wakes || made.State.Ended() {
		return
	}
	since := made.CreatedAt
	if a := made.Approval; a != nil && a.DecidedAt != nil {
		since = *a.DecidedAt
	}
	made.State = belljar.SessionActive
	x.all.opts.Record(event.Event{
		Name: event.SessionCreated, Caller: x.caller, Session: &made, Runtime: made.Runtime, Took: x.all.now().Sub(since),
		Detail: placement.Waived(x.Placement().Caps, x.spec.AllowWeak),
	})
}

// begin makes a session active, unless it was ended while its sandbox was made.
func (x *Session) begin(b *box.Box) bool {
	place := x.Placement()
	b.Shared.Most(place.InForce())
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state.State.Ended() {
		return false
	}
	x.box, x.state.State, x.missed = b, belljar.SessionActive, 0
	x.asleep.enterBox()
	x.setTimer(x.all.now())
	if x.asleep.saved == nil {
		close(x.ready)
	}
	x.asleep.over()
	return true
}

// enterBox begins the period in which the session has its sandbox. The caller holds the lock.
func (h *hibernation) enterBox() { h.of.inside, h.of.leave = context.WithCancelCause(h.of.ctx) }

// abort ends a session whose sandbox could not be made. It releases the key, so that the same request can retry.
func (s *Sessions) abort(x *Session, key *store.Key, fault error) {
	s.insertDraft(x)
	x.mu.Lock()
	x.fault = fault
	state := belljar.SessionCrashed
	switch {
	case s.opts.Work.Closing().Err() != nil:
		state = belljar.SessionLost
	case belljar.CodeOf(fault) == belljar.CodeCanceled:
		state = belljar.SessionClosed
	}
	x.endLocked(state, fault.Error(), nil)
	x.mu.Unlock()
	s.opts.Keys.Release(key, x.id)
	close(x.ready)
	x.recordEnd()
}

// makeError returns the error for a caller whose sandbox could not be made.
func makeError(x *Session, err error) error {
	var step *runtime.StepError
	var fetching *box.FetchError
	var cloning *git.Error
	var refused *wire.Error
	e := &belljar.Error{Code: belljar.CodeInternal, Message: "the session's sandbox could not be made", Err: err,
		Details: map[string]any{"session_id": x.id}}
	switch {
	case errors.Is(err, fault.ErrStartupTimeout):
		e.Code, e.Err = belljar.CodeTimeout, nil
		e.Message, e.Hint = box.NotReady(x.place.Limits, err)
		e.Hint = cmp.Or(e.Hint, "allow more with startup_timeout_sec")
	case errors.Is(err, fault.ErrShutdown):
		return fault.ShuttingDown()
	case errors.Is(err, fault.ErrCanceled), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Code, e.Message, e.Err = belljar.CodeCanceled, "the request for the session was cancelled while its sandbox was made", nil
	case errors.As(err, &fetching):
		return aboutSession(fetching.Reason(), x.id)
	case errors.As(err, &cloning):
		return aboutSession(cloning.Err, x.id)
	case errors.As(err, &refused) && refused.Code == wire.CodeNoSpace: // a repository on a volume
		field, _ := fault.Larger(x.spec.Workspace)
		e.Code, e.Message, e.Hint = belljar.CodeTooLarge, "the workspace has no room for what the session begins with", fault.RoomHint(x.spec.Workspace, false)
		e.Details["field"], e.Details["rule"] = field, "workspace_mb"
	case errors.As(err, &step):
		e.Code, e.Hint = belljar.CodeRuntimeUnavailable, step.Hint
		e.Details["runtime"], e.Details["step"] = x.place.Host.Name(), step.Step
		if errors.Is(err, runtime.ErrFull) {
			e.Details["retry_after_sec"] = box.FullRetrySec
		}
	case belljar.CodeOf(err) != belljar.CodeInternal:
		return err
	}
	return e
}

// aboutSession adds the session's id to an error.
func aboutSession(err *belljar.Error, id string) *belljar.Error {
	e := *err
	e.Details = maps.Clone(e.Details)
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details["session_id"] = id
	return &e
}

// replay returns the current session for a repeated request, once it is usable.
func (s *Sessions) replay(ctx context.Context, prior *store.Key) (belljar.Session, error) {
	x, row, err := s.Find(ctx, prior.ObjectID)
	if belljar.CodeOf(err) == belljar.CodeNotFound && s.opts.Keys.Released(ctx, prior) {
		err = errGivenUp
	}
	if err != nil {
		return belljar.Session{}, err
	}
	answer := row.Session
	if x != nil && x.Approval.Check() != nil {
		answer = x.Snapshot()
	} else if x != nil {
		select {
		case <-x.ready:
		case <-ctx.Done():
			return belljar.Session{}, context.Cause(ctx)
		}
		x.mu.Lock()
		fault := x.fault
		x.mu.Unlock()
		if belljar.CodeOf(fault) == belljar.CodeCanceled && s.opts.Keys.Released(ctx, prior) {
			return belljar.Session{}, errGivenUp
		}
		if fault != nil {
			return belljar.Session{}, fault
		}
		answer = x.Snapshot()
	} else if row.State.Ended() && s.opts.Keys.Released(ctx, prior) {
		return belljar.Session{}, errGivenUp
	}
	answer.Details = &belljar.Replay{Key: prior.Key, Status: idempotency.Replayed}
	return answer, nil
}
