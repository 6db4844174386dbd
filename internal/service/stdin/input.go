package stdin

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/pace"
)

// Reasons for closing the input of an interactive run. An exceeded limit is a reason, too.
const (
	EndedByClient = "client"          // a caller ended it
	EndedWithRun  = "run_ended"       // the command has ended
	Detached      = "connection_lost" // the command is left to the next process, with its input open
)

// The limits of an interactive run's input, with their names in the API.
const (
	limitBytes      = "stdin_max_bytes"
	limitFrameBytes = "stdin_max_frame_bytes"
	limitRate       = "stdin_bps"
	limitIdle       = "stdin_idle_timeout_sec"
)

// maxDelay is the total time for which the rate limit may delay a sender without a pause, before that is a violation.
const maxDelay = time.Second

// Sink is the destination of input: a process, or a [Pipe].
type Sink interface {
	Write(b []byte) (int, error)
	CloseStdin() error
}

// Input is the standard input of one interactive run. All callers with a handle write to the command through it, frame by
// frame. It buffers nothing: a write returns when the command's agent has received the frame. Its limits apply to all
// writers together. Exceeding a limit closes the input permanently.
//
// The rate limit is a token bucket of one second. A frame without enough tokens waits for them, so that a burst is only
// delayed. The input is closed once frames have waited for a second in total while the sender stayed above the rate.
type Input struct {
	limits Limits

	frames chan *frame   // from writers to the pump
	eof    chan struct{} // closed when a caller ends the input: the pump then closes it after the frames it has
	closed chan struct{} // closed when the input is closed
	eofs   sync.Once

	mu       sync.Mutex
	reason   string // set before closed is closed
	attached bool
	busy     int   // running writes, during which the input is not idle
	taken    int64 // bytes accepted
	rate     *rate.Limiter
	delayed  time.Duration // by rate, since the last frame without delay
	idle     *time.Timer
	last     time.Time // when the last write ended, or the command began
	watcher  func(reason string, taken int64)
}

// frame is one write in progress.
type frame struct {
	bytes []byte
	done  chan error // holds one
}

// New returns an input with these limits whose command has not started. A zero limit is the default.
func New(l Limits) *Input {
	l = Complete(l, DefaultLimits())
	return &Input{
		limits: l, rate: pace.New(l.BytesPerSec),
		frames: make(chan *frame), eof: make(chan struct{}), closed: make(chan struct{}),
	}
}

// Attach starts feeding the command, and starts the idle timer.
func (in *Input) Attach(to Sink) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.attached {
		return
	}
	in.attached, in.last = true, time.Now()
	if in.reason == "" {
		in.idle = time.AfterFunc(clock.Seconds(in.limits.IdleTimeoutSec), in.starve)
		if in.busy > 0 {
			in.idle.Stop()
		}
	}
	go in.pump(to) // closes the command's input if ours has already ended
}

// Resume continues an input of a previous process: how much it sent, and whether it ended the input.
func (in *Input) Resume(taken int64, closed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.taken += taken
	if closed {
		in.finish(EndedByClient)
	}
}

// pump passes frames to the command until the input or the command ends, and then closes the command's input.
func (in *Input) pump(to Sink) {
	for {
		select {
		case f := <-in.frames:
			_, err := to.Write(f.bytes)
			f.done <- err
			if err != nil {
				in.End(EndedWithRun)
				return
			}
			continue
		case <-in.eof:
			in.End(EndedByClient)
		case <-in.closed:
			if in.reason == Detached {
				return // the next process continues it
			}
		}
		_ = to.CloseStdin() // an error means that the command has ended
		return
	}
}

// starve closes an input that has been idle for its idle timeout.
func (in *Input) starve() {
	in.mu.Lock()
	defer in.mu.Unlock()
	// The timer may have fired just before a write stopped it.
	if in.busy == 0 && time.Since(in.last) >= clock.Seconds(in.limits.IdleTimeoutSec) {
		in.finish(limitIdle)
	}
}

// Abandon ends the input of a run that was stopped before its command started. A running command can still read it. If err is that the
// server stops, the run may wait for the next process.
func (in *Input) Abandon(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.attached:
	case errors.Is(err, fault.ErrDetached), errors.Is(err, fault.ErrShutdown):
		in.finish(Detached)
	default:
		in.finish(EndedWithRun)
	}
}

// End closes the input permanently. The first reason wins.
func (in *Input) End(reason string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.finish(reason)
}

// Leave closes the input when its command is no longer followed: it has ended, or err is [fault.ErrDetached].
func (in *Input) Leave(err error) {
	if errors.Is(err, fault.ErrDetached) {
		in.End(Detached)
	}
	in.End(EndedWithRun) // the first reason wins
}

// finish is End with the lock held.
func (in *Input) finish(reason string) {
	if in.reason != "" {
		return
	}
	in.reason = reason
	close(in.closed)
	if in.idle != nil {
		in.idle.Stop()
	}
	if in.watcher != nil {
		go in.watcher(reason, in.taken)
	}
}

// Watch calls f once when the input is closed. Only the first watcher counts.
func (in *Input) Watch(f func(reason string, taken int64)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.watcher == nil && in.reason == "" {
		in.watcher = f
	}
}

// begin admits a frame of n bytes, or closes the input because it exceeds a limit. wait is the delay by the rate limit.
func (in *Input) begin(n int) (wait time.Duration, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.reason != "" {
		return 0, in.refusal()
	}
	now := time.Now()
	switch {
	case int64(n) > in.limits.MaxFrameBytes:
		in.finish(limitFrameBytes)
	case in.taken+int64(n) > in.limits.MaxBytes:
		in.finish(limitBytes)
	default:
		if wait, _ = pace.Reserve(in.rate, now, n); wait == 0 {
			in.delayed = 0
		}
		if in.delayed += wait; in.delayed > maxDelay {
			in.finish(limitRate)
		}
	}
	if in.reason != "" {
		return 0, in.refusal()
	}
	in.taken += int64(n)
	in.busy++
	if in.idle != nil {
		in.idle.Stop()
	}
	return wait, nil
}

// done ends a write that begin admitted. The idle time starts here.
func (in *Input) done() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.busy--
	in.last = time.Now()
	if in.busy == 0 && in.idle != nil && in.reason == "" {
		in.idle.Reset(clock.Seconds(in.limits.IdleTimeoutSec))
	}
}

// refusal returns the error of a write to a closed input. The caller holds the lock.
func (in *Input) refusal() error {
	e := &belljar.Error{
		Code: belljar.CodeConflict, Message: "standard input is closed: " + in.reason,
		Details: map[string]any{"reason": in.reason},
	}
	switch in.reason {
	case Detached:
		return fault.ShuttingDown()
	case limitFrameBytes:
		e.Code, e.Details["maximum"] = belljar.CodeTooLarge, in.limits.MaxFrameBytes
	case limitBytes:
		e.Code, e.Details["maximum"] = belljar.CodeQuotaExceeded, in.limits.MaxBytes
	case limitRate:
		e.Code, e.Details["maximum"] = belljar.CodeQuotaExceeded, in.limits.BytesPerSec
	case limitIdle:
		e.Code, e.Details["maximum"] = belljar.CodeQuotaExceeded, in.limits.IdleTimeoutSec
	default:
		return e
	}
	e.Message += fmt.Sprintf(" is %v", e.Details["maximum"])
	e.Hint = "send the input as a file, or raise the limit: " + in.reason + " of the run, or SANDBOX_INTERACTIVE_* of the server"
	return e
}
