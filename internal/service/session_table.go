package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

// sessionTable is the sessions of this process of which something is left. The zero value is empty.
type sessionTable struct {
	mu     sync.Mutex
	living map[string]*session
	scopes map[scopeOf]*session
	closed bool // no more are made
}

// scopeOf is a scope's key among its owner's.
type scopeOf struct{ owner, key string }

func (t *sessionTable) get(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.living[id]
}

// inScope returns the session that has a scope, or nil.
func (t *sessionTable) inScope(owner, key string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.scopes[scopeOf{owner, key}]
	if x != nil && x.gone() {
		return nil
	}
	return x
}

// enter takes a session in, if its owner and this node may have one more. It returns the session that has its scope, if
// there is one, and does nothing then.
func (t *sessionTable) enter(x *session, perUser, perNode int) (other *session, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, fault.ShuttingDown()
	}
	scope := scopeOf{x.caller.ID, x.scope}
	if other := t.scopes[scope]; x.scope != "" && other != nil && !other.gone() {
		return other, nil
	}
	own, all := 0, 0
	for _, other := range t.living {
		if other.gone() {
			continue
		}
		all++
		if other.caller.ID == x.caller.ID {
			own++
		}
	}
	switch {
	case perUser >= 0 && own >= perUser:
		return nil, tooManySessions("sessions", own, perUser, "delete one, or wait until one expires")
	case perNode >= 0 && all >= perNode:
		return nil, tooManySessions("node_sessions", all, perNode, "try again when others have ended")
	}
	t.put(x)
	return nil, nil
}

// put takes a session in. The caller holds the lock.
func (t *sessionTable) put(x *session) {
	if t.living == nil {
		t.living, t.scopes = map[string]*session{}, map[scopeOf]*session{}
	}
	t.living[x.id] = x
	if x.scope != "" {
		t.scopes[scopeOf{x.caller.ID, x.scope}] = x
	}
}

// keep takes in a session of a former process, which was allowed then.
func (t *sessionTable) keep(x *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(x)
}

// leave takes a session out, of which nothing is left.
func (t *sessionTable) leave(x *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.living, x.id)
	t.unscope(x)
	x.service.node.Drop(x.id)
}

// release lets others have a session's scope.
func (t *sessionTable) release(x *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unscope(x)
}

func (t *sessionTable) unscope(x *session) {
	if scope := (scopeOf{x.caller.ID, x.scope}); t.scopes[scope] == x {
		delete(t.scopes, scope)
	}
}

// all returns those that are there, the oldest first.
func (t *sessionTable) all() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.list()
}

func (t *sessionTable) list() []*session {
	return slices.SortedFunc(maps.Values(t.living), func(a, b *session) int { return strings.Compare(a.id, b.id) })
}

// refuse takes no more sessions in.
func (t *sessionTable) refuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// shut takes no more sessions in and returns those that are there.
func (t *sessionTable) shut() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.list()
}

func tooManySessions(quota string, used, limit int, hint string) error {
	return &belljar.Error{
		Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("there are %d of at most %d sessions", used, limit),
		Details: map[string]any{"quota": quota, "used": used, "limit": limit}, Hint: hint,
	}
}

// session finds a living session that caller may see. One that has ended is [belljar.CodeConflict].
func (s *Service) session(caller belljar.Caller, id string) (*session, error) {
	x, row, err := s.findSession(context.Background(), caller, id)
	if err != nil {
		return nil, err
	}
	state := row.Session
	if x != nil {
		state = x.snapshot()
	}
	if state.State.Ended() {
		return nil, sessionEnded(state)
	}
	return x, nil
}

// findSession returns a session that caller may see: a living one, or else as it is on record.
func (s *Service) findSession(ctx context.Context, caller belljar.Caller, id string) (*session, store.Session, error) {
	if x := s.sessions.get(id); x != nil {
		if !caller.Sees(x.caller.ID) {
			return nil, store.Session{}, noSession(id)
		}
		return x, store.Session{}, nil
	}
	row, err := s.opts.Store.Sessions().Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && !caller.Sees(row.UserID):
		return nil, row, noSession(id)
	case err != nil:
		return nil, row, fault.Record("read the record of session "+id, err)
	}
	s.asLost(&row)
	return nil, row, nil
}

// asLost shows a session that is on record as alive, but nowhere else, as what it is.
func (s *Service) asLost(row *store.Session) {
	if !row.State.Ended() {
		row.State, row.Message = belljar.SessionLost, "belljar was stopped"
	}
}
