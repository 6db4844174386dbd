package service

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/queue"
)

// session is a living session: a sandbox that a caller keeps, who uses it now, and when it expires. It leaves the
// service's table when nothing is left of it; from then on it is on record only.
type session struct {
	service *Service
	id      string
	caller  belljar.Caller // who made it; ID is its owner
	spec    belljar.SessionSpec
	terms   terms
	// place is that of its sandbox. Runs in the session have it too.
	place *placement.Placement
	scope string       // by which the table knows it; "" for none
	queue *queue.Queue // of its runs; their owners' bounds count everywhere
	line  *queue.Queue // of its shell's commands, one of which runs at a time

	ctx   context.Context // ends when the session does; its cause says why
	stop  context.CancelCauseFunc
	ready chan struct{} // closed when the sandbox can be used, or never will be
	over  chan struct{} // closed when nothing is left of it
	left  chan struct{} // closed when it is left to the next process

	writing sync.Mutex  // orders what is put on record; taken before mu
	draft   bool        // it is not on record; guarded by writing, as the next
	undraw  func() bool // keeps a draft from going on record by itself

	mu    sync.Mutex
	state belljar.Session // but for its times, which life knows
	life  lifespan
	jar   *box.Box      // nil until ready, and for good if there was a fault
	fault error         // why the sandbox was not made
	uses  int           // runs, uploads and file operations under way
	quiet chan struct{} // made by who waits for the last use, closed with it
	mute  int           // how often in a row its agent did not answer the reaper

	hits box.Hits // how often its sandbox was held to its limits
}

// newSession returns a session of a plan that has no sandbox yet.
func (s *Service) newSession(caller belljar.Caller, spec belljar.SessionSpec, p *placement.Placement, t terms) *session {
	now := s.now()
	x := s.bareSession(belljar.NewID(), caller, spec, p, t)
	x.life = lifespan{used: now, stirred: now, ends: now.Add(t.lifetime)}
	x.scope = scopeKey(spec.Scope, x.id)
	x.state = belljar.Session{
		ID: x.id, UserID: caller.ID, State: belljar.SessionStarting, SpecVersion: spec.SpecVersion,
		Runtime: p.Host.Name(), RuntimeVersion: p.Caps.Version,
		Isolation: string(p.Caps.Isolation), RuntimeReason: p.Why, BaseImage: p.Image.Ref, ImageDigest: p.Image.Digest,
		PolicyHash: s.policy, Labels: spec.Labels, CreatedAt: now, ScopeKey: x.scope,
		Limits: p.InForce(), LimitsEnforced: enforced(p.Caps),
	}
	x.state.ExpiresAt = x.expiry(now)
	return x
}

// bareSession returns a session without its state.
func (s *Service) bareSession(id string, caller belljar.Caller, spec belljar.SessionSpec, p *placement.Placement, t terms) *session {
	x := &session{
		service: s, id: id, caller: caller, spec: spec, terms: t, place: p,
		queue: s.queue.Branch(t.concurrent, s.opts.QueueLength), line: s.queue.Branch(1, s.opts.QueueLength),
		ready: make(chan struct{}), over: make(chan struct{}), left: make(chan struct{}),
	}
	x.ctx, x.stop = context.WithCancelCause(context.Background())
	return x
}

// scopeKey is how the session of a scope is found; nobody finds the isolated one of that id, but it belongs to its
// workflow, agent, user or thread all the same.
func scopeKey(scope belljar.Scope, id string) string {
	if scope.Key == belljar.IsolatedKey && scope.Namespace != "" {
		return scope.Prefix() + belljar.IsolatedKey + ":" + id
	}
	return scope.String()
}

// image is that of its sandbox, as far as it is known.
func (x *session) image() runtime.Root {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.place.Image
}

// placement is that of its sandbox, as far as it is known.
func (x *session) placement() placement.Placement {
	x.mu.Lock()
	defer x.mu.Unlock()
	return *x.place
}

// know notes what the image is that was fetched for its sandbox.
func (x *session) know(root runtime.Root) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.place.Image, x.state.ImageDigest = root, root.Digest
}

// snapshot is the session as it stands.
func (x *session) snapshot() belljar.Session {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.state
	if !s.State.Ended() {
		s.ExpiresAt = x.expiry(x.service.now())
	}
	s.LastActivityAt = later(x.life.used, x.life.stirred)
	s.Labels, s.LimitsEnforced = maps.Clone(s.Labels), maps.Clone(s.LimitsEnforced)
	return s
}

// acquire counts a use of the session's sandbox, so that it does not expire under it, and returns it. Every use is
// given back with release. A session that is being made is waited for; one that has ended is [belljar.CodeConflict].
func (x *session) acquire(ctx context.Context) (*box.Box, error) {
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
	x.touch()
	return x.jar, nil
}

// release gives a use back and lets the session's time begin anew.
func (x *session) release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.uses--
	x.touch()
	if x.uses > 0 {
		return
	}
	if x.quiet != nil {
		close(x.quiet)
		x.quiet = nil
	}
	if !x.state.State.Ended() {
		x.wind(x.service.now())
	}
}

// sessionEnded refuses to use a session that is over.
func sessionEnded(s belljar.Session) *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("session %s has ended: it is %s", s.ID, s.State),
		Details: map[string]any{"session_id": s.ID, "state": string(s.State)},
		Hint:    "make a new session, or open its scope again",
	}
}

// noSession says that there is no such session, or none that the caller may know of.
func noSession(id string) *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("session %q does not exist", id),
		Details: map[string]any{"session_id": id},
	}
}
