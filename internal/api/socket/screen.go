package socket

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/char"
)

// Dialect is the encoding of a door's terminal messages.
type Dialect interface {
	// Text returns a message of output, or of the history. It ends within a character only at the end of the output and after
	// [Screen.Flush].
	Text(kind string, b []byte) any
	// Exit returns the message that the program has ended.
	Exit(code int) any
	// Failed returns the message for an error.
	Failed(e *belljar.Error) any
	// Decode reads a message of the client. A [Verdict] ends the connection; any other error is a [belljar.Error], which is sent to
	// the client.
	Decode(text bool, raw []byte) (Input, error)
}

// Input is a message of a client.
type Input struct {
	Type       string // input | resize | ping
	Bytes      []byte // of input
	Cols, Rows int    // of resize
}

// Screen is the [Peer] for a terminal.
type Screen struct {
	belljar.Attachment
	Dialect  Dialect
	Greeting func() any
	// History reports whether the client requests earlier output.
	History bool
	// Flush is how long the first bytes of a character wait for the rest; 0 means until the end.
	Flush time.Duration

	mu    sync.Mutex // guards held, and keeps messages in order
	held  []byte     // the beginning of a character
	timer *time.Timer
}

var _ Peer = (*Screen)(nil)

// Greet implements [Peer].
func (s *Screen) Greet() any { return s.Greeting() }

// Close leaves the terminal.
func (s *Screen) Close() { _ = s.Attachment.Close() } // never fails

// Follow implements [Peer].
func (s *Screen) Follow(ctx context.Context, emit Emit) Verdict {
	s.timer = time.AfterFunc(time.Hour, func() { _ = s.flush(emit) }) // fails only if the connection is lost
	defer s.timer.Stop()
	s.timer.Stop()
	for {
		e, err := s.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return NotFound()
		case err != nil && ctx.Err() != nil:
			return Gone()
		case err != nil:
			return verdictOf(err, s.Dialect.Failed)
		case e.Kind == belljar.TerminalHistory && !s.History:
		case e.Kind == belljar.TerminalHistory, e.Kind == belljar.TerminalOutput:
			if err := s.show(string(e.Kind), e.Data, emit); err != nil {
				return Lost(err)
			}
		default:
			if err := s.flush(emit); err != nil {
				return Lost(err)
			}
			return s.ended(e)
		}
	}
}

// show emits text. It holds an incomplete character at the end.
func (s *Screen) show(kind string, b []byte, emit Emit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.Stop()
	b = slices.Concat(s.held, b)
	n := len(b) - char.Unfinished(b)
	b, s.held = b[:n], b[n:]
	if len(s.held) > 0 && s.Flush > 0 {
		s.timer.Reset(s.Flush)
	}
	if len(b) == 0 {
		return nil
	}
	return emit(s.Dialect.Text(kind, b))
}

// flush emits the held bytes.
func (s *Screen) flush(emit Emit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.held
	if s.held = nil; len(b) == 0 {
		return nil
	}
	return emit(s.Dialect.Text(string(belljar.TerminalOutput), b))
}

// ended returns the verdict for a terminal's last event.
func (s *Screen) ended(e belljar.TerminalEvent) Verdict {
	failed := func(code websocket.StatusCode, err *belljar.Error) Verdict {
		return Verdict{code, err.Message, s.Dialect.Failed(err)}
	}
	switch {
	case e.Kind == belljar.TerminalExit:
		return Verdict{websocket.StatusNormalClosure, "the program has ended", s.Dialect.Exit(e.ExitCode)}
	case e.Kind == belljar.TerminalReplaced:
		return failed(CloseReplaced, &belljar.Error{Code: belljar.CodeConflict, Message: "another client has taken over this terminal"})
	case e.Kind == belljar.TerminalOverflow:
		return failed(CloseOverflow, &belljar.Error{
			Code: belljar.CodeRateLimited, Message: "too slow for what the terminal prints; attach again for the history",
		})
	case e.Reason == "idle", e.Reason == "lifetime":
		text := "nothing was typed or printed for too long"
		if e.Reason == "lifetime" {
			text = "the terminal's lifetime is over"
		}
		return failed(CloseTimeout, &belljar.Error{Code: belljar.CodeTimeout, Message: text, Details: map[string]any{"reason": e.Reason}})
	case e.Reason == "shutdown":
		return Verdict{Code: websocket.StatusGoingAway, Reason: "server is shutting down"}
	}
	return NotFound() // closed, its session ended, its sandbox died
}

// Receive implements [Peer]. A terminal that has ended accepts no input; its last event reports that.
func (s *Screen) Receive(ctx context.Context, text bool, raw []byte, emit Emit) error {
	in, err := s.Dialect.Decode(text, raw)
	var ends Verdict
	switch {
	case errors.As(err, &ends):
		return ends
	case err != nil:
	case in.Type == "ping":
		return emit(Typed{"pong"})
	case in.Type == "resize":
		if err = s.Resize(in.Cols, in.Rows); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			return nil
		}
	case len(in.Bytes) > 0:
		if err := s.Attachment.Write(ctx, in.Bytes); err != nil && belljar.CodeOf(err) != belljar.CodeConflict {
			return err
		}
	}
	var refused *belljar.Error
	if errors.As(err, &refused) {
		return emit(s.Dialect.Failed(refused))
	}
	return err
}
