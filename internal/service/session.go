package service

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// session is a living session: a sandbox that a caller keeps, who uses it now, and when it expires. It leaves the
// service's table when nothing is left of it; from then on it is on record only.
type session struct {
	service *Service
	id      string
	caller  belljar.Caller // who made it; ID is its owner
	spec    belljar.SessionSpec
	// plan is what its sandbox is made of. Runs in the session take from it what belongs to the sandbox (host, caps,
	// image, limits, exec) and what they do not say themselves (env, timeout).
	plan *plan
	ttl  time.Duration

	ctx   context.Context // ends when the session does; its cause says why
	stop  context.CancelCauseFunc
	ready chan struct{} // closed when the sandbox can be used, or never will be
	over  chan struct{} // closed when nothing is left of it

	mu    sync.Mutex
	state belljar.Session
	jar   *jar          // nil until ready, and for good if there was a fault
	fault error         // why the sandbox was not made
	uses  int           // runs and uploads under way
	quiet chan struct{} // made by who waits for the last use, closed with it
	calm  func() bool   // stops the clock that runs while nobody uses it

	hits hits // how often its sandbox was held to its limits
}

// newSession returns a session of a plan that has no sandbox yet.
func (s *Service) newSession(caller belljar.Caller, spec belljar.SessionSpec, p *plan, ttl time.Duration) *session {
	now := s.now()
	x := &session{
		service: s, id: belljar.NewID(), caller: caller, spec: spec, plan: p, ttl: ttl,
		ready: make(chan struct{}), over: make(chan struct{}),
	}
	x.ctx, x.stop = context.WithCancelCause(context.Background())
	x.state = belljar.Session{
		ID: x.id, UserID: caller.ID, State: belljar.SessionStarting, SpecVersion: spec.SpecVersion,
		Runtime: p.host.Name(), RuntimeVersion: p.caps.Version, BaseImage: p.image.Ref, ImageDigest: p.image.Digest,
		PolicyHash: s.policy, Labels: p.request.Labels, CreatedAt: now, ExpiresAt: now.Add(ttl),
		Limits: p.limits, LimitsEnforced: enforced(p.caps),
	}
	return x
}

// snapshot is the session as it stands.
func (x *session) snapshot() belljar.Session {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.state
	s.Labels, s.LimitsEnforced = maps.Clone(s.Labels), maps.Clone(s.LimitsEnforced)
	return s
}

// acquire counts a use of the session's sandbox, so that it does not expire under it, and returns it. Every use is
// given back with release. A session that is being made is waited for; one that has ended is [belljar.CodeConflict].
func (x *session) acquire(ctx context.Context) (*jar, error) {
	select {
	case <-x.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.jar == nil || x.state.State.Ended() {
		return nil, sessionEnded(x.state)
	}
	x.uses++
	x.rouse()
	x.extend()
	return x.jar, nil
}

// release gives a use back and lets the session's time begin anew.
func (x *session) release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.uses--; x.uses > 0 {
		return
	}
	if x.quiet != nil {
		close(x.quiet)
		x.quiet = nil
	}
	if !x.state.State.Ended() {
		x.extend()
		x.rest()
	}
}

// extend notes activity. The caller holds the lock, as of the following two.
func (x *session) extend() { x.state.ExpiresAt = x.service.now().Add(x.ttl) }

// rest starts the clock of a session that nobody uses.
func (x *session) rest() { x.calm = x.service.clock.AfterFunc(x.ttl, x.expire) }

// rouse stops it.
func (x *session) rouse() {
	if x.calm != nil {
		x.calm()
		x.calm = nil
	}
}

// sessionEnded refuses to use a session that is over.
func sessionEnded(s belljar.Session) *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("session %s has ended: it is %s", s.ID, s.State),
		Details: map[string]any{"session_id": s.ID, "state": string(s.State)},
		Hint:    "make a new session",
	}
}

// noSession says that there is no such session, or none that the caller may know of.
func noSession(id string) *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("session %q does not exist", id),
		Details: map[string]any{"session_id": id},
	}
}
