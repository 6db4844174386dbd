package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
)

// inputFrame is how much input is sent in one message, in bytes.
const inputFrame = 32 << 10

// Reasons for the end of input that the client handles.
const (
	reasonClient = "client"
	reasonEnded  = "run_ended"
	reasonLost   = "connection_lost" // set by the client: it is unknown whether the last frames arrived
)

// Stdin opens the standard input of an interactive run over a WebSocket of its own. It retries the connection for
// Options.Patience. If it breaks later, it ends with the reason connection_lost and the program's input stays open: call Stdin
// again to continue.
func (r runs) Stdin(ctx context.Context, id string) (belljar.Stdin, error) {
	s, err := reach(ctx, r.c.opts.Patience, func() (*stdin, error) { return r.c.hold(ctx, id) })
	if err != nil {
		return nil, err
	}
	return s, nil
}

// hold opens a run's input. The error may be [passing].
func (c *Client) hold(ctx context.Context, id string) (*stdin, error) {
	run, err := c.Runs().Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if !run.Interactive || run.Phase.Terminal() {
		return nil, &belljar.Error{
			Code: belljar.CodeConflict, Message: "run " + id + " takes no input", Details: map[string]any{"run_id": id},
		}
	}
	conn, err := c.dial(ctx, id, "tail")
	if err != nil {
		return nil, err
	}
	s := &stdin{link: conn, closed: make(chan struct{}), watched: make(chan struct{})}
	s.ctx, s.stop = context.WithCancelCause(c.ctx)
	if !c.background(s.watch) {
		s.stop(nil)
		conn.end()
		return nil, &belljar.Error{Code: belljar.CodeCanceled, Message: errClosed.Error(), Err: errClosed}
	}
	return s, nil
}

// stdin implements [belljar.Stdin].
type stdin struct {
	*link
	ctx  context.Context
	stop context.CancelCauseFunc

	once    sync.Once
	closed  chan struct{}
	reason  string        // set before closed is closed
	watched chan struct{} // closed when watch has returned
}

var _ belljar.Stdin = (*stdin)(nil)

// watch reads the server's messages until the connection ends.
func (s *stdin) watch() {
	defer close(s.watched)
	defer s.link.end()
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer s.stop(nil)
	keeping.Go(func() { s.keepAlive(s.ctx, s.stop) })
	for {
		f, err := s.read(s.ctx)
		switch {
		case errors.Is(err, errEndOfLog):
			s.end(reasonEnded)
			return
		case err != nil:
			s.end(reasonLost)
			return
		case f.Type != belljar.FrameEvent:
		case f.Event == belljar.EventStdinClosed:
			reason, _ := f.Data["reason"].(string)
			s.end(reason)
		case f.Event == belljar.EventEnd:
			s.end(reasonEnded)
			return
		}
	}
}

// end records why input has ended; the first reason wins.
func (s *stdin) end(reason string) {
	s.once.Do(func() {
		s.reason = reason
		close(s.closed)
	})
}

type stdinMessage struct {
	Type     string  `json:"type"`
	Encoding string  `json:"encoding,omitempty"`
	Data     *string `json:"data,omitempty"`
}

// Write sends b, in frames of at most 32 KiB. It returns once they are written to the connection.
func (s *stdin) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		piece := b[:min(len(b), inputFrame)]
		text, encoding := string(piece), "utf8"
		if !utf8.Valid(piece) || bytes.IndexByte(piece, 0) >= 0 { // a NUL takes six bytes in JSON
			text, encoding = base64.StdEncoding.EncodeToString(piece), "base64"
		}
		if err := s.send(s.ctx, stdinMessage{Type: "stdin", Encoding: encoding, Data: &text}); err != nil {
			return n, err
		}
		n += len(piece)
		b = b[len(piece):]
	}
	return n, nil
}

// End closes the program's input. Closed is closed once the server has done so.
func (s *stdin) End() error {
	select {
	case <-s.closed:
		if s.reason != reasonLost {
			return nil
		}
	default:
	}
	return s.send(s.ctx, stdinMessage{Type: "stdin_close"})
}

func (s *stdin) send(ctx context.Context, m stdinMessage) error {
	select {
	case <-s.closed:
		return refusal(s.reason)
	default:
	}
	raw, err := json.Marshal(m)
	if err == nil {
		err = s.say(ctx, websocket.MessageText, raw)
	}
	return s.failed(ctx, err)
}

// failed returns the error for an operation on the connection that has failed with err; nil if err is nil.
func (s *stdin) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-s.closed:
	case <-ctx.Done():
	}
	if reason := s.Reason(); reason != "" { // watch knows the reason before it stops s.ctx
		return refusal(reason)
	}
	return refusal(reasonLost)
}

// refusal returns the error for input that has ended.
func refusal(reason string) error {
	e := &belljar.Error{
		Code: belljar.CodeConflict, Message: "standard input is closed: " + reason, Details: map[string]any{"reason": reason},
	}
	switch reason {
	case "stdin_max_frame_bytes":
		e.Code = belljar.CodeTooLarge
	case "stdin_max_bytes", "stdin_bps", "stdin_idle_timeout_sec":
		e.Code = belljar.CodeQuotaExceeded
	case reasonLost:
		e.Code, e.Message = belljar.CodeRuntimeUnavailable, "the connection for standard input broke"
	}
	return e
}

// Closed returns a channel that is closed when input has ended.
func (s *stdin) Closed() <-chan struct{} { return s.closed }

// Reason returns why input has ended; "" while it has not.
func (s *stdin) Reason() string {
	select {
	case <-s.closed:
		return s.reason
	default:
		return ""
	}
}

// detachTimeout limits the wait in Close.
const detachTimeout = 10 * time.Second

// Flush returns after the sandbox's agent has accepted everything written. Until then, input of other connections may come in between.
func (s *stdin) Flush() error { return s.flush(s.ctx) }

// flush is Flush, until ctx ends. The server handles messages and pings in order, so the pong to a ping after an empty message shows that no
// input is pending.
func (s *stdin) flush(ctx context.Context) error {
	if err := s.send(ctx, stdinMessage{Type: "stdin", Encoding: "utf8", Data: new(string)}); err != nil {
		return err
	}
	return s.failed(ctx, s.Ping(ctx))
}

// Close releases the input, after the sandbox's agent has accepted everything written, or after ten seconds. The server
// drops pending input when the connection ends.
func (s *stdin) Close() error {
	ctx, cancel := context.WithTimeout(s.ctx, detachTimeout)
	defer cancel()
	_ = s.flush(ctx) // closed below even after an error
	if ctx.Err() == nil {
		_ = s.Conn.Close(websocket.StatusNormalClosure, "")
	}
	s.stop(nil)
	<-s.watched
	return nil
}
