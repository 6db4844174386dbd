package terminal

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/time/rate"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/pace"
)

// pieceBytes is the most output in one event.
const pieceBytes = 32 << 10

// attachment is one viewer of a terminal. Its unread output waits in a bounded queue.
type attachment struct {
	terminal *terminal
	ready    chan struct{} // has a token when there is an event to read
	room     chan struct{} // has a token when an event was read
	shut     chan struct{} // closed when there are no more events

	mu              sync.Mutex
	history         []byte // nil after it was read
	queue           []byte
	last            *belljar.TerminalEvent // after the queue; set before shut is closed
	known           bool                   // last was read
	left            bool
	bytes, messages *rate.Limiter // of input
}

var _ belljar.Attachment = (*attachment)(nil)

// attach adds a viewer. Unless the terminal is shared, it replaces the current one.
func (t *terminal) attach() (*attachment, error) {
	a := &attachment{
		terminal: t, ready: make(chan struct{}, 1), room: make(chan struct{}, 1), shut: make(chan struct{}),
		bytes: pace.New(t.limits.InputBytes), messages: pace.New(t.limits.InputMessages),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last != nil && t.last.Kind != belljar.TerminalExit {
		return nil, t.all.missing(t.id)
	}
	if t.state.Shared && len(t.attached) >= t.limits.Attached {
		return nil, &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("the terminal has %d clients already", len(t.attached)),
			Details: map[string]any{"quota": "attached", "used": len(t.attached), "limit": t.limits.Attached},
		}
	}
	if a.history = t.history.text(); len(a.history) > 0 {
		notify(a.ready)
	}
	if t.last != nil {
		a.finish(*t.last)
		return a, nil
	}
	var attached []*attachment
	if t.state.Shared {
		attached = slices.Clone(t.attached)
	} else {
		for _, other := range t.attached {
			other.finish(belljar.TerminalEvent{Kind: belljar.TerminalReplaced})
		}
	}
	t.attached = append(attached, a)
	if t.stopWindow != nil {
		t.stopWindow()
		t.stopWindow = nil
	}
	return a, nil
}

// detach removes a viewer. The reattach window begins after the last.
func (t *terminal) detach(a *attachment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := slices.Index(t.attached, a); at >= 0 {
		t.attached = slices.Delete(slices.Clone(t.attached), at, at+1)
		if t.last == nil {
			t.startWindow()
		}
	}
}

// Terminal returns the terminal's current state.
func (a *attachment) Terminal() belljar.Terminal { return a.terminal.snapshot() }

// Next waits for the next event.
func (a *attachment) Next(ctx context.Context) (belljar.TerminalEvent, error) {
	for {
		if e, ok, err := a.take(); ok || err != nil {
			return e, err
		}
		select {
		case <-a.ready:
		case <-ctx.Done():
			return belljar.TerminalEvent{}, context.Cause(ctx)
		}
	}
}

// take returns the next event, if there is one. The error is io.EOF after the last event.
func (a *attachment) take() (e belljar.TerminalEvent, ok bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.left || a.known:
		return e, false, io.EOF
	case len(a.history) > 0:
		e = belljar.TerminalEvent{Kind: belljar.TerminalHistory, Data: a.history}
		a.history = nil
	case len(a.queue) > 0:
		piece := a.queue[:min(len(a.queue), pieceBytes)]
		e = belljar.TerminalEvent{Kind: belljar.TerminalOutput, Data: slices.Clone(piece)}
		if a.queue = a.queue[len(piece):]; len(a.queue) == 0 {
			a.queue = nil
		}
		notify(a.room)
	case a.last != nil:
		a.known = true
		e = *a.last
	default:
		return e, false, nil
	}
	notify(a.ready) // there may be more
	return e, true, nil
}

// put adds output to the queue; false if there is no room. A closed attachment discards output and returns true.
func (a *attachment) put(b []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last != nil || a.left {
		return true
	}
	if len(a.queue) > 0 && len(a.queue)+len(b) > a.terminal.limits.Queue {
		return false
	}
	a.queue = append(a.queue, b...)
	notify(a.ready)
	return true
}

// await waits until half of the queue is read or the attachment is closed; false if late comes first.
func (a *attachment) await(late <-chan struct{}) bool {
	for {
		a.mu.Lock()
		ok := len(a.queue) <= a.terminal.limits.Queue/2 || a.last != nil || a.left
		a.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-a.room:
		case <-a.shut:
		case <-late:
			return false
		}
	}
}

// finish sets the last event. Queued output is still delivered before it, except after an overflow.
func (a *attachment) finish(last belljar.TerminalEvent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last != nil || a.left {
		return
	}
	a.last = &last
	if last.Kind == belljar.TerminalOverflow {
		a.history, a.queue = nil, nil
	}
	close(a.shut)
	notify(a.ready)
}

// Resize changes the size for all viewers.
func (a *attachment) Resize(cols, rows int) error {
	if err := belljar.CheckTerminalSize(cols, rows); err != nil {
		return err
	}
	select {
	case <-a.shut:
		return a.refusal()
	default:
	}
	t := a.terminal
	t.mu.Lock()
	t.state.Cols, t.state.Rows, t.resized = cols, rows, true
	t.mu.Unlock()
	notify(t.resize)
	return nil
}

// Close detaches from the terminal.
func (a *attachment) Close() error {
	a.mu.Lock()
	if !a.left {
		a.left = true
		a.history, a.queue = nil, nil
		if a.last == nil {
			close(a.shut)
		}
	}
	a.mu.Unlock()
	notify(a.ready)
	a.terminal.detach(a)
	return nil
}

// exited reports whether the program ended on its own.
func (a *attachment) exited() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last != nil && a.last.Kind == belljar.TerminalExit
}

// refusal returns the error of writing to a terminal that no longer accepts input.
func (a *attachment) refusal() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := &belljar.Error{
		Code: belljar.CodeConflict, Message: "the terminal no longer takes input",
		Details: map[string]any{"terminal_id": a.terminal.id},
	}
	switch {
	case a.left:
		e.Message = "this terminal was left"
	case a.last != nil && a.last.Kind == belljar.TerminalReplaced:
		e.Message = "another client has taken over this terminal"
	}
	return e
}

// notify leaves a token.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
