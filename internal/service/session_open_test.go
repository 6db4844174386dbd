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

// scoped returns a request for the session of a scope, given as namespace:id or namespace:id:key.
func scoped(scope string, change ...func(*belljar.SessionRequest)) belljar.SessionRequest {
	parts := append(strings.SplitN(scope, ":", 3), "", "")
	req := belljar.SessionRequest{SessionSpec: belljar.SessionSpec{Scope: belljar.Scope{Namespace: parts[0], ID: parts[1], Key: parts[2]}}}
	for _, f := range change {
		f(&req)
	}
	return req
}

// opened opens a session of the bench's caller.
func (b *bench) opened(req belljar.SessionRequest) (belljar.Session, bool) {
	b.t.Helper()
	s, created, err := b.mine().Open(b.context(), req)
	if err != nil {
		b.t.Fatalf("open: %v", err)
	}
	return s, created
}

// Each step of a workflow finds the session of the previous one, with its files.
func TestOpen(t *testing.T) {
	events := &diary{}
	b := newBench(t, func(o *service.Options) { o.Events = events })
	first, created := b.opened(scoped("workflow:run_123"))
	if !created || first.ScopeKey != "workflow:run_123:default" || first.SpecVersion != "1.1" || first.BaseImage != "host" || first.State != belljar.SessionActive {
		t.Errorf("%v, %+v", created, first)
	}
	b.run(in(first, "echo kept > analysis.json")).want(t, belljar.PhaseCompleted, 0, "")
	second, created := b.opened(scoped("workflow:run_123:default", func(r *belljar.SessionRequest) { r.Resources.MemoryMB = 99 }))
	if created || second.ID != first.ID || second.Limits.MemoryMB != first.Limits.MemoryMB || second.Runs != 1 {
		t.Errorf("%v, %+v", created, second)
	}
	if r := b.run(in(second, "cat analysis.json")); r.stdout != "kept\n" {
		t.Errorf("stdout %q", r.stdout)
	}
	other, created := b.opened(scoped("workflow:run_123:other"))
	if !created || other.ID == first.ID {
		t.Errorf("%v, %+v", created, other)
	}
	if n := len(events.named(event.SessionCreated)); n != 2 || len(events.named(event.SessionResumed)) != 1 {
		t.Errorf("%d created, %d resumed", n, len(events.named(event.SessionResumed)))
	}
	page, err := b.mine().List(b.context(), belljar.SessionQuery{KeyPrefix: "workflow:run_123:o"})
	if err != nil || page.Total != 1 || page.Items[0].ID != other.ID {
		t.Errorf("%+v, %v", page, err)
	}
}

// Concurrent requests make one session.
func TestOpenAtOnce(t *testing.T) {
	b := newBench(t)
	const many = 100
	made := make([]belljar.Session, many)
	news := make([]bool, many)
	var wait sync.WaitGroup
	for i := range many {
		wait.Go(func() {
			var err error
			if made[i], news[i], err = b.mine().Open(b.context(), scoped("thread:1")); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	count := 0
	for i, s := range made {
		if s.ID != made[0].ID || s.State != belljar.SessionActive {
			t.Errorf("%+v", s)
		}
		if news[i] {
			count++
		}
	}
	if count != 1 || len(b.sandboxes()) != 1 {
		t.Errorf("%d created, sandboxes %v", count, b.sandboxes())
	}
}

// A hundred concurrent threads each open their own session.
func TestOpenManyScopes(t *testing.T) {
	b := newBench(t)
	ids := make([]string, 100)
	var wait sync.WaitGroup
	for i := range ids {
		wait.Go(func() {
			s, created, err := b.mine().Open(b.context(), scoped(fmt.Sprint("thread:", i)))
			if err != nil || !created {
				t.Errorf("%v, %v", created, err)
			}
			ids[i] = s.ID
		})
	}
	wait.Wait()
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n != 100 || len(b.sandboxes()) != 100 {
		t.Errorf("%d sessions, %d sandboxes", n, len(b.sandboxes()))
	}
}

// After any kind of end of a session, the next open of its scope makes a new one.
func TestOpenAgain(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Clock, o.SessionTTL = clock, time.Minute })
	last := ""
	for _, test := range []struct {
		state belljar.SessionState
		end   func(id string)
	}{
		{belljar.SessionClosed, func(id string) {
			if err := b.mine().Delete(b.context(), id); err != nil {
				t.Error(err)
			}
		}},
		{belljar.SessionCrashed, func(id string) {
			if err := b.fake.Remove(b.context(), id); err != nil {
				t.Error(err)
			}
			b.state(id, belljar.SessionCrashed)
		}},
		{belljar.SessionExpired, func(string) { clock.pass(time.Minute) }},
	} {
		s, created := b.opened(scoped("agent:a"))
		if !created || s.ID == last {
			t.Fatalf("before it is %s: %v, %+v", test.state, created, s)
		}
		test.end(s.ID)
		last = s.ID
		again, created := b.opened(scoped("agent:a"))
		if !created || again.ID == s.ID {
			t.Errorf("after it was %s: %v, %+v", test.state, created, again)
		}
		b.state(s.ID, test.state)
		if err := b.mine().Delete(b.context(), again.ID); err != nil {
			t.Error(err)
		}
	}
}

// Opening a scope waits while its session is being removed.
func TestOpenWaitsForTheEnd(t *testing.T) {
	b := newBench(t)
	s, _ := b.opened(scoped("agent:a"))
	r := b.start(in(s, "trap '' TERM; echo up; while :; do sleep 0.01; done"))
	b.waitFor(r.ID, "up")
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := b.mine().Delete(b.context(), s.ID); err != nil {
			t.Error(err)
		}
	})
	b.state(s.ID, belljar.SessionClosed)
	if _, err := b.Start(b.context(), in(s, "true")); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("a run in it: %v", err)
	}
	again, created := b.opened(scoped("agent:a"))
	if !created || slices.Contains(b.sandboxes(), s.ID) {
		t.Errorf("%v, %+v, %v", created, again, b.sandboxes())
	}
	wait.Wait()
}

