package service

import (
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// Why the input of an interactive run is closed, beside the limits that have it in their names.
const (
	stdinClient   = "client"    // a caller ended it
	stdinRunEnded = "run_ended" // nobody is left to read
)

// The limits of an interactive run's input, as S0 calls them. They are the reasons for which it is closed, too.
const (
	stdinMaxBytes      = "stdin_max_bytes"
	stdinMaxFrameBytes = "stdin_max_frame_bytes"
	stdinBPS           = "stdin_bps"
	stdinIdleTimeout   = "stdin_idle_timeout_sec"
)

// sink is where input goes: [agent.Process].
type sink interface {
	Write(b []byte) (int, error)
	CloseStdin() error
}

// input is the standard input of one interactive run: what all holds on it write goes through here, frame by frame, to
// the command. It keeps no frame itself: who writes one waits until the command's agent has taken it. Its limits hold for
// all writers together; the first that is broken closes it for good.
//
// The rate is a token bucket that holds one second's worth. A frame that finds too few tokens waits for them, so that a
// burst is merely slowed down; but once frames have waited for a second altogether without the sender ever falling below
// the rate, that is no burst any more and the input is closed.
type input struct {
	limits belljar.StdinLimits

	frames chan *frame   // from writers to the pump
	eof    chan struct{} // closed when a caller ends the input: the pump then closes it behind what it has taken
	closed chan struct{} // closed when nothing more is taken
	eofs   sync.Once

	mu       sync.Mutex
	reason   string // set before closed is
	attached bool
	busy     int   // writes under way: the input is not idle meanwhile
	taken    int64 // bytes accepted
	rate     meter
	idle     *time.Timer
	last     time.Time // when the last write ended, or the command began
	watcher  func(reason string, taken int64)
}

// frame is one write on its way.
type frame struct {
	bytes []byte
	done  chan error // holds one
}

// newInput returns an input with these limits that waits for its command. A zero limit is the default.
func newInput(l belljar.StdinLimits) *input {
	l = stdinOrElse(l, DefaultStdinLimits())
	return &input{
		limits: l, rate: meter{perSecond: float64(l.BytesPerSec)},
		frames: make(chan *frame), eof: make(chan struct{}), closed: make(chan struct{}),
	}
}

// attach begins to feed the command and to watch for idleness.
func (in *input) attach(to sink) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.attached {
		return
	}
	in.attached, in.last = true, time.Now()
	if in.reason == "" {
		in.idle = time.AfterFunc(seconds(in.limits.IdleTimeoutSec), in.starve)
		if in.busy > 0 {
			in.idle.Stop()
		}
	}
	go in.pump(to) // which closes the command's input if ours has ended already
}

// resume takes over from a former process what the command has been sent, and whether that was all.
func (in *input) resume(taken int64, closed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.taken += taken
	if closed {
		in.finish(stdinClient)
	}
}

// pump takes frames to the command until the input or the command ends, and closes the command's input.
func (in *input) pump(to sink) {
	for {
		select {
		case f := <-in.frames:
			_, err := to.Write(f.bytes)
			f.done <- err
			if err != nil {
				in.end(stdinRunEnded)
				return
			}
			continue
		case <-in.eof:
			in.end(stdinClient)
		case <-in.closed:
		}
		_ = to.CloseStdin() // that it cannot be told means that it is gone
		return
	}
}

// starve closes an input that nobody has written to for its idle time.
func (in *input) starve() {
	in.mu.Lock()
	defer in.mu.Unlock()
	// The timer may have fired just before a write stopped it.
	if in.busy == 0 && time.Since(in.last) >= seconds(in.limits.IdleTimeoutSec) {
		in.finish(stdinIdleTimeout)
	}
}

// abandon ends the input of a run that is over before it had a command. A command that runs still reads it.
func (in *input) abandon() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.attached {
		in.finish(stdinRunEnded)
	}
}

// end closes the input for good. The first reason stays.
func (in *input) end(reason string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.finish(reason)
}

// finish is end for who holds the lock.
func (in *input) finish(reason string) {
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

// watch has one function called, once, when the input is closed: that of who opens it first.
func (in *input) watch(f func(reason string, taken int64)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.watcher == nil && in.reason == "" {
		in.watcher = f
	}
}

// begin admits a frame of n bytes, or closes the input over the limit that it breaks. wait is for how long it must wait
// for the rate's sake.
func (in *input) begin(n int) (wait time.Duration, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.reason != "" {
		return 0, in.refusal()
	}
	now := time.Now()
	switch {
	case int64(n) > in.limits.MaxFrameBytes:
		in.finish(stdinMaxFrameBytes)
	case in.taken+int64(n) > in.limits.MaxBytes:
		in.finish(stdinMaxBytes)
	default:
		var ok bool
		if wait, ok = in.rate.take(n, now); !ok {
			in.finish(stdinBPS)
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

// settle ends a write that begin admitted; idleness counts from here.
func (in *input) settle() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.busy--
	in.last = time.Now()
	if in.busy == 0 && in.idle != nil && in.reason == "" {
		in.idle.Reset(seconds(in.limits.IdleTimeoutSec))
	}
}

// refusal says why nothing more is taken. The caller holds the lock.
func (in *input) refusal() error {
	e := &belljar.Error{
		Code: belljar.CodeConflict, Message: "standard input is closed: " + in.reason,
		Details: map[string]any{"reason": in.reason},
	}
	switch in.reason {
	case stdinMaxFrameBytes:
		e.Code, e.Details["maximum"] = belljar.CodeTooLarge, in.limits.MaxFrameBytes
	case stdinMaxBytes:
		e.Code, e.Details["maximum"] = belljar.CodeQuotaExceeded, in.limits.MaxBytes
	case stdinBPS:
		e.Code, e.Details["maximum"] = belljar.CodeQuotaExceeded, in.limits.BytesPerSec
	case stdinIdleTimeout:
		e.Code, e.Details["maximum"] = belljar.CodeQuotaExceeded, in.limits.IdleTimeoutSec
	}
	return e
}
