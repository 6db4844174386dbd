//go:build linux

package service_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// hourglass is a clock that the test controls.
type hourglass struct {
	mu    sync.Mutex
	now   time.Time
	turns map[int]turn
	next  int
}

type turn struct {
	at time.Time
	f  func()
}

func newHourglass() *hourglass {
	return &hourglass{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), turns: map[int]turn{}}
}

func (c *hourglass) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *hourglass) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.next
	c.next++
	c.turns[id] = turn{c.now.Add(d), f}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waits := c.turns[id]
		delete(c.turns, id)
		return waits
	}
}

// pass advances the time and runs due timers, one after the other.
func (c *hourglass) pass(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []func()
	for id, t := range c.turns {
		if !t.at.After(c.now) {
			due = append(due, t.f)
			delete(c.turns, id)
		}
	}
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
}

// diary stores the events.
type diary struct {
	mu     sync.Mutex
	events []event.Event
}

func (d *diary) Record(e event.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

func (d *diary) named(name string) (list []event.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Name == name {
			list = append(list, e)
		}
	}
	return list
}

// sandboxes returns the ids of existing sandboxes.
func (b *bench) sandboxes() []string {
	b.t.Helper()
	list, err := b.fake.List(b.context())
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// sessions returns the sessions of a user.
func (b *bench) sessions(user string) belljar.Sessions {
	return b.service.As(belljar.Caller{ID: user, Role: belljar.RoleUser}).Sessions()
}

// spec returns a request for a session.
func spec() belljar.SessionRequest {
	return belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.1", BaseImage: "host"}}
}

// open makes a session of the bench's caller.
func (b *bench) open(change ...func(*belljar.SessionRequest)) belljar.Session {
	b.t.Helper()
	req := spec()
	for _, f := range change {
		f(&req)
	}
	s, err := b.mine().Create(b.context(), req)
	if err != nil {
		b.t.Fatalf("create: %v", err)
	}
	return s
}

func (b *bench) mine() belljar.Sessions { return b.service.As(service.Local()).Sessions() }

// in returns a request for a shell script in a session.
func in(s belljar.Session, script string) belljar.RunRequest {
	return belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: "1.1", SessionID: s.ID, Command: []string{"/bin/sh", "-c", script},
	}}
}

