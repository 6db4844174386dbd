package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"unicode/utf8"

	"encoding/base64"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
)

// inputFrame is how much input travels in one message.
const inputFrame = 32 << 10

// Stdin opens the standard input of an interactive run over a WebSocket of its own.
func (r runs) Stdin(ctx context.Context, id string) (belljar.Stdin, error) {
	run, err := r.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if !run.Interactive || run.Phase.Terminal() {
		return nil, &belljar.Error{
			Code: belljar.CodeConflict, Message: "run " + id + " takes no input", Details: map[string]any{"run_id": id},
		}
	}
	conn, err := r.c.dial(ctx, id, belljar.Tail)
	if err != nil {
		return nil, err
	}
	s := &stdin{conn: conn, closed: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(r.c.ctx)
	r.c.after.Go(s.watch)
	return s, nil
}

// stdin is a hold on a run's input.
type stdin struct {
	conn *websocket.Conn
	ctx  context.Context
	stop context.CancelFunc

	once   sync.Once
	closed chan struct{}
	reason string // set before closed is closed
}

// watch reads what the server says until that ends.
func (s *stdin) watch() {
	defer s.conn.CloseNow()
	for {
		_, message, err := s.conn.Read(s.ctx)
		if err != nil {
			s.end("connection_lost")
			return
		}
		var f belljar.Frame
		if json.Unmarshal(message, &f) != nil || f.Type != belljar.FrameEvent {
			continue
		}
		switch f.Event {
		case belljar.EventStdinClosed:
			reason, _ := f.Data["reason"].(string)
			s.end(reason)
		case belljar.EventEnd:
			s.end("run_ended")
			return
		}
	}
}

func (s *stdin) end(reason string) {
	s.once.Do(func() {
		s.reason = reason
		close(s.closed)
	})
}

type stdinMessage struct {
	Type     string `json:"type"`
	Encoding string `json:"encoding,omitempty"`
	Data     string `json:"data,omitempty"`
}

// Write sends b, in frames of at most 32 KiB.
func (s *stdin) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		piece := b[:min(len(b), inputFrame)]
		m := stdinMessage{Type: "stdin", Encoding: "utf8", Data: string(piece)}
		if !utf8.Valid(piece) {
			m.Encoding, m.Data = "base64", base64.StdEncoding.EncodeToString(piece)
		}
		if err := s.send(m); err != nil {
			return n, err
		}
		n += len(piece)
		b = b[len(piece):]
	}
	return n, nil
}

// End closes the program's input.
func (s *stdin) End() error { return s.send(stdinMessage{Type: "stdin_close"}) }

func (s *stdin) send(m stdinMessage) error {
	select {
	case <-s.closed:
		return &belljar.Error{
			Code: belljar.CodeConflict, Message: "the run takes no more input: " + s.reason,
			Details: map[string]any{"reason": s.reason},
		}
	default:
	}
	raw, err := json.Marshal(m)
	if err == nil {
		err = s.conn.Write(s.ctx, websocket.MessageText, raw)
	}
	if err != nil {
		return &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "input cannot be sent", Err: err}
	}
	return nil
}

// Closed is closed when input has ended.
func (s *stdin) Closed() <-chan struct{} { return s.closed }

// Reason says why input has ended.
func (s *stdin) Reason() string {
	select {
	case <-s.closed:
		return s.reason
	default:
		return ""
	}
}

// Close gives up this hold.
func (s *stdin) Close() error {
	s.stop()
	return nil
}

// feed copies from to a run's input until either ends.
func (c *Client) feed(id string, from io.Reader) {
	in, err := runs{c}.Stdin(c.ctx, id)
	if err != nil {
		return // it has ended: nobody is left who reads
	}
	copied := make(chan error, 1)
	go func() { // from may block for ever: nobody waits for it
		_, err := io.Copy(in, from)
		copied <- err
	}()
	select {
	case err := <-copied:
		if err == nil || !errors.Is(err, c.ctx.Err()) {
			_ = in.End() // it may have ended meanwhile
		}
		select { // the close message is on its way until the server has answered it
		case <-in.Closed():
		case <-c.ctx.Done():
		}
	case <-in.Closed():
	case <-c.ctx.Done():
	}
	_ = in.Close()
}
