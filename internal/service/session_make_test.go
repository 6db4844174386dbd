//go:build linux

package service_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/memory"
)

func TestSessionIdempotency(t *testing.T) {
	records := memory.New()
	b := newBench(t, func(o *service.Options) { o.Store = records })
	req := spec()
	req.IdempotencyKey = "k"
	// Concurrent requests make one session, and all get it.
	made := make([]belljar.Session, 20)
	var wait sync.WaitGroup
	for i := range made {
		wait.Go(func() {
			var err error
			if made[i], err = b.mine().Create(b.context(), req); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	created := 0
	for _, s := range made {
		if s.ID != made[0].ID || s.State != belljar.SessionActive || s.Details == nil || s.Details.Key != "k" {
			t.Errorf("%+v", s)
			continue
		}
		if s.Details.Status == "created" {
			created++
		}
	}
	if created != 1 || len(b.sandboxes()) != 1 {
		t.Errorf("%d created, sandboxes %v", created, b.sandboxes())
	}
	if key, err := records.Keys().Get(b.context(), "sessions", made[0].UserID, "k"); err != nil || key.Response != nil {
		t.Errorf("a session's key keeps an answer that nothing reads: %s, %v", key.Response, err)
	}
	other := req
	other.TimeoutSec = 5
	_, err := b.mine().Create(b.context(), other)
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeIdempotency || e.Details["prior_id"] != made[0].ID {
		t.Errorf("another request with that key: %+v", err)
	}
	if s, err := b.sessions("b").Create(b.context(), other); err != nil || s.ID == made[0].ID {
		t.Errorf("another's key: %+v, %v", s, err)
	}
}

// busyStore is a store that calls busy before it inserts a session, once.
type busyStore struct {
	store.Store
	busy func()
}

type busySessions struct {
	store.Sessions
	of *busyStore
}

func (s *busyStore) Sessions() store.Sessions { return busySessions{s.Store.Sessions(), s} }

func (s busySessions) Insert(ctx context.Context, row store.Session, key *store.Key) (*store.Key, error) {
	if busy := s.of.busy; busy != nil {
		s.of.busy = nil
		busy()
	}
	return s.Sessions.Insert(ctx, row, key)
}

// A repeated request with a scope gets the session although its key was not on record yet. Only different requests are refused.
func TestSessionRepeatedAtOnce(t *testing.T) {
	st := &busyStore{Store: memory.New()}
	b := newBench(t, func(o *service.Options) { o.Store = st })
	req := spec()
	req.IdempotencyKey, req.Scope = "k", belljar.Scope{Namespace: "agent", ID: "a", Key: "main"}
	again, changed := make(chan error, 1), make(chan error, 1)
	st.busy = func() {
		other := req
		other.TimeoutSec = 5
		for over, req := range map[chan error]belljar.SessionRequest{again: req, changed: other} {
			go func() {
				_, err := b.mine().Create(b.context(), req)
				over <- err
			}()
		}
		other.IdempotencyKey = "other"
		_, err := b.mine().Create(b.context(), other)
		refusedAs(t, "another key", err, belljar.CodeConflict)
	}
	if _, err := b.mine().Create(b.context(), req); err != nil {
		t.Fatal(err)
	}
	if err := <-again; err != nil {
		t.Error(err)
	}
	refusedAs(t, "another request with that key", <-changed, belljar.CodeIdempotency)
}

// balky is a runtime that fails to make sandboxes while it is broken.
type balky struct {
	runtime.Runtime
	mu  sync.Mutex
	err error
}

func (r *balky) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	r.mu.Lock()
	err := r.err
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return r.Runtime.Create(ctx, spec)
}

// A session that cannot be made leaves nothing over, and its key can be reused.
func TestSessionCannotBeMade(t *testing.T) {
	rt := &balky{err: &runtime.StepError{Step: "mount", Hint: "mend it", Err: errors.New("no")}}
	var events diary
	b := newBench(t, over(func(inner runtime.Runtime) runtime.Runtime { rt.Runtime = inner; return rt }), func(o *service.Options) { o.Events = &events })
	req := spec()
	req.IdempotencyKey = "k"
	_, err := b.mine().Create(b.context(), req)
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeRuntimeUnavailable || e.Details["step"] != "mount" || e.Hint != "mend it" {
		t.Fatalf("%+v", err)
	}
	if s, err := b.mine().Get(b.context(), fmt.Sprint(e.Details["session_id"])); err != nil || s.State != belljar.SessionCrashed {
		t.Errorf("%+v, %v", s, err)
	}
	if page, err := b.mine().List(b.context(), belljar.SessionQuery{}); err != nil || page.Total != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	if made, ended := events.named(event.SessionCreated), events.named(event.SessionEnded); len(made)+len(ended) > 0 {
		t.Errorf("made %+v, ended %+v", made, ended)
	}
	rt.mu.Lock()
	rt.err = nil
	rt.mu.Unlock()
	if s, err := b.mine().Create(b.context(), req); err != nil || s.Details.Status != "created" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSessionStartupTimeout(t *testing.T) {
	var g *gate
	b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { g = newGate(rt); return g }))
	req := spec()
	req.StartupTimeoutSec = 0.05
	_, err := b.mine().Create(b.context(), req)
	if belljar.CodeOf(err) != belljar.CodeTimeout || belljar.HintOf(err) == "" {
		t.Errorf("%v", err)
	}
	g.open() // a late sandbox is destroyed after the response
}

// A caller that disconnects while their session is being made leaves nothing over.
func TestSessionGivenUp(t *testing.T) {
	var g *gate
	b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { g = newGate(rt); return g }))
	ctx, cancel := context.WithCancel(b.context())
	go func() {
		<-g.entered
		cancel()
	}()
	if _, err := b.mine().Create(ctx, spec()); belljar.CodeOf(err) != belljar.CodeCanceled {
		t.Errorf("%v", err)
	}
	g.open()
	page, err := b.mine().List(b.context(), belljar.SessionQuery{})
	if err != nil || page.Total != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

