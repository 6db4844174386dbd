//go:build linux

package terminal

import (
	"context"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/test/boxtest"
)

// linked connects the world's box over a link, and returns it with a client of its own.
func (w *world) linked(text string, drops bool) (*boxtest.Link, *agent.Client) {
	l := &boxtest.Link{Dial: w.session.box.Dial, Text: text, Drops: drops, Muted: make(chan struct{})}
	own := w.session.box.Agent
	w.session.box.Agent = agent.New(l.Connect)
	return l, own
}

// until waits until the agent's commands are right.
func until(ctx context.Context, t *testing.T, c *agent.Client, right func([]wire.ExecInfo) bool) {
	t.Helper()
	for {
		list, err := c.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if right(list) {
			return
		}
	}
}

// A program that starts although its caller has cancelled is ended.
func TestOpenCancelled(t *testing.T) {
	w := newWorld(t)
	link, own := w.linked(`"op":"exec"`, false)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	opening, stop := context.WithCancel(ctx)
	opened := make(chan error, 1)
	go func() {
		_, err := w.As(w.session.Owner()).Open(opening, w.session.state.ID, belljar.TerminalSpec{Command: []string{"cat"}})
		opened <- err
	}()
	<-link.Muted
	until(ctx, t, own, func(list []wire.ExecInfo) bool { return len(list) == 1 && list[0].Running })
	stop()
	if err := <-opened; err == nil {
		t.Error("a cancelled call succeeded")
	}
	until(ctx, t, own, func(list []wire.ExecInfo) bool { return len(list) == 0 })
}

// A size that a broken stream has lost is reported over the next one.
func TestResizeOfABrokenStream(t *testing.T) {
	w := newWorld(t)
	link, own := w.linked(`"resize"`, true)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ann := w.As(w.session.Owner())
	term, err := ann.Open(ctx, w.session.state.ID, belljar.TerminalSpec{Command: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := ann.Attach(ctx, term.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Resize(99, 33); err != nil {
		t.Fatal(err)
	}
	link.Break()
	until(ctx, t, own, func(list []wire.ExecInfo) bool { return len(list) == 1 && list[0].PTY != nil && list[0].PTY.Cols == 99 })
}
