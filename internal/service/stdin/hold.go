package stdin

import (
	"bytes"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// hold is one caller's handle on an input.
type hold struct {
	in    *Input
	gone  chan struct{}
	leave sync.Once
}

var _ belljar.Stdin = (*hold)(nil)

// Open returns a new handle.
func (in *Input) Open() belljar.Stdin { return &hold{in: in, gone: make(chan struct{})} }

// Write sends one frame to the command. It returns when the command's agent has received it, or when the input or the
// handle is closed.
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
	defer h.in.done()
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-h.in.closed:
			return 0, h.Refusal()
		case <-h.gone:
			return 0, h.givenUp()
		}
	}
	// The pump may still hold the frame when Write returns early.
	f := &frame{bytes: bytes.Clone(b), done: make(chan error, 1)}
	select {
	case h.in.frames <- f:
	case <-h.in.closed:
		return 0, h.Refusal()
	case <-h.gone:
		return 0, h.givenUp()
	}
	select {
	case err = <-f.done:
	case <-h.in.closed:
		select {
		case err = <-f.done: // it was received in time
		default:
			return 0, h.Refusal()
		}
	case <-h.gone:
		return 0, h.givenUp()
	}
	if err != nil {
		h.in.End(EndedWithRun)
		return 0, h.Refusal()
	}
	return len(b), nil
}

// End closes the command's input after the frames already sent.
func (h *hold) End() error {
	h.in.eofs.Do(func() { close(h.in.eof) })
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	if !h.in.attached {
		h.in.finish(EndedByClient)
	}
	return nil
}

// Closed returns a channel that is closed when the input has ended for any reason.
func (h *hold) Closed() <-chan struct{} { return h.in.closed }

// Reason returns why the input has ended; "" while it has not.
func (h *hold) Reason() string {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	return h.in.reason
}

// Close releases this handle. Its pending writes return.
func (h *hold) Close() error {
	h.leave.Do(func() { close(h.gone) })
	return nil
}

// Refusal returns the error of a write after the input has ended.
func (h *hold) Refusal() error {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	return h.in.refusal()
}

func (h *hold) givenUp() error {
	return &belljar.Error{Code: belljar.CodeConflict, Message: "standard input was released"}
}
