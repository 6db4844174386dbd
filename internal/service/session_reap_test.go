//go:build linux

package service_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/memory"
)

// line is a runtime whose agents can be disconnected, and which counts calls to them.
type line struct {
	runtime.Runtime
	cut   atomic.Bool
	dials atomic.Int64
}

type wired struct {
	runtime.Sandbox
	line *line
}

func (l *line) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	box, err := l.Runtime.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &wired{box, l}, nil
}

func (w *wired) Dial(ctx context.Context) (net.Conn, error) {
	w.line.dials.Add(1)
	if w.line.cut.Load() {
		return nil, errors.New("cut off")
	}
	return w.Sandbox.Dial(ctx)
}

func wire(l *line) func(*service.Options) {
	return over(func(rt runtime.Runtime) runtime.Runtime { l.Runtime = rt; return l })
}

// An agent that does not respond three times in a row is lost. One that responds in between is not.
func TestReapMute(t *testing.T) {
	l := &line{}
	b := newBench(t, wire(l))
	s, _ := b.opened(scoped("agent:a"))
	reap := func(cut bool) {
		l.cut.Store(cut)
		b.service.Reap(b.context())
	}
	for _, cut := range []bool{true, true, false, true, true, false} {
		reap(cut)
	}
	b.state(s.ID, belljar.SessionActive)
	for range 3 {
		reap(true)
	}
	if got := b.state(s.ID, belljar.SessionCrashed); !strings.Contains(got.Message, "no longer answers") {
		t.Errorf("%q", got.Message)
	}
	b.gone(s.ID)
	l.cut.Store(false)
	if _, created := b.opened(scoped("agent:a")); !created {
		t.Error("not created")
	}
}

// A pass pings every live session once.
func TestReapPingsOnce(t *testing.T) {
	l := &line{}
	b := newBench(t, wire(l), func(o *service.Options) { o.MaxSessions = -1 })
	const many = 60
	var wait sync.WaitGroup
	for range many {
		wait.Go(func() { b.open() })
	}
	wait.Wait()
	l.dials.Store(0)
	b.service.Reap(b.context())
	if n := l.dials.Load(); n != many {
		t.Errorf("%d calls", n)
	}
}

// sundial is a clock whose timers never fire.
type sundial struct{ *hourglass }

func (sundial) AfterFunc(time.Duration, func()) func() bool { return func() bool { return false } }

// The reaper ends sessions whose timers did not fire. A session that is being made has its full time.
func TestReapExpires(t *testing.T) {
	clock := newHourglass()
	rt := &slowRuntime{proceed: make(chan struct{})}
	b := newBench(t, over(func(inner runtime.Runtime) runtime.Runtime { rt.Runtime = inner; return rt }), func(o *service.Options) {
		o.Clock, o.SessionTTL = sundial{clock}, time.Minute
	})
	unused := b.open()
	idle := b.open(func(r *belljar.SessionRequest) { r.TTLSec, r.IdleTimeoutSec = 3600, 60 })
	old := b.open(func(r *belljar.SessionRequest) { r.TTLSec, r.LifetimeSec = 3600, 60 })
	fine := b.open(func(r *belljar.SessionRequest) { r.TTLSec = 3600 })
	rt.set(func() { rt.asked = make(chan struct{}) })
	made := make(chan error, 1)
	go func() {
		_, err := b.mine().Create(b.context(), spec())
		made <- err
	}()
	<-rt.asked
	clock.pass(59 * time.Second)
	b.service.Reap(b.context())
	for _, s := range []belljar.Session{unused, idle, old, fine} {
		b.state(s.ID, belljar.SessionActive)
	}
	clock.pass(time.Second)
	b.service.Reap(b.context())
	for _, s := range []belljar.Session{unused, idle, old} {
		b.state(s.ID, belljar.SessionExpired)
	}
	b.state(fine.ID, belljar.SessionActive)
	close(rt.proceed)
	if err := <-made; err != nil {
		t.Errorf("%+v", err)
	}
}

// counting is a store that counts the updates of sessions.
type counting struct {
	store.Store
	updates atomic.Int64
}

type countingSessions struct {
	store.Sessions
	of *counting
}

func (s *counting) Sessions() store.Sessions { return countingSessions{s.Store.Sessions(), s} }

func (s countingSessions) Update(ctx context.Context, row store.Session) error {
	s.of.updates.Add(1)
	return s.Sessions.Update(ctx, row)
}

// Uses write nothing. The reaper updates the record when it lags enough.
func TestActivityOnRecord(t *testing.T) {
	clock := newHourglass()
	st := &counting{Store: memory.New()}
	b := newBench(t, func(o *service.Options) { o.Clock, o.Store = clock, st })
	s := b.open(func(r *belljar.SessionRequest) { r.TTLSec = 1000 })
	st.updates.Store(0)
	use := func() {
		if _, err := b.mine().Upload(b.context(), s.ID, files(map[string]string{"x": ""})); err != nil {
			t.Fatal(err)
		}
	}
	onRecord := func(updates int64, want time.Time) {
		t.Helper()
		row, err := st.Store.Sessions().Get(t.Context(), s.ID)
		if err != nil || !row.ExpiresAt.Equal(want) || st.updates.Load() != updates {
			t.Errorf("%v, %v, want %v; %d updates, want %d", row.ExpiresAt, err, want, st.updates.Load(), updates)
		}
	}
	made := s.ExpiresAt
	for range 9 {
		clock.pass(11 * time.Second)
		use()
		b.service.Reap(b.context())
	}
	onRecord(0, made) // 99 s are less than a tenth of the TTL
	clock.pass(time.Second)
	use()
	b.service.Reap(b.context())
	onRecord(1, made.Add(100*time.Second))
	// A live run is a continuous use.
	run := b.start(in(s, looping))
	b.waitFor(run.ID, "up")
	clock.pass(5000 * time.Second)
	b.service.Reap(b.context())
	onRecord(2, clock.Now().Add(1000*time.Second))
	b.service.Reap(b.context())
	onRecord(2, clock.Now().Add(1000*time.Second))
	if err := b.Cancel(b.context(), run.ID); err != nil {
		t.Fatal(err)
	}
	b.follow(run.ID)
}

// After its recovery, a server calls the reaper on its own.
func TestReapsByItself(t *testing.T) {
	clock := newHourglass()
	l := &line{}
	b := newBench(t, wire(l), func(o *service.Options) { o.Clock, o.SessionTTL = clock, 24*time.Hour })
	if err := b.service.Recover(b.context()); err != nil {
		t.Fatal(err)
	}
	b.open()
	for range 3 {
		l.dials.Store(0)
		clock.pass(30 * time.Second)
		if n := l.dials.Load(); n != 1 {
			t.Errorf("%d calls", n)
		}
	}
}
