//go:build linux

package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/memory"
)

// CloseAll closes only the sessions of a workflow, and ends their runs.
func TestCloseAll(t *testing.T) {
	b := newBench(t)
	var mine []string
	for _, key := range []string{"default", "build", "isolated"} {
		s, _ := b.opened(scoped("workflow:1:" + key))
		mine = append(mine, s.ID)
	}
	others := []string{b.open().ID}
	for _, scope := range []string{"workflow:10", "workflow:1%", "agent:1", "workflow:2"} {
		s, _ := b.opened(scoped(scope))
		others = append(others, s.ID)
	}
	running := b.start(belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.1", SessionID: mine[0], Command: []string{"/bin/sh", "-c", "echo up; sleep 1000"}}})
	b.waitFor(running.ID, "up")
	closed, err := b.mine().CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "workflow:1"})
	slices.Sort(closed)
	if err != nil || !slices.Equal(closed, slices.Sorted(slices.Values(mine))) {
		t.Errorf("%v, %v, want %v", closed, err, mine)
	}
	left := b.sandboxes()
	slices.Sort(left)
	if !slices.Equal(left, slices.Sorted(slices.Values(others))) {
		t.Errorf("left: %v, want %v", left, others)
	}
	if r := b.follow(running.ID); r.Phase != belljar.PhaseKilled || r.ReasonCode != belljar.ReasonCanceledByUser {
		t.Errorf("%s, %s", r.Phase, r.ReasonCode)
	}
	for _, id := range mine {
		if s := b.state(id, belljar.SessionClosed); s.Message == "" {
			t.Error("no reason")
		}
	}
	closed, err = b.mine().CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "workflow:1:"})
	if err != nil || closed == nil || len(closed) != 0 {
		t.Errorf("again: %v, %v", closed, err)
	}
	if _, created := b.opened(scoped("workflow:1")); !created {
		t.Error("the scope is not free")
	}
	for _, bad := range []belljar.CloseRequest{{}, {KeyPrefix: "workflow"}, {KeyPrefix: ":"}, {KeyPrefix: "workflow:1:", RetainSec: -1}} {
		if _, err := b.mine().CloseAll(b.context(), bad); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := b.mine().CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "workflow:1:", RetainSec: 1e9}); belljar.CodeOf(err) != belljar.CodePolicyDenied {
		t.Errorf("%v", err)
	}
}

// A retained session can be inspected until it ends. Inspection does not extend it, and it no longer has a scope.
func TestRetain(t *testing.T) {
	clock := newHourglass()
	kept := memory.New()
	events := &diary{}
	b := newBench(t, func(o *service.Options) { o.Clock, o.Store, o.Events, o.SessionTTL = clock, kept, events, time.Minute })
	s, _ := b.opened(scoped("workflow:1"))
	b.run(in(s, "echo result > file")).want(t, belljar.PhaseCompleted, 0, "")
	running := b.start(in(s, "echo up; sleep 1000"))
	b.waitFor(running.ID, "up")
	closed, err := b.mine().CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "workflow:1:", RetainSec: 600})
	if err != nil || !slices.Equal(closed, []string{s.ID}) {
		t.Fatalf("%v, %v", closed, err)
	}
	until := clock.Now().Add(10 * time.Minute)
	if r := b.follow(running.ID); r.Phase != belljar.PhaseKilled {
		t.Errorf("%s", r.Phase)
	}
	got := b.state(s.ID, belljar.SessionActive)
	if got.ScopeKey != "" || !got.ExpiresAt.Equal(until) || got.Message == "" || len(events.named(event.SessionRetained)) != 1 {
		t.Errorf("%+v", got)
	}
	if row, err := kept.Sessions().Get(t.Context(), s.ID); err != nil || row.Key != "" || !row.ExpiresAt.Equal(until) {
		t.Errorf("%+v, %v", row, err)
	}
	next, created := b.opened(scoped("workflow:1"))
	if !created || next.ID == s.ID {
		t.Errorf("%v, %+v", created, next)
	}
	clock.pass(5 * time.Minute) // longer than its TTL
	if r := b.run(in(s, "cat file")); r.stdout != "result\n" {
		t.Errorf("%q", r.stdout)
	}
	if got := b.state(s.ID, belljar.SessionActive); !got.ExpiresAt.Equal(until) {
		t.Errorf("it was extended to %v", got.ExpiresAt)
	}
	// It cannot be found by its scope, so it is not closed again.
	if closed, err := b.mine().CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "workflow:1:", RetainSec: 600}); err != nil || slices.Contains(closed, s.ID) {
		t.Errorf("%v, %v", closed, err)
	}
	late := b.start(in(s, "echo up; sleep 1000"))
	b.waitFor(late.ID, "up")
	clock.pass(5 * time.Minute)
	if got := b.state(s.ID, belljar.SessionExpired); !strings.Contains(got.Message, "closed") {
		t.Errorf("%q", got.Message)
	}
	if r := b.follow(late.ID); r.ReasonCode != belljar.ReasonSessionExpired {
		t.Errorf("%s", r.ReasonCode)
	}
	b.gone(s.ID)
}

