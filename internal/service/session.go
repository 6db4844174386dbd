package service

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// session is a living session: a sandbox that a caller keeps, who uses it now, and when it expires. It leaves the
// service's table when it has ended.
type session struct {
	service *Service
	caller  belljar.Caller // who made it; ID is its owner
	// plan is what its sandbox was made of. Runs in the session take from it what belongs to the sandbox (host, caps,
	// image, limits) and what they do not say themselves (env, timeout).
	plan *plan
	ttl  time.Duration

	ready chan struct{} // closed when the sandbox can be used, or never will be
	over  chan struct{} // closed when nothing is left of it

	mu    sync.Mutex
	state belljar.Session
	jar   *jar          // nil until ready
	fault error         // why the sandbox was not made
	uses  int           // runs and uploads under way
	timer *time.Timer   // fires when nobody has used it for its ttl; stopped while somebody does
	quiet chan struct{} // made by who waits for the last use to end, who closes it
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
	if x.state.State.Ended() {
		return nil, sessionEnded(x.state)
	}
	x.uses++
	x.timer.Stop()
	x.extend()
	return x.jar, nil
}

// release gives a use back and lets the session's time begin anew.
func (x *session) release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.uses--
	if x.uses > 0 {
		return
	}
	if x.quiet != nil {
		close(x.quiet)
		x.quiet = nil
	}
	if !x.state.State.Ended() {
		x.extend()
		x.timer.Reset(x.ttl)
	}
}

// extend notes activity. The caller holds the lock.
func (x *session) extend() { x.state.ExpiresAt = time.Now().Add(x.ttl).UTC() }

// sessionEnded refuses to use a session that is over.
func sessionEnded(s belljar.Session) *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("session %s has ended: it is %s", s.ID, s.State),
		Details: map[string]any{"session_id": s.ID, "state": string(s.State)},
		Hint:    "make a new session",
	}
}

// sessionMissing says that there is no such session, or none that the caller may know of.
func sessionMissing(id string) *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("session %q does not exist", id),
		Details: map[string]any{"session_id": id},
	}
}
