package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/coder/websocket"
)

// listen reads what the client sends, answers his pings, and returns when the connection is over. Input goes to the
// program one message at a time: while it does not read, neither does listen, but up to the head of the next message, so
// that the client's pings are answered as long as he waits, too.
func (s *socket) listen(ctx context.Context) verdict {
	idle := make(chan struct{}, 1) // has a token while nothing is being given to the program
	idle <- struct{}{}
	for {
		kind, body, err := s.conn.Reader(ctx)
		if err != nil {
			return lost(err)
		}
		s.heard.Add(1)
		switch {
		case kind != websocket.MessageText:
			return verdict{websocket.StatusUnsupportedData, "binary messages are not used", causeProtocol}
		case !s.run.Interactive:
			return verdict{websocket.StatusPolicyViolation, "run is not interactive", causeProtocol}
		}
		s.held.Store(true)
		if !wait(ctx, idle) || !enter(ctx, s.inputs) {
			return verdict{cause: causeGone}
		}
		s.held.Store(false)
		in, err := s.read(body)
		if err != nil {
			<-s.inputs
			if v := (verdict{}); errors.As(err, &v) {
				return v
			}
			return lost(err)
		}
		s.parties.Go(func() {
			s.give(in)
			<-s.inputs
			idle <- struct{}{}
		})
	}
}

// wait takes a token, and enter gives one, unless ctx ends before.
func wait(ctx context.Context, tokens <-chan struct{}) bool {
	select {
	case <-tokens:
		return true
	case <-ctx.Done():
		return false
	}
}

func enter(ctx context.Context, tokens chan<- struct{}) bool {
	select {
	case tokens <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// read reads the rest of a message. A client that has begun one and does not go on is cut off: he holds up the others.
func (s *socket) read(body io.Reader) (input, error) {
	late := time.AfterFunc(s.door.opts.WriteTimeout, func() { _ = s.conn.CloseNow() })
	defer late.Stop()
	raw, err := io.ReadAll(body)
	if err != nil {
		return input{}, err
	}
	return decodeInput(raw)
}

// give gives one message to the program. Why it was not taken, if it was not, is for stdin_closed to say.
func (s *socket) give(in input) {
	switch {
	case s.stdin == nil: // the run has ended
	case in.last:
		_ = s.stdin.End()
	case len(in.data) > 0:
		_, _ = s.stdin.Write(in.data)
	}
}

// lost is the verdict on a connection that could not be read.
func lost(err error) verdict {
	var failed net.Error
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return verdict{websocket.StatusMessageTooBig, "message is too long", causeProtocol}
	case websocket.CloseStatus(err) != -1, errors.As(err, &failed), errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled), errors.Is(err, errFlood):
		return verdict{cause: causeGone}
	}
	return verdict{websocket.StatusProtocolError, "message breaks the protocol", causeProtocol}
}