// A session can be deleted while it is being made. Create then reports that.
func TestSessionDeletedWhileMade(t *testing.T) {
	var g *gate
	b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { g = newGate(rt); g.obedient = true; return g }))
	failed := make(chan error, 1)
	go func() {
		_, err := b.mine().Create(b.context(), spec())
		failed <- err
	}()
	<-g.entered
	page, err := b.mine().List(b.context(), belljar.SessionQuery{})
	if err != nil || len(page.Items) != 1 || page.Items[0].State != belljar.SessionStarting {
		t.Fatalf("%+v, %v", page, err)
	}
	if err := b.mine().Delete(b.context(), page.Items[0].ID); err != nil {
		t.Error(err)
	}
	if err := <-failed; belljar.CodeOf(err) != belljar.CodeCanceled {
		t.Errorf("%v", err)
	}
	if s, err := b.mine().Get(b.context(), page.Items[0].ID); err != nil || s.State != belljar.SessionClosed {
		t.Errorf("%+v, %v", s, err)
	}
	g.open()
}

// keyStore is a store that reports when an idempotency key is found.
type keyStore struct {
	store.Store
	found func()
}

type foundKeys struct {
	store.Keys
	found func()
}

func (s keyStore) Keys() store.Keys { return foundKeys{s.Store.Keys(), s.found} }

func (k foundKeys) Get(ctx context.Context, endpoint, user, key string) (store.Key, error) {
	got, err := k.Keys.Get(ctx, endpoint, user, key)
	if err == nil {
		k.found()
	}
	return got, err
}

// slowFirst is a runtime that never finishes the first sandbox.
type slowFirst struct {
	runtime.Runtime
	once    sync.Once
	entered chan struct{}
}

func (r *slowFirst) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	r.once.Do(func() {
		close(r.entered)
		<-ctx.Done()
	})
	return r.Runtime.Create(ctx, spec)
}

// A repeated request gets a session, even if the caller of the first request disconnects while that one is making it.
func TestSessionRepeatedAndGivenUp(t *testing.T) {
	for name, send := range map[string]func(context.Context, *bench, belljar.SessionRequest) (belljar.Session, error){
		"create": func(ctx context.Context, b *bench, req belljar.SessionRequest) (belljar.Session, error) {
			return b.mine().Create(ctx, req)
		},
		"open": func(ctx context.Context, b *bench, req belljar.SessionRequest) (belljar.Session, error) {
			s, _, err := b.mine().Open(ctx, req)
			return s, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			rt, found := &slowFirst{entered: make(chan struct{})}, make(chan struct{})
			b := newBench(t, over(func(r runtime.Runtime) runtime.Runtime { rt.Runtime = r; return rt }), func(o *service.Options) {
				o.Store = keyStore{o.Store, sync.OnceFunc(func() { close(found) })}
			})
			req := spec()
			req.IdempotencyKey, req.Scope = "k", belljar.Scope{Namespace: "agent", ID: "a", Key: "main"}
			ctx, leave := context.WithCancel(b.context())
			first, second := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := send(ctx, b, req)
				first <- err
			}()
			<-rt.entered
			go func() {
				s, err := send(b.context(), b, req)
				if err == nil && s.State != belljar.SessionActive {
					err = fmt.Errorf("%+v", s)
				}
				second <- err
			}()
			<-found
			leave()
			if err := <-first; belljar.CodeOf(err) != belljar.CodeCanceled {
				t.Errorf("the first: %v", err)
			}
			if err := <-second; err != nil {
				t.Errorf("the second: %v", err)
			}
		})
	}
}