// If making a session fails, all waiting requests get the error. The next one tries again.
func TestOpenFails(t *testing.T) {
	rt := &balky{err: &runtime.StepError{Step: "mount", Hint: "mend it", Err: errors.New("no")}}
	b := newBench(t, over(func(inner runtime.Runtime) runtime.Runtime { rt.Runtime = inner; return rt }))
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if _, _, err := b.mine().Open(b.context(), scoped("thread:1")); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable || belljar.HintOf(err) != "mend it" {
				t.Errorf("%v", err)
			}
		})
	}
	wait.Wait()
	rt.mu.Lock()
	rt.err = nil
	rt.mu.Unlock()
	if s, created := b.opened(scoped("thread:1")); !created || s.State != belljar.SessionActive {
		t.Errorf("%v, %+v", created, s)
	}
}

// turnstile is a runtime that lets one Create at a time pass, on demand.
type turnstile struct {
	runtime.Runtime
	entered chan struct{}
	pass    chan struct{}
}

func (r *turnstile) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	r.entered <- struct{}{}
	select {
	case <-r.pass:
		return r.Runtime.Create(ctx, spec)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// If the caller whose request makes the session disconnects, one of the waiting requests makes it.
func TestOpenMakerGivesUp(t *testing.T) {
	rt := &turnstile{entered: make(chan struct{}), pass: make(chan struct{})}
	b := newBench(t, over(func(inner runtime.Runtime) runtime.Runtime { rt.Runtime = inner; return rt }))
	ctx, cancel := context.WithCancel(b.context())
	var wait sync.WaitGroup
	wait.Go(func() {
		if _, _, err := b.mine().Open(ctx, scoped("thread:1")); belljar.CodeOf(err) != belljar.CodeCanceled {
			t.Errorf("%v", err)
		}
	})
	<-rt.entered
	var mu sync.Mutex
	count := 0
	for range 5 {
		wait.Go(func() {
			_, created, err := b.mine().Open(b.context(), scoped("thread:1"))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if created {
				count++
			}
		})
	}
	cancel()
	<-rt.entered
	close(rt.pass)
	wait.Wait()
	if count != 1 || len(b.sandboxes()) != 1 {
		t.Errorf("%d created, %v", count, b.sandboxes())
	}
}

// Scopes are separate for each owner. An operator sees all sessions, and opens their own.
func TestScopesOfOthers(t *testing.T) {
	b := newBench(t)
	ids := map[string]string{}
	admin := b.service.As(belljar.Caller{ID: "root", Role: belljar.RoleAdmin}).Sessions()
	for name, of := range map[string]belljar.Sessions{"ann": b.sessions("ann"), "bob": b.sessions("bob"), "root": admin} {
		s, created, err := of.Open(b.context(), scoped("workflow:1"))
		if err != nil || !created || s.UserID != name {
			t.Errorf("%s: %v, %+v, %v", name, created, s, err)
		}
		ids[name] = s.ID
	}
	if _, err := b.sessions("ann").Get(b.context(), ids["bob"]); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("%v", err)
	}
	if page, err := b.sessions("ann").List(b.context(), belljar.SessionQuery{KeyPrefix: "workflow:1:"}); err != nil || page.Total != 1 || page.Items[0].ID != ids["ann"] {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := admin.Get(b.context(), ids["bob"]); err != nil {
		t.Error(err)
	}
	closed, err := admin.CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "workflow:1:"})
	if err != nil || !slices.Equal(closed, []string{ids["root"]}) {
		t.Errorf("%v, %v", closed, err)
	}
	if s, created, err := b.sessions("bob").Open(b.context(), scoped("workflow:1")); err != nil || created || s.ID != ids["bob"] {
		t.Errorf("%v, %+v, %v", created, s, err)
	}
}

