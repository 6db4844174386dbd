//go:build linux

package service_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// deafRuntime has agents that read the request of a stream and nothing after it, like an agent that a program took over: later writes
// block until the stream is closed.
type deafRuntime struct{ runtime.Runtime }

func (r deafRuntime) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	box, err := r.Runtime.Create(ctx, spec)
	return deafBox{box}, err
}

type deafBox struct{ runtime.Sandbox }

func (b deafBox) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := b.Sandbox.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &deafConn{Conn: conn, closed: make(chan struct{})}, nil
}

type deafConn struct {
	net.Conn
	asked  atomic.Bool
	once   sync.Once
	closed chan struct{}
}

func (c *deafConn) Write(b []byte) (int, error) {
	if c.asked.CompareAndSwap(false, true) {
		return c.Conn.Write(b)
	}
	<-c.closed
	return 0, net.ErrClosed
}

func (c *deafConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// A run ends when it is cancelled, and a terminal when it is closed, even if the agent reads nothing.
func TestAgentsThatReadNothing(t *testing.T) {
	b := newBench(t, over(func(r runtime.Runtime) runtime.Runtime { return deafRuntime{r} }), func(o *service.Options) { o.Slack = 100 * time.Millisecond })
	run := b.start(shell("echo ready; sleep 1000"))
	b.waitFor(run.ID, "ready\n")
	if err := b.Cancel(b.context(), run.ID); err != nil {
		t.Error(err)
	}
	b.follow(run.ID).want(t, belljar.PhaseKilled, 137, belljar.ReasonCanceledByUser)

	x := b.open()
	term := b.terminal(x.ID, "sleep", "1000")
	if err := b.terminals("").Close(b.context(), term.ID); err != nil {
		t.Error(err)
	}
	b.end(x)
}

// muteRuntime has agents that stop responding at some moment, those of the first mute sandboxes, and reports the requests to them.
type muteRuntime struct {
	runtime.Runtime
	made, mute atomic.Int64
	asked      chan struct{}
}

func (r *muteRuntime) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	box, err := r.Runtime.Create(ctx, spec)
	return muteBox{box, r, r.made.Add(1)}, err
}

type muteBox struct {
	runtime.Sandbox
	of     *muteRuntime
	number int64
}

func (b muteBox) Dial(ctx context.Context) (net.Conn, error) {
	if b.number > b.of.mute.Load() {
		return b.Sandbox.Dial(ctx)
	}
	conn, _ := net.Pipe()
	b.of.asked <- struct{}{}
	return conn, nil
}

// Deleting a session does not wait for an agent that does not respond.
func TestDeletePastAnAgentThatDoesNotAnswer(t *testing.T) {
	for name, ask := range map[string]func(context.Context, belljar.Service, string) error{
		"ports": func(ctx context.Context, s belljar.Service, id string) error {
			_, err := s.Ports().List(ctx, id)
			return err
		},
		"contexts": func(ctx context.Context, s belljar.Service, id string) error {
			_, err := s.Contexts().List(ctx, id)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			rt := &muteRuntime{asked: make(chan struct{}, 1)}
			b := newBench(t, over(func(r runtime.Runtime) runtime.Runtime { rt.Runtime = r; return rt }))
			x := b.open()
			rt.mute.Store(1)
			ctx, stop := context.WithCancel(b.context())
			defer stop()
			answered := make(chan error, 1)
			go func() { answered <- ask(ctx, b.service.As(service.Local()), x.ID) }()
			<-rt.asked
			if err := b.mine().Delete(b.context(), x.ID); err != nil {
				t.Error(err)
			}
			select {
			case err := <-answered:
				t.Errorf("the session waited for it: %v", err)
			default:
				stop()
				if err := <-answered; err == nil {
					t.Error("it was answered")
				}
			}
		})
	}
}

// Agents that a user's programs took over, and that do not respond, do not prevent idle sessions of other users from hibernating.
func TestRestOfOtherUsers(t *testing.T) {
	t.Parallel()
	const hostile = 3
	clock, rt := newHourglass(), &muteRuntime{asked: make(chan struct{}, hostile)}
	b := newBench(t, over(func(r runtime.Runtime) runtime.Runtime { rt.Runtime = r; return rt }), func(o *service.Options) {
		o.Clock, o.Blobs, o.SessionRest, o.SessionTTL, o.ReapEvery = clock, newBlobs(), time.Minute, time.Hour, time.Hour
	})
	for range hostile {
		b.open()
	}
	rt.mute.Store(hostile)
	clock.pass(time.Minute)
	for range 2 { // the number of one user's sessions that hibernate at the same time
		<-rt.asked
	}
	other := b.sessions("other")
	x, err := other.Create(b.context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	clock.pass(time.Minute)
	b.until(func() bool {
		got, err := other.Get(b.context(), x.ID)
		return err == nil && got.State == belljar.SessionHibernated
	})
}
