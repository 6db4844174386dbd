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

// deafRuntime has agents that read the request of a stream and nothing after it, as where a program took one over: what is written
// then blocks until the stream is closed.
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

// A run ends when it is cancelled, and a terminal when it is closed, also if the agent reads nothing.
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
	b.endSessions(x)
}
