package service

import (
	"bytes"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// hold is one caller's hold on an input.
type hold struct {
	in    *input
	gone  chan struct{}
	leave sync.Once
}

var _ belljar.Stdin = (*hold)(nil)

// open returns a new hold.
func (in *input) open() *hold { return &hold{in: in, gone: make(chan struct{})} }

// Write sends one frame to the command. It returns when the command's agent has taken it, when the input is closed, or
// when the hold is given up.
func (h *hold) Write(b []byte) (int, error) {
	select {
	case <-h.gone:
		return 0, h.givenUp()
	default:
	}
	if len(b) == 0 {
		return 0, nil
	}
	wait, err := h.in.begin(len(b))
	if err != nil {
		return 0, err
	}
	defer h.in.settle()
	if wait > 0 {
		pause := time.NewTimer(wait)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-h.in.closed:
			return 0, h.refusal()
		case <-h.gone:
			return 0, h.givenUp()
		}
	}
	// The pump may still be at it when Write returns early.
	f := &frame{bytes: bytes.Clone(b), done: make(chan error, 1)}
	select {
	case h.in.frames <- f:
	case <-h.in.closed:
		return 0, h.refusal()
	case <-h.gone:
		return 0, h.givenUp()
	}
	select {
	case err = <-f.done:
	case <-h.in.closed:
		select {
		case err = <-f.done: // it was taken in time
		default:
			return 0, h.refusal()
		}
	case <-h.gone:
		return 0, h.givenUp()
	}
	if err != nil {
		h.in.end(stdinRunEnded)
		return 0, h.refusal()
	}
	return len(b), nil
}

// End closes the command's input behind what it has been sent.
func (h *hold) End() error {
	h.in.eofs.Do(func() { close(h.in.eof) })
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	if !h.in.attached {
		h.in.finish(stdinClient)
	}
	return nil
}

// Closed is closed when the input has ended, whoever ended it.
func (h *hold) Closed() <-chan struct{} { return h.in.closed }

// Reason says why the input has ended; "" while it has not.
func (h *hold) Reason() string {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	return h.in.reason
}

// Close gives up this hold. Its writes under way return.
func (h *hold) Close() error {
	h.leave.Do(func() { close(h.gone) })
	return nil
}

func (h *hold) refusal() error {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	return h.in.refusal()
}

func (h *hold) givenUp() error {
	return &belljar.Error{Code: belljar.CodeConflict, Message: "this hold on standard input was given up"}
}
