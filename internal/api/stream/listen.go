package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/coder/websocket"
)

// listen reads the client's messages, answers its pings, and returns when the connection ends. Input goes to the program one
// message at a time. While the program does not read, listen reads up to the header of the next message, so that it still
// answers pings.
func (s *socket) listen(ctx context.Context) closeReason {
	idle := make(chan struct{}, 1) // has a token while no message is being written to the program
	idle <- struct{}{}
	wire := context.WithoutCancel(ctx) // the library breaks a connection whose context ends; serve closes it
	for {
		kind, body, err := s.conn.Reader(wire)
		if err != nil {
			return readFailure(err)
		}
		s.received.Add(1)
		switch {
		case ctx.Err() != nil:
			return closeReason{cause: causeGone}
		case kind != websocket.MessageText:
			return closeReason{websocket.StatusUnsupportedData, "binary messages are not used", causeProtocol}
		case !s.run.Interactive:
			return closeReason{websocket.StatusPolicyViolation, "run is not interactive", causeProtocol}
		case s.signed:
			return closeReason{websocket.StatusPolicyViolation, "a signed url only reads", causeProtocol}
		}
		s.blocked.Store(true)
		if !takeToken(ctx, idle) || !putToken(ctx, s.inputs) {
			return closeReason{cause: causeGone}
		}
		s.blocked.Store(false)
		in, err := s.read(body)
		if err != nil {
			<-s.inputs
			if v := (closeReason{}); errors.As(err, &v) {
				return v
			}
			return readFailure(err)
		}
		s.workers.Go(func() {
			s.deliver(in)
			<-s.inputs
			idle <- struct{}{}
		})
	}
}

// takeToken receives a token, and putToken sends one; false if ctx ends first.
func takeToken(ctx context.Context, tokens <-chan struct{}) bool {
	select {
	case <-tokens:
		return true
	case <-ctx.Done():
		return false
	}
}

func putToken(ctx context.Context, tokens chan<- struct{}) bool {
	select {
	case tokens <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// read reads the rest of a message. It cuts off a client that does not send the rest in time: it delays the other clients.
func (s *socket) read(body io.Reader) (input, error) {
	late := time.AfterFunc(s.door.opts.WriteTimeout, func() { _ = s.conn.CloseNow() })
	defer late.Stop()
	raw, err := io.ReadAll(body)
	if err != nil {
		return input{}, err
	}
	return decodeInput(raw)
}

// deliver writes one message to the program. It ignores errors: stdin_closed has the reason.
func (s *socket) deliver(in input) {
	switch {
	case s.stdin == nil: // the run has ended
	case in.last:
		_ = s.stdin.End()
	case len(in.data) > 0:
		_, _ = s.stdin.Write(in.data)
	}
}

// readFailure returns the reason for the end of a connection that could not be read.
func readFailure(err error) closeReason {
	var failed net.Error
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return closeReason{websocket.StatusMessageTooBig, "message is too long", causeProtocol}
	case websocket.CloseStatus(err) != -1, errors.As(err, &failed), errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled), errors.Is(err, errFlood):
		return closeReason{cause: causeGone}
	}
	return closeReason{websocket.StatusProtocolError, "message breaks the protocol", causeProtocol}
}
