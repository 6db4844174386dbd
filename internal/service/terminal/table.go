package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/belljar/belljar"
)

// table is the terminals of this process: those whose program runs, and for a while those whose program has ended. The zero
// value is empty.
type table struct {
	mu   sync.Mutex
	byID map[string]*terminal
}

// get returns a terminal, or nil.
func (t *table) get(id string) *terminal {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// enter adds a terminal, unless its session or its owner has the maximum.
func (t *table) enter(n *terminal, perSession, perUser int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	same, own := 0, 0
	for _, other := range t.byID {
		switch {
		case other.gone() || other.owner.ID != n.owner.ID:
			continue
		case other.sessionID == n.sessionID:
			same++
		}
		own++
	}
	switch {
	case perSession >= 0 && same >= perSession:
		return tooMany("session_terminals", "the session has", same, perSession)
	case perUser >= 0 && own >= perUser:
		return tooMany("terminals", "there are", own, perUser)
	}
	t.put(n)
	return nil
}

// adopt adds a terminal of a previous process.
func (t *table) adopt(n *terminal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(n)
}

func (t *table) put(n *terminal) {
	if t.byID == nil {
		t.byID = map[string]*terminal{}
	}
	t.byID[n.id] = n
}

// leave removes a terminal.
func (t *table) leave(n *terminal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[n.id] == n {
		delete(t.byID, n.id)
	}
}

// in returns the terminals of a session, oldest first.
func (t *table) in(sessionID string) []*terminal {
	return t.where(func(n *terminal) bool { return n.sessionID == sessionID })
}

// where returns the terminals that match, oldest first.
func (t *table) where(matches func(n *terminal) bool) []*terminal {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*terminal
	for _, n := range t.byID {
		if matches(n) {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *terminal) int { // ids from the same millisecond have a random order
		return cmp.Or(a.state.CreatedAt.Compare(b.state.CreatedAt), cmp.Compare(a.id, b.id))
	})
	return list
}

// surplus returns the terminals whose programs have ended, except n, that are more than the latest perSession of its session and the latest
// perUser of its owner, both with n.
func (t *table) surplus(n *terminal, perSession, perUser int) []*terminal {
	same := t.where(func(o *terminal) bool { return o != n && o.sessionID == n.sessionID && o.gone() })
	surplus := same[:max(len(same)+1-perSession, 0)]
	if perUser <= 0 {
		return surplus
	}
	own := t.where(func(o *terminal) bool {
		return o != n && o.owner.ID == n.owner.ID && o.gone() && !slices.Contains(surplus, o)
	})
	return slices.Concat(surplus, own[:max(len(own)+1-perUser, 0)])
}

func tooMany(quota, where string, used, limit int) error {
	return &belljar.Error{
		Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("%s %d of at most %d terminals", where, used, limit),
		Details: map[string]any{"quota": quota, "used": used, "limit": limit},
		Hint:    "close one, or attach to it",
	}
}

// notFound returns the error for a terminal that does not exist, or that the caller may not see.
func notFound(id string) error {
	return &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("terminal %.100q does not exist", id),
		Details: map[string]any{"terminal_id": fmt.Sprintf("%.100s", id)},
	}
}
