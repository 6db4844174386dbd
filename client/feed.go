package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/belljar/belljar"
)

// askInput sets the limits of input that the caller left unset to the maximum. A server that allows less returns its
// maximum.
func askInput(s *belljar.RunSpec) {
	s.StdinMaxBytes = cmp.Or(s.StdinMaxBytes, 64<<20)
	s.StdinMaxFrameBytes = cmp.Or(s.StdinMaxFrameBytes, inputFrame)
	s.StdinBytesPerSec = cmp.Or(s.StdinBytesPerSec, 16<<20)
	s.StdinIdleTimeoutSec = cmp.Or(s.StdinIdleTimeoutSec, 3600)
}

// lessInput lowers a refused limit of input to the server's maximum, unless the caller has set it.
func lessInput(s, asked *belljar.RunSpec, err error) bool {
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodePolicyDenied {
		return false
	}
	field, _ := e.Details["field"].(string)
	most, _ := e.Details["maximum"].(float64)
	switch {
	case most <= 0:
		return false
	case field == "stdin_max_bytes" && asked.StdinMaxBytes == 0 && most < float64(s.StdinMaxBytes):
		s.StdinMaxBytes = int64(most)
	case field == "stdin_max_frame_bytes" && asked.StdinMaxFrameBytes == 0 && most < float64(s.StdinMaxFrameBytes):
		s.StdinMaxFrameBytes = int64(most)
	case field == "stdin_bps" && asked.StdinBytesPerSec == 0 && most < float64(s.StdinBytesPerSec):
		s.StdinBytesPerSec = int64(most)
	case field == "stdin_idle_timeout_sec" && asked.StdinIdleTimeoutSec == 0 && most < s.StdinIdleTimeoutSec:
		s.StdinIdleTimeoutSec = most
	default:
		return false
	}
	return true
}

// feed sends a run's input.
type feed struct {
	c    *Client
	id   string // of the run
	spec belljar.RunSpec
	from io.Reader
	done chan struct{}
	err  error // why the program did not get all its input; set before done is closed
	lost error // why the source could not be read to its end
}

// feed sends a run's input in the background.
func (c *Client) feed(run string, spec belljar.RunSpec, from io.Reader) {
	f := &feed{c: c, id: run, spec: spec, from: from, done: make(chan struct{})}
	c.mu.Lock()
	c.feeds[run] = f
	c.mu.Unlock()
	if !c.background(f.run) {
		f.finish(errClosed)
	}
}

// awaitFeed waits until the feed of a run that has ended is done, and returns its error, once.
func (c *Client) awaitFeed(ctx context.Context, run string) error {
	c.mu.Lock()
	f := c.feeds[run]
	c.mu.Unlock()
	if f == nil {
		return nil
	}
	select {
	case <-f.done:
		f.forget()
		return f.err
	case <-ctx.Done():
		return contextError(ctx)
	}
}

func (f *feed) finish(err error) {
	f.err = err
	close(f.done)
	if err == nil {
		f.forget()
	}
}

func (f *feed) forget() {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	delete(f.c.feeds, f.id)
}

// run sends all input. After an error it cancels the run, which must not continue with a part of its input.
func (f *feed) run() {
	err := f.copy()
	if err != nil && f.c.ctx.Err() == nil {
		_ = f.c.Runs().Cancel(f.c.ctx, f.id) // Frames returns err
	}
	f.finish(err)
}

// copy sends input until it ends.
func (f *feed) copy() error {
	ctx := f.c.ctx
	in, err := reach(ctx, f.c.opts.Patience, func() (*stdin, error) { return f.c.hold(ctx, f.id) })
	switch {
	case belljar.CodeOf(err) == belljar.CodeConflict:
		return nil // the run has ended
	case err != nil:
		return err
	}
	defer in.Close()
	pieces := make(chan []byte)
	go f.read(in, pieces)
	for sent := int64(0); ; {
		select {
		case piece, more := <-pieces:
			if !more && f.lost != nil {
				return &belljar.Error{
					Code: belljar.CodeInvalidRequest, Message: "the program's input could not be read to its end", Err: f.lost,
					Details: map[string]any{"run_id": f.id, "sent_bytes": sent},
				}
			}
			if !more {
				_ = in.End() // the run may have ended meanwhile
				select {
				case <-in.Closed():
				case <-ctx.Done():
				}
				return f.verdict(ctx, in, sent)
			}
			if _, err := in.Write(piece); err != nil {
				<-in.Closed()
				return f.verdict(ctx, in, sent)
			}
			sent += int64(len(piece))
		case <-in.Closed():
			return f.verdict(ctx, in, sent)
		case <-ctx.Done():
			return f.verdict(ctx, in, sent)
		}
	}
}

// read reads the source, at most at the run's rate of input, since the server ends input that exceeds it for long. The
// source may block forever, so no goroutine waits for read; it returns after the input has ended.
func (f *feed) read(in *stdin, pieces chan<- []byte) {
	defer close(pieces)
	size := min(f.spec.StdinMaxFrameBytes, inputFrame)
	rate := 0.9 * float64(f.spec.StdinBytesPerSec) // below the limit, since packets arrive in bursts
	for due := time.Now(); ; {
		piece := make([]byte, size)
		n, err := f.from.Read(piece)
		if n > 0 {
			if now := time.Now(); due.Before(now) {
				due = now
			}
			due = due.Add(time.Duration(float64(n) / rate * float64(time.Second)))
			select {
			case pieces <- piece[:n]:
			case <-in.Closed():
				return
			}
			if wait := time.Until(due); wait > 10*time.Millisecond && !sleep(in.ctx, wait) {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				f.lost = err
			}
			return
		}
	}
}

// verdict returns the error for how the input ended, nil if it ended well.
func (f *feed) verdict(ctx context.Context, in *stdin, sent int64) error {
	switch reason := in.Reason(); reason {
	case reasonClient, reasonEnded:
		return nil
	case "", reasonLost:
		if ctx.Err() != nil {
			return nil // the client is closed
		}
		if run, err := f.c.Runs().Get(ctx, f.id); err == nil && run.Phase.Terminal() {
			return nil
		}
		return &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "the connection broke while the program's input was being sent",
			Details: map[string]any{"run_id": f.id, "sent_bytes": sent},
			Hint:    "send the input as a file",
		}
	default:
		return &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("the server took only a part of the program's input: %s", reason),
			Details: map[string]any{"run_id": f.id, "reason": reason, "stdin_max_bytes": f.spec.StdinMaxBytes, "sent_bytes": sent},
			Hint:    fmt.Sprintf("send the input as a file; a program reads at most %d bytes here", f.spec.StdinMaxBytes),
		}
	}
}