// state waits until a session has a state.
func (b *bench) state(id string, want belljar.SessionState) belljar.Session {
	b.t.Helper()
	ctx := b.context()
	for {
		s, err := b.mine().Get(ctx, id)
		if err != nil {
			b.t.Fatalf("get: %v", err)
		}
		if s.State == want {
			return s
		}
		if ctx.Err() != nil || s.State.Ended() {
			b.t.Fatalf("session is %s (%s), want %s", s.State, s.Message, want)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestSession(t *testing.T) {
	events := &diary{}
	b := newBench(t, func(o *service.Options) { o.Events = events })
	s := b.open(func(r *belljar.SessionRequest) {
		r.Env = map[string]string{"A": "session", "B": "session"}
		r.Labels = map[string]string{"team": "x"}
		r.Resources.NoFile = 300
		r.TimeoutSec = 33
	})
	if s.State != belljar.SessionActive || s.Runtime != "fake" || s.BaseImage != "host" || s.PolicyHash == "" || s.SpecVersion != "1.1" ||
		s.Limits.NoFile != 300 || s.Limits.TimeoutSec != 33 || s.Labels["team"] != "x" || s.Details != nil ||
		s.ExpiresAt.Sub(s.CreatedAt) < 59*time.Minute || !slices.Equal(b.sandboxes(), []string{s.ID}) {
		t.Errorf("%+v, sandboxes %v", s, b.sandboxes())
	}
	for _, at := range []time.Time{s.CreatedAt, s.ExpiresAt} {
		if !at.Equal(at.Truncate(time.Microsecond)) {
			t.Errorf("%v is more exact than the record is", at)
		}
	}
	if got, err := b.mine().Get(b.context(), s.ID); err != nil || got.ID != s.ID || got.State != belljar.SessionActive {
		t.Errorf("%+v, %v", got, err)
	}
	first := in(s, `echo $A $B; echo kept > file`)
	first.Env = map[string]string{"B": "run"}
	r := b.run(first)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != "session run\n" || r.SessionID != s.ID || r.BaseImage != "host" {
		t.Errorf("stdout %q, session %q, image %q", r.stdout, r.SessionID, r.BaseImage)
	}
	if r := b.run(in(s, "cat file; exit 3")); r.stdout != "kept\n" || *r.ExitCode != 3 {
		t.Errorf("the second run: %q, %v", r.stdout, r.ExitCode)
	}
	if err := b.mine().Delete(b.context(), s.ID); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if left := b.sandboxes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	got, err := b.mine().Get(b.context(), s.ID)
	if err != nil || got.State != belljar.SessionClosed || got.Message == "" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := b.mine().Delete(b.context(), s.ID); err != nil {
		t.Errorf("delete again: %v", err)
	}
	if _, err := b.Start(b.context(), in(s, "true")); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("a run in a session that has ended: %v", err)
	}
	if made, ended := events.named(event.SessionCreated), events.named(event.SessionEnded); len(made) != 1 || len(ended) != 1 ||
		made[0].Session.ID != s.ID || ended[0].Reason != "closed" || ended[0].Caller.ID != made[0].Caller.ID {
		t.Errorf("made %+v, ended %+v", made, ended)
	}
}

func TestSessionRefusals(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Runtimes = append(o.Runtimes, away{o.Runtimes[0]}) })
	for name, test := range map[string]struct {
		change func(*belljar.SessionRequest)
		code   belljar.Code
		field  string
	}{
		"no version":      {func(r *belljar.SessionRequest) { r.SpecVersion = "" }, belljar.CodeInvalidSpecVersion, "spec_version"},
		"old version":     {func(r *belljar.SessionRequest) { r.SpecVersion = "0.9" }, belljar.CodeInvalidSpecVersion, ""},
		"no image":        {func(r *belljar.SessionRequest) { r.BaseImage = "" }, belljar.CodeInvalidRequest, "base_image"},
		"unknown image":   {func(r *belljar.SessionRequest) { r.BaseImage = "python:3" }, belljar.CodeImageUnavailable, ""},
		"env":             {func(r *belljar.SessionRequest) { r.Env = map[string]string{"A=B": ""} }, belljar.CodeInvalidRequest, "env"},
		"label":           {func(r *belljar.SessionRequest) { r.Labels = map[string]string{"": ""} }, belljar.CodeInvalidRequest, "labels"},
		"network":         {func(r *belljar.SessionRequest) { r.NetworkPolicy = "open" }, belljar.CodePolicyDenied, "network_policy"},
		"too much":        {func(r *belljar.SessionRequest) { r.Resources.MemoryMB = 1 << 30 }, belljar.CodePolicyDenied, "resources.memory_mb"},
		"negative ttl":    {func(r *belljar.SessionRequest) { r.TTLSec = -1 }, belljar.CodeInvalidRequest, "ttl_sec"},
		"long ttl":        {func(r *belljar.SessionRequest) { r.TTLSec = 1e9 }, belljar.CodePolicyDenied, "ttl_sec"},
		"unknown runtime": {func(r *belljar.SessionRequest) { r.Runtime = "lxc" }, belljar.CodeRuntimeUnavailable, ""},
		"absent runtime":  {func(r *belljar.SessionRequest) { r.Runtime = "firecracker" }, belljar.CodeRuntimeUnavailable, ""},
		"protection":      {func(r *belljar.SessionRequest) { r.AllowWeak = []string{"x"} }, belljar.CodeInvalidRequest, "allow_weak"},
		"key":             {func(r *belljar.SessionRequest) { r.IdempotencyKey = strings.Repeat("x", 129) }, belljar.CodeInvalidRequest, ""},
	} {
		req := spec()
		test.change(&req)
		_, err := b.mine().Create(b.context(), req)
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != test.code || test.field != "" && e.Details["field"] != test.field {
			t.Errorf("%s: %v (%s), want %s, %s", name, err, belljar.CodeOf(err), test.code, test.field)
		}
	}
	weak := spec()
	weak.AllowWeak = []string{runtime.ProtectMemory}
	if _, err := b.sessions("a").Create(b.context(), weak); belljar.CodeOf(err) != belljar.CodePolicyDenied {
		t.Errorf("a stranger waives a protection: %v", err)
	}
	if page, err := b.mine().List(b.context(), belljar.SessionQuery{All: true}); err != nil || page.Total != 0 {
		t.Errorf("refused, but on record: %+v, %v", page, err)
	}
}

