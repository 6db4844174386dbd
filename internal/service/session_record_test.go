//go:build linux

package service_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

// forgetful is a store that fails to record sessions on demand.
type forgetful struct {
	store.Store
	insert, update atomic.Bool
}

func (s *forgetful) Sessions() store.Sessions { return forgetfulSessions{s.Store.Sessions(), s} }

type forgetfulSessions struct {
	store.Sessions
	s *forgetful
}

func (f forgetfulSessions) Insert(ctx context.Context, row store.Session, key *store.Key) (*store.Key, error) {
	if f.s.insert.Load() || f.s.update.Load() && row.State == belljar.SessionActive {
		return nil, syscall.EIO
	}
	return f.Sessions.Insert(ctx, row, key)
}

// Update fails if the session would become active. It can still record its end.
func (f forgetfulSessions) Update(ctx context.Context, row store.Session) error {
	if f.s.update.Load() && row.State == belljar.SessionActive {
		return syscall.EIO
	}
	return f.Sessions.Update(ctx, row)
}

// A session that is usable quickly is recorded with one write; with an idempotency key, before and after.
func TestSessionIsOneWrite(t *testing.T) {
	s := &witness{}
	b := newBench(t, timeless, func(o *service.Options) { s.Store, o.Store = o.Store, s })
	plain, keyed := spec(), spec()
	keyed.IdempotencyKey = "k"
	for _, one := range []struct {
		req  belljar.SessionRequest
		want string
	}{{plain, "insert active"}, {keyed, "insert starting, update active"}} {
		s.take()
		if _, err := b.mine().Create(b.context(), one.req); err != nil {
			t.Fatal(err)
		}
		if got := s.take(); got != one.want {
			t.Errorf("%q, want %q", got, one.want)
		}
	}
}

// witness is a store that remembers the writes of sessions.
type witness struct {
	store.Store
	mu    sync.Mutex
	notes []string
}

func (s *witness) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := strings.Join(s.notes, ", ")
	s.notes = nil
	return events
}

func (s *witness) say(what string, row store.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, what+" "+string(row.State))
}

func (s *witness) Sessions() store.Sessions { return witnessedSessions{s.Store.Sessions(), s} }

type witnessedSessions struct {
	store.Sessions
	s *witness
}

func (c witnessedSessions) Insert(ctx context.Context, row store.Session, key *store.Key) (*store.Key, error) {
	c.s.say("insert", row)
	return c.Sessions.Insert(ctx, row, key)
}

func (c witnessedSessions) Update(ctx context.Context, row store.Session) error {
	c.s.say("update", row)
	return c.Sessions.Update(ctx, row)
}

// A session that cannot be recorded, before or after its sandbox is made, does not exist: its sandbox is removed, and
// its scope is free.
func TestSessionWithoutRecord(t *testing.T) {
	s := &forgetful{}
	b := newBench(t, func(o *service.Options) { s.Store, o.Store = o.Store, s })
	for name, fails := range map[string]*atomic.Bool{"before": &s.insert, "after": &s.update} {
		fails.Store(true)
		_, _, err := b.mine().Open(b.context(), scoped("thread:1"))
		if belljar.CodeOf(err) != belljar.CodeInternal {
			t.Errorf("%s: %v", name, err)
		}
		if left := b.sandboxes(); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
		if page, err := b.mine().List(b.context(), belljar.SessionQuery{}); err != nil || page.Total != 0 {
			t.Errorf("%s: %+v, %v", name, page, err)
		}
		fails.Store(false)
		made, created := b.opened(scoped("thread:1"))
		if !created {
			t.Errorf("%s: the scope is taken", name)
		}
		if err := b.mine().Delete(b.context(), made.ID); err != nil {
			t.Error(err)
		}
	}
}
