package terminal

import (
	"bytes"
	"context"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
)

// keysBytes is how much of what one types goes to the program before others have their turn.
const keysBytes = 32 << 10

// inputDebt is how much one may have to wait for his own haste until what he types is refused.
const inputDebt = 10 * time.Second

// keystrokes are something typed on its way to the program.
type keystrokes struct {
	bytes []byte
	done  chan error // holds one
}

// writeLoop hands what is typed to the program, in the order in which it comes. While the program does not read it waits,
// and with it everybody who types.
func (t *terminal) writeLoop() {
	for {
		select {
		case k := <-t.keys:
			_, err := t.process().Write(k.bytes)
			k.done <- err
		case <-t.over:
			return
		}
	}
}

// resizeLoop tells the program its size. Of many that come at once the last is told.
func (t *terminal) resizeLoop() {
	gap := time.NewTimer(0)
	defer gap.Stop()
	for {
		select {
		case <-t.resize:
		case <-t.over:
			return
		}
		select {
		case <-gap.C:
		case <-t.over:
			return
		}
		t.mu.Lock()
		size := wire.Size{Cols: uint16(t.state.Cols), Rows: uint16(t.state.Rows)}
		proc := t.proc
		t.mu.Unlock()
		_ = proc.Resize(size) // a stream that is broken is joined again, or the terminal's end
		gap.Reset(resizeGap)
	}
}

// Write types.
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
		pause := time.NewTimer(wait)
		defer pause.Stop()
		select {
		case <-pause.C:
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

// send hands one piece to the writeLoop and waits until the agent has it. The writeLoop may still hold it after an error.
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
		if a.exited() { // perhaps with this: the writeLoop, whom nothing holds up any more, knows whether the program had it
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

// throttle counts a message of n bytes and says how long it has to wait; false if that is too long, and it is not counted.
func (a *attachment) throttle(n int) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	wait := max(a.size.due(now, float64(n), float64(a.terminal.limits.InputBytes)), a.count.due(now, 1, float64(a.terminal.limits.InputMessages)))
	if wait > inputDebt {
		a.size.back(float64(n))
		a.count.back(1)
		return wait, false
	}
	return wait, true
}

// bucket holds a second's worth of something, and a debt. The zero value is full.
type bucket struct {
	spent float64
	at    time.Time
}

// due spends n of perSecond and returns after how long that is made good.
func (b *bucket) due(now time.Time, n, perSecond float64) time.Duration {
	if !b.at.IsZero() {
		b.spent = max(b.spent-perSecond*now.Sub(b.at).Seconds(), 0)
	}
	b.at = now
	b.spent += n
	return time.Duration(max(b.spent-perSecond, 0) / perSecond * float64(time.Second))
}

// back takes n back.
func (b *bucket) back(n float64) { b.spent = max(b.spent-n, 0) }