// A run in a session may not set properties of the sandbox. A missing session is not found.
func TestRunInSessionRefusals(t *testing.T) {
	b := newBench(t)
	s := b.open()
	for name, change := range map[string]func(*belljar.RunRequest){
		"memory": func(r *belljar.RunRequest) { r.Resources.MemoryMB = 100 },
		"exec":   func(r *belljar.RunRequest) { r.WorkspaceExec = true },
		"image":  func(r *belljar.RunRequest) { r.BaseImage = "host" },
	} {
		req := in(s, "true")
		change(&req)
		if _, err := b.Start(b.context(), req); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.Start(b.context(), in(belljar.Session{ID: "none"}, "true")); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("a session that there is not: %v", err)
	}
}

func TestSessionsAreApart(t *testing.T) {
	b := newBench(t)
	mine, other := b.sessions("a"), b.sessions("b")
	s, err := mine.Create(b.context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	_, get := other.Get(b.context(), s.ID)
	_, upload := other.Upload(b.context(), s.ID, files(map[string]string{"a": "x"}))
	_, run := b.service.As(belljar.Caller{ID: "b"}).Runs().Start(b.context(), in(s, "true"))
	for what, err := range map[string]error{"get": get, "upload": upload, "run": run, "delete": other.Delete(b.context(), s.ID)} {
		if belljar.CodeOf(err) != belljar.CodeNotFound {
			t.Errorf("%s of another's session: %v", what, err)
		}
	}
	for user, want := range map[string]int{"a": 1, "b": 0} {
		if page, err := b.sessions(user).List(b.context(), belljar.SessionQuery{}); err != nil || len(page.Items) != want {
			t.Errorf("%s sees %+v, %v", user, page, err)
		}
	}
	if err := mine.Delete(b.context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if err := other.Delete(b.context(), s.ID); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("delete of another's ended session: %v", err)
	}
	if err := mine.Delete(b.context(), "none"); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("delete of nothing: %v", err)
	}
}

func TestSessionList(t *testing.T) {
	b := newBench(t)
	var ids []string
	for range 3 {
		ids = append(ids, b.open().ID)
	}
	if err := b.mine().Delete(b.context(), ids[1]); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		query belljar.SessionQuery
		want  []string
		total int
		more  bool
	}{
		{belljar.SessionQuery{}, []string{ids[2], ids[0]}, 2, false},
		{belljar.SessionQuery{All: true}, []string{ids[2], ids[1], ids[0]}, 3, false},
		{belljar.SessionQuery{All: true, Limit: 1, Offset: 1}, []string{ids[1]}, 3, true},
		{belljar.SessionQuery{Offset: 5}, []string{}, 2, false},
	} {
		page, err := b.mine().List(b.context(), test.query)
		got := []string{}
		for _, s := range page.Items {
			got = append(got, s.ID)
		}
		if err != nil || !slices.Equal(got, test.want) || page.Total != test.total || page.HasMore != test.more {
			t.Errorf("%+v: %v of %d, more %t, %v; want %v of %d", test.query, got, page.Total, page.HasMore, err, test.want, test.total)
		}
	}
	if _, err := b.mine().List(b.context(), belljar.SessionQuery{Limit: -1}); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("%v", err)
	}
}

func TestSessionQuota(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.MaxSessions, o.MaxNodeSessions = 2, 3 })
	create := func(user string) (belljar.Session, error) { return b.sessions(user).Create(b.context(), spec()) }
	var last belljar.Session
	for _, user := range []string{"a", "a", "b"} {
		s, err := create(user)
		if err != nil {
			t.Fatal(err)
		}
		last = s
	}
	for user, quota := range map[string]string{"a": "sessions", "b": "node_sessions", "c": "node_sessions"} {
		_, err := create(user)
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != belljar.CodeQuotaExceeded || e.Details["quota"] != quota {
			t.Errorf("%s: %+v", user, err)
		}
	}
	if err := b.sessions("b").Delete(b.context(), last.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := create("c"); err != nil {
		t.Errorf("after one has gone: %v", err)
	}
}
