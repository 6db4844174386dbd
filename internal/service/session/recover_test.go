package session

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/approval"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/lifecycle"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/recovery"
	"github.com/belljar/belljar/internal/service/snapshot"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/memory"
)

// orphaned reports that all runs are orphaned.
type orphaned struct{ Runs }

func (orphaned) Orphaned(string) bool { return true }

// An agent that lists many orphaned commands, and ends none, costs one attempt.
func TestRemoveOrphansOfOneAgent(t *testing.T) {
	records := memory.New()
	s := &Sessions{opts: Options{
		Clock: stopped{time.Unix(1e9, 0)}, Work: &lifecycle.Group{}, Log: slog.New(slog.DiscardHandler), Runs: orphaned{}, Slack: time.Minute,
		Store: records.Sessions(), Snapshots: snapshot.New(snapshot.Options{Store: records.Snapshots()}),
	}}
	var dials atomic.Int32
	gate := make(chan struct{})
	b := &box.Box{Agent: agent.New(func(context.Context) (net.Conn, error) {
		dials.Add(1)
		<-gate
		return nil, errors.New("no")
	})}
	x := &Session{all: s, id: "x", box: b, ready: make(chan struct{}), state: belljar.Session{State: belljar.SessionActive}}
	x.asleep.of, x.Approval.of = x, x
	x.ctx, x.stop = context.WithCancelCause(t.Context())
	close(x.ready)
	known := make([]wire.ExecInfo, 1000)
	for i := range known {
		known[i].ID = belljar.NewID()
	}
	r := s.Recovery()
	r.found = commands{x: known}
	r.RemoveOrphans(t.Context())
	x.mu.Lock()
	uses := x.uses
	x.mu.Unlock()
	close(gate)
	s.opts.Work.Wait()
	if n := dials.Load(); uses != 1 || n != 1 || x.uses != 0 {
		t.Errorf("%d uses at once, %d connections, %d uses left", uses, n, x.uses)
	}
}

// mute is a runtime with sandboxes that do not respond.
type mute struct {
	runtime.Runtime
	asked func()
}

func (mute) Name() string                         { return "mute" }
func (mute) Remove(context.Context, string) error { return nil }
func (m mute) Attach(ctx context.Context, _ string) (runtime.Sandbox, error) {
	m.asked()
	<-ctx.Done()
	return nil, ctx.Err()
}

// idleRuns has no unfinished runs, and one finished run in each session.
type idleRuns struct{ Runs }

func (idleRuns) Busy(context.Context) (map[string]bool, error) { return nil, nil }
func (idleRuns) CountIn(context.Context, string) (int, error)  { return 1, nil }

// A hundred sessions that do not respond delay the start by little more than one of them.
func TestRecoverPastSilentAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		var asked []time.Duration
		hosts := placement.Hosts{{Runtime: mute{asked: func() {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, time.Since(began))
		}}}}
		log := slog.New(slog.DiscardHandler)
		s := New(Options{
			Store: memory.New().Sessions(), Rules: &admission.Rules{Hosts: hosts}, Clock: clock.Wall{}, Work: &lifecycle.Group{}, Log: log, Runs: idleRuns{},
			Boxes: &box.Maker{Hosts: hosts, AfterFunc: clock.Wall{}.AfterFunc, Log: log}, Desk: &approval.Desk{}, Record: func(event.Event) {},
		})
		for range 101 {
			row := store.Session{Session: belljar.Session{ID: belljar.NewID(), UserID: "ann", Runtime: "mute", State: belljar.SessionActive, CreatedAt: began}}
			if _, err := s.opts.Store.Insert(t.Context(), row, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Recovery().Recover(t.Context()); err != nil || len(asked) != 101 {
			t.Fatalf("%d are asked, %v", len(asked), err)
		}
		if last, took := asked[100], time.Since(began); last > 30*time.Second || took > 2*recovery.Timeout {
			t.Errorf("the last is asked after %v, and the recovery takes %v", last, took)
		}
	})
}

// rebooted is a runtime whose sandboxes have ended.
type rebooted struct{ mute }

func (rebooted) Attach(context.Context, string) (runtime.Sandbox, error) { return nil, runtime.ErrGone }

// A lost session gets its number of runs, which its record may lag: clients check by it whether the session was used.
func TestRunsOfLostSession(t *testing.T) {
	hosts := placement.Hosts{{Runtime: rebooted{}}}
	log := slog.New(slog.DiscardHandler)
	s := New(Options{
		Store: memory.New().Sessions(), Rules: &admission.Rules{Hosts: hosts}, Clock: clock.Wall{}, Work: &lifecycle.Group{}, Log: log, Runs: idleRuns{},
		Boxes: &box.Maker{Hosts: hosts, AfterFunc: clock.Wall{}.AfterFunc, Log: log}, Desk: &approval.Desk{}, Record: func(event.Event) {},
	})
	for id, runs := range map[string]int{"lags": 0, "exact": 1, "pruned": 3} {
		row := store.Session{Session: belljar.Session{ID: id, UserID: "ann", Runtime: "mute", State: belljar.SessionActive, Runs: runs, CreatedAt: time.Now()}}
		if _, err := s.opts.Store.Insert(t.Context(), row, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Recovery().Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, runs := range map[string]int{"lags": 1, "exact": 1, "pruned": 3} {
		if row, err := s.opts.Store.Get(t.Context(), id); err != nil || row.State != belljar.SessionLost || row.Runs != runs {
			t.Errorf("%s: %+v, %v, want %d runs", id, row.Session, err, runs)
		}
	}
}
