package terminal

import (
	"bytes"
	"context"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/pace"
)

// keysBytes is how much input of one viewer is sent to the program before the next viewer's turn.
const keysBytes = 32 << 10

// inputDebt is the longest delay by the rate limit. Input that would wait longer is refused.
const inputDebt = 10 * time.Second

// keystrokes are input that is being sent to the program.
type keystrokes struct {
	bytes []byte
	done  chan error // holds one
}

// writeLoop passes input to the program in order. It waits while the program does not read, and so does every client that
// writes.
func (t *terminal) writeLoop() {
	for {
		select {
		case k := <-t.keys:
			t.reportSize() // a client that resizes and then writes expects this order
			_, err := t.process().Write(k.bytes)
			k.done <- err
		case <-t.over:
			return
		}
	}
}

// resizeLoop reports the size to the program. If it changes several times, only the last is reported.
func (t *terminal) resizeLoop() {
	gap := time.After(0)
	for {
		select {
		case <-t.resize:
		case <-t.over:
			return
		}
		select {
		case <-gap:
		case <-t.over:
			return
		}
		t.reportSize()
		gap = time.After(resizeGap)
	}
}

// reportSize reports a new size to the program.
func (t *terminal) reportSize() {
	t.sizing.Lock()
	defer t.sizing.Unlock()
	t.mu.Lock()
	size := wire.Size{Cols: uint16(t.state.Cols), Rows: uint16(t.state.Rows)}
	proc, resized := t.proc, t.resized
	t.resized = false
	t.mu.Unlock()
	if resized {
		_ = proc.Resize(size) // a broken stream is reattached, or ends the terminal
	}
}

// Write sends input to the program.
func (a *attachment) Write(ctx context.Context, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	select {
	case <-a.shut:
		return a.refusal()
	default:
	}
	wait, ok := a.throttle(len(b))
	if !ok {
		return &belljar.Error{
			Code: belljar.CodeRateLimited, Message: "too much is typed at once", Hint: "wait for what was sent before",
			Details: map[string]any{
				"bytes_per_sec": a.terminal.limits.InputBytes, "messages_per_sec": a.terminal.limits.InputMessages,
				"retry_after_sec": int(wait.Seconds()) + 1, "scope": "terminal_input",
			},
		}
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-a.shut:
			return a.refusal()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	now := a.terminal.all.now()
	a.terminal.mu.Lock()
	a.terminal.state.LastInput = now
	a.terminal.mu.Unlock()
	a.terminal.touch(true)
	for len(b) > 0 {
		piece := b[:min(len(b), keysBytes)]
		if err := a.send(ctx, piece); err != nil {
			return err
		}
		b = b[len(piece):]
	}
	return nil
}

// send passes one piece to writeLoop and waits until the agent has received it. After an error writeLoop may still hold
// it.
func (a *attachment) send(ctx context.Context, piece []byte) error {
	k := &keystrokes{bytes: bytes.Clone(piece), done: make(chan error, 1)}
	select {
	case a.terminal.keys <- k:
	case <-a.shut:
		return a.refusal()
	case <-a.terminal.over:
		return a.refusal()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-k.done:
		if err != nil {
			return a.refusal()
		}
		return nil
	case <-a.shut:
		if a.exited() { // possibly because of this input: writeLoop, now unblocked, knows whether the program got it
			select {
			case err := <-k.done:
				if err == nil {
					return nil
				}
			case <-ctx.Done():
			}
		}
		return a.refusal()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// throttle counts a message of n bytes and returns its delay; false if that is too long, and the message is not counted.
func (a *attachment) throttle(n int) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	size, cancelSize := pace.Reserve(a.bytes, now, n)
	count, cancelCount := pace.Reserve(a.messages, now, 1)
	wait := max(size, count)
	if wait > inputDebt {
		cancelSize()
		cancelCount()
		return wait, false
	}
	return wait, true
}
