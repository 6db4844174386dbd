package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// table is the live sessions of this process. The zero value is empty.
type table struct {
	mu     sync.Mutex
	living map[string]*Session
	scopes map[scopeOf]*Session
	closed bool // it accepts no more sessions
}

// scopeOf is the key of a scope, together with its owner.
type scopeOf struct{ owner, key string }

func (t *table) get(id string) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.living[id]
}

// inScope returns the session that has a scope, or nil.
func (t *table) inScope(owner, key string) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.scopes[scopeOf{owner, key}]
	if x != nil && x.gone() {
		return nil
	}
	return x
}

// enter adds a session, unless its owner or this node has the maximum. If another session has its scope, enter returns that and
// adds nothing.
func (t *table) enter(x *Session, perUser, perNode int) (other *Session, err error) {
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
		return nil, tooMany("sessions", "you have", own, perUser, "delete one, or wait until one expires")
	case perNode >= 0 && all >= perNode:
		return nil, tooMany("node_sessions", "the server has", all, perNode, "try again when others have ended")
	}
	t.put(x)
	return nil, nil
}

// put adds a session. The caller holds the lock.
func (t *table) put(x *Session) {
	if t.living == nil {
		t.living, t.scopes = map[string]*Session{}, map[scopeOf]*Session{}
	}
	t.living[x.id] = x
	if x.scope != "" {
		t.scopes[scopeOf{x.caller.ID, x.scope}] = x
	}
}

// adopt adds a session of a previous process, which admitted it.
func (t *table) adopt(x *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(x)
}

// remove removes a session.
func (t *table) remove(x *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.living, x.id)
	t.unscope(x)
}

// releaseScope frees the scope of a session.
func (t *table) releaseScope(x *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unscope(x)
}

func (t *table) unscope(x *Session) {
	if scope := (scopeOf{x.caller.ID, x.scope}); t.scopes[scope] == x {
		delete(t.scopes, scope)
	}
}

// all returns the sessions, oldest first.
func (t *table) all() []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.list()
}

func (t *table) list() []*Session {
	return slices.SortedFunc(maps.Values(t.living), func(a, b *Session) int { return strings.Compare(a.id, b.id) })
}

// count returns the number of a user's sessions.
func (t *table) count(user string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, x := range t.living {
		if x.caller.ID == user {
			n++
		}
	}
	return n
}

// close prevents further sessions, and returns the existing ones.
func (t *table) close() []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.list()
}

func tooMany(quota, where string, used, limit int, hint string) error {
	return &belljar.Error{
		Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("%s %d sessions, and at most %d are allowed", where, used, limit),
		Details: map[string]any{"quota": quota, "used": used, "limit": limit}, Hint: hint,
	}
}
