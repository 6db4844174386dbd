package session

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/lifecycle"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/queue"
)

// unmetered is a sandbox that reports no usage.
type unmetered struct{ runtime.Sandbox }

func (unmetered) Usage(context.Context) (runtime.Usage, error) { return runtime.Usage{}, nil }

// Agents that do not answer in time, of a hundred sessions that programs took over, do not keep the reaper from the other sessions.
func TestReapPastSlowAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{
			Terms: Terms{TTL: time.Hour, Lifetime: time.Hour}, Clock: &stopped{time.Now()}, Runs: noRuns{}, Queue: queue.New(queue.Options{}),
			Work: &lifecycle.Group{}, Log: slog.New(slog.DiscardHandler),
		})
		began := time.Now()
		var mu sync.Mutex
		var asked []time.Duration
		for range 101 {
			x := s.bare(belljar.NewID(), belljar.Caller{ID: "ann"}, belljar.SessionSpec{}, &placement.Placement{}, s.termsOf(belljar.SessionSpec{}))
			defer x.stop(nil)
			x.state.State = belljar.SessionStarting
			x.life.touch(began)
			x.life.ends, x.life.recorded = began.Add(time.Hour), began.Add(time.Hour)
			x.begin(&box.Box{Sandbox: unmetered{}, Agent: agent.New(func(ctx context.Context) (net.Conn, error) {
				mu.Lock()
				asked = append(asked, time.Since(began))
				mu.Unlock()
				<-ctx.Done()
				return nil, ctx.Err()
			})})
			s.table.adopt(x)
		}
		s.Reap(t.Context())
		if len(asked) != 101 {
			t.Fatalf("%d agents are asked", len(asked))
		}
		if last, took := asked[100], time.Since(began); last > 30*time.Second || took > 40*time.Second {
			t.Errorf("the last agent is asked after %v, and the pass takes %v", last, took)
		}
	})
}