func TestCreateInScope(t *testing.T) {
	b := newBench(t)
	s, _ := b.opened(scoped("agent:a"))
	req := spec()
	req.Scope = belljar.Scope{Namespace: "agent", ID: "a"}
	_, err := b.mine().Create(b.context(), req)
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeConflict || e.Details["session_id"] != s.ID || e.Hint == "" {
		t.Errorf("%+v", err)
	}
	if err := b.mine().Delete(b.context(), s.ID); err != nil {
		t.Fatal(err)
	}
	made, err := b.mine().Create(b.context(), req)
	if err != nil || made.ScopeKey != "agent:a:default" {
		t.Fatalf("%+v, %v", made, err)
	}
	if again, created := b.opened(scoped("agent:a")); created || again.ID != made.ID {
		t.Errorf("%v, %+v", created, again)
	}
}

// An isolated session cannot be found by its scope, but it still ends with its workflow.
func TestIsolated(t *testing.T) {
	b := newBench(t)
	var ids []string
	for range 3 {
		s, created := b.opened(scoped("workflow:1:isolated"))
		if !created || !strings.HasPrefix(s.ScopeKey, "workflow:1:isolated:") {
			t.Errorf("%v, %+v", created, s)
		}
		ids = append(ids, s.ID)
	}
	nowhere, created := b.opened(belljar.SessionRequest{SessionSpec: belljar.SessionSpec{Scope: belljar.Scope{Key: belljar.IsolatedKey}}})
	if !created || nowhere.ScopeKey != "" {
		t.Errorf("%v, %+v", created, nowhere)
	}
	closed, err := b.mine().CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "workflow:1:"})
	slices.Sort(closed)
	if err != nil || !slices.Equal(closed, slices.Sorted(slices.Values(ids))) || !slices.Equal(b.sandboxes(), []string{nowhere.ID}) {
		t.Errorf("%v, %v, %v", closed, err, b.sandboxes())
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(ids)))); n != 3 {
		t.Errorf("%v", ids)
	}
}

// A repeated request gets the first response.
func TestOpenIdempotency(t *testing.T) {
	b := newBench(t)
	for _, scope := range []string{"agent:a", "agent:a:isolated"} {
		req := scoped(scope, func(r *belljar.SessionRequest) { r.IdempotencyKey = "k " + scope })
		first, created := b.opened(req)
		again, replayed := b.opened(req)
		if !created || !replayed || first.ID != again.ID || again.Details == nil || again.Details.Status != "replayed" {
			t.Errorf("%s: %+v, %v, %+v", scope, first, replayed, again)
		}
		req.MaxRuns = 7
		if _, _, err := b.mine().Open(b.context(), req); belljar.CodeOf(err) != belljar.CodeIdempotency {
			t.Errorf("%s: another request with that key: %v", scope, err)
		}
	}
}

