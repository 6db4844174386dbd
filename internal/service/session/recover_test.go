package session

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/lifecycle"
	"github.com/belljar/belljar/internal/service/snapshot"
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
