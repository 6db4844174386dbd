package service

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// sessionTable is the sessions of this process of which something is left. The zero value is empty.
type sessionTable struct {
	mu     sync.Mutex
	living map[string]*session
	closed bool // no more are made
}

func (t *sessionTable) get(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.living[id]
}

// enter takes a session in, if its owner and this node may have one more.
func (t *sessionTable) enter(x *session, perUser, perNode int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return shuttingDown()
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
		return tooManySessions("sessions", own, perUser, "delete one, or wait until one expires")
	case perNode >= 0 && all >= perNode:
		return tooManySessions("node_sessions", all, perNode, "try again when others have ended")
	}
	if t.living == nil {
		t.living = map[string]*session{}
	}
	t.living[x.id] = x
	return nil
}

// leave takes a session out, of which nothing is left.
func (t *sessionTable) leave(x *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.living, x.id)
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
	var all []*session
	for _, x := range t.living {
		all = append(all, x)
	}
	return all
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
		return nil, row, recordError("read the record of session "+id, err)
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