// The record decides: a scope of a session of another server on the same store is taken.
func TestScopeTakenElsewhere(t *testing.T) {
	kept := memory.New()
	b := newBench(t, func(o *service.Options) { o.Store, o.Node.ID = kept, "here" })
	row := store.Session{NodeID: "elsewhere", Key: "agent:a:default", Session: belljar.Session{
		ID: belljar.NewID(), UserID: service.Local().ID, State: belljar.SessionActive, Runtime: "fake", CreatedAt: time.Now(),
	}}
	if _, err := kept.Sessions().Insert(t.Context(), row, nil); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 5 {
		wait.Go(func() {
			_, _, err := b.mine().Open(b.context(), scoped("agent:a"))
			var e *belljar.Error
			if !errors.As(err, &e) || e.Code != belljar.CodeConflict || e.Details["session_id"] != row.ID {
				t.Errorf("%+v", err)
			}
		})
	}
	wait.Wait()
	if len(b.sandboxes()) != 0 {
		t.Errorf("%v", b.sandboxes())
	}
	row.State, row.EndedAt = belljar.SessionLost, new(time.Now())
	if err := kept.Sessions().Update(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if _, created := b.opened(scoped("agent:a")); !created {
		t.Error("not created")
	}
}

func TestOpenIsRefused(t *testing.T) {
	b := newBench(t, func(o *service.Options) {
		o.MaxSessionTTL, o.MaxSessionLifetime, o.SessionLifetime, o.SessionConcurrency = time.Hour, 2*time.Hour, time.Hour, 4
	})
	living, _ := b.opened(scoped("agent:there"))
	for _, test := range []struct {
		name   string
		change func(*belljar.SessionRequest)
		code   belljar.Code
		field  string
	}{
		{"no scope", func(r *belljar.SessionRequest) { r.Scope = belljar.Scope{} }, belljar.CodeInvalidRequest, "scope"},
		{"unknown namespace", func(r *belljar.SessionRequest) { r.Scope.Namespace = "tenant" }, belljar.CodeInvalidRequest, "scope.namespace"},
		{"no id", func(r *belljar.SessionRequest) { r.Scope.ID = "" }, belljar.CodeInvalidRequest, "scope.id"},
		{"NUL", func(r *belljar.SessionRequest) { r.Scope.ID = "a\x00" }, belljar.CodeInvalidRequest, "scope.id"},
		{"10 kB", func(r *belljar.SessionRequest) { r.Scope.Key = strings.Repeat("k", 10_000) }, belljar.CodeInvalidRequest, "scope.key"},
		{"version", func(r *belljar.SessionRequest) { r.SpecVersion = "7" }, belljar.CodeInvalidSpecVersion, ""},
		{"ttl", func(r *belljar.SessionRequest) { r.TTLSec = 3601 }, belljar.CodePolicyDenied, "ttl_sec"},
		{"negative ttl", func(r *belljar.SessionRequest) { r.TTLSec = -1 }, belljar.CodeInvalidRequest, "ttl_sec"},
		{"lifetime", func(r *belljar.SessionRequest) { r.LifetimeSec = 7201 }, belljar.CodePolicyDenied, "lifetime_sec"},
		{"idle", func(r *belljar.SessionRequest) { r.IdleTimeoutSec = -1 }, belljar.CodeInvalidRequest, "idle_timeout_sec"},
		{"runs", func(r *belljar.SessionRequest) { r.MaxRuns = -1 }, belljar.CodeInvalidRequest, "max_runs"},
		{"concurrency", func(r *belljar.SessionRequest) { r.MaxConcurrent = 5 }, belljar.CodePolicyDenied, "max_concurrent_runs"},
		{"environment", func(r *belljar.SessionRequest) { r.Env = map[string]string{"A=": ""} }, belljar.CodeInvalidRequest, ""},
	} {
		// Both with and without an existing session.
		for _, scope := range []string{"agent:there", "agent:new"} {
			req := scoped(scope, test.change)
			_, _, err := b.mine().Open(b.context(), req)
			var e *belljar.Error
			if !errors.As(err, &e) || e.Code != test.code || test.field != "" && e.Details["field"] != test.field {
				t.Errorf("%s, %s: %+v", test.name, scope, err)
			}
		}
	}
	if !slices.Equal(b.sandboxes(), []string{living.ID}) {
		t.Errorf("%v", b.sandboxes())
	}
	// Unusual but valid ids.
	for _, id := range []string{"a:b", "%3A", "日本語", "../..", "' OR 1=1 --", strings.Repeat("x", 256)} {
		req := scoped("user:x")
		req.Scope.ID = id
		if s, created := b.opened(req); !created || strings.Count(s.ScopeKey, ":") != 2 {
			t.Errorf("%q: %v, %+v", id, created, s)
		}
		if _, created := b.opened(req); created {
			t.Errorf("%q is not found again", id)
		}
	}
}