// Retention cannot exceed a session's lifetime.
func TestRetainWithinLifetime(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Clock = clock })
	s, _ := b.opened(scoped("workflow:1", func(r *belljar.SessionRequest) { r.LifetimeSec = 60 }))
	if _, err := b.mine().CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "workflow:1:", RetainSec: 600}); err != nil {
		t.Fatal(err)
	}
	if got := b.state(s.ID, belljar.SessionActive); !got.ExpiresAt.Equal(clock.Now().Add(time.Minute)) {
		t.Errorf("expires at %v", got.ExpiresAt)
	}
	clock.pass(time.Minute)
	b.state(s.ID, belljar.SessionExpired)
}

// stubborn is a store that refuses to update sessions on demand.
type stubborn struct {
	store.Store
	mu  sync.Mutex
	err error
}

type stubbornSessions struct {
	store.Sessions
	of *stubborn
}

func (s *stubborn) Sessions() store.Sessions { return stubbornSessions{s.Store.Sessions(), s} }

func (s stubbornSessions) Update(ctx context.Context, row store.Session) error {
	s.of.mu.Lock()
	err := s.of.err
	s.of.mu.Unlock()
	if err != nil {
		return err
	}
	return s.Sessions.Update(ctx, row)
}

// A session whose record cannot be written is not retained, and keeps its scope.
func TestRetainFails(t *testing.T) {
	st := &stubborn{Store: memory.New()}
	b := newBench(t, func(o *service.Options) { o.Store = st })
	s, _ := b.opened(scoped("workflow:1"))
	st.mu.Lock()
	st.err = errors.New("no")
	st.mu.Unlock()
	if _, err := b.mine().CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "workflow:1:", RetainSec: 600}); err == nil {
		t.Error("no error")
	}
	st.mu.Lock()
	st.err = nil
	st.mu.Unlock()
	if again, created := b.opened(scoped("workflow:1")); created || again.ID != s.ID || again.ScopeKey == "" || again.Message != "" {
		t.Errorf("%v, %+v", created, again)
	}
}

// A session that is being made is closed, too: its creator gets an error, and nothing is left over.
func TestCloseAllWhileMade(t *testing.T) {
	var g *gate
	b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { g = newGate(rt); g.obedient = true; return g }))
	failed := make(chan error, 1)
	go func() {
		_, _, err := b.mine().Open(b.context(), scoped("workflow:1"))
		failed <- err
	}()
	<-g.entered
	closed, err := b.mine().CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "workflow:1:", RetainSec: 60})
	if err != nil || len(closed) != 1 {
		t.Errorf("%v, %v", closed, err)
	}
	if err := <-failed; belljar.CodeOf(err) != belljar.CodeCanceled {
		t.Errorf("%v", err)
	}
	if s, err := b.mine().Get(b.context(), closed[0]); err != nil || s.State != belljar.SessionClosed {
		t.Errorf("%+v, %v", s, err)
	}
}

// Concurrent workflows open, use and close sessions. In the end nothing is left over (newBench checks that), and no session ever had two owners.
func TestScopesAtRandom(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.MaxSessions, o.QueueLength = -1, 1000 })
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for turn := range 10 {
				scope := fmt.Sprintf("workflow:%d", (worker+turn)%3)
				s, _, err := b.mine().Open(b.context(), scoped(scope))
				if err != nil && belljar.CodeOf(err) != belljar.CodeCanceled && belljar.CodeOf(err) != belljar.CodeConflict {
					t.Errorf("open: %v", err)
				}
				if err == nil {
					if run, err := b.Start(b.context(), in(s, "true")); err == nil {
						b.follow(run.ID)
					} else if belljar.CodeOf(err) != belljar.CodeConflict {
						t.Errorf("start: %v", err)
					}
				}
				if (worker+turn)%4 == 0 {
					req := belljar.CloseRequest{KeyPrefix: scope + ":", RetainSec: float64(turn % 2)}
					if _, err := b.mine().CloseAll(b.context(), req); err != nil {
						t.Errorf("close: %v", err)
					}
				}
			}
		})
	}
	wait.Wait()
	if _, err := b.mine().CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "workflow:"}); err != nil {
		t.Error(err)
	}
	if page, err := b.mine().List(b.context(), belljar.SessionQuery{KeyPrefix: "workflow:"}); err != nil || page.Total != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}
