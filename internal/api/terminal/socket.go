package terminal

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/belljar/belljar"
)

const (
	// closeGrace limits the last message and the close handshake, shutdownGrace during the server's shutdown.
	closeGrace    = 10 * time.Second
	shutdownGrace = time.Second
	// messagesPerSecond limits the rate of a client's messages, after a burst of two seconds' worth.
	messagesPerSecond = 1000
)

// socket is one connection to a terminal. It has four goroutines: follow waits for events of the terminal, listen reads
// the client's messages, typist writes input to the terminal, and write is the only one that writes to the client.
type socket struct {
	door     *Door
	conn     *websocket.Conn
	caller   belljar.Caller
	terminal *attachment

	goroutines sync.WaitGroup
	events     chan belljar.TerminalEvent
	answers    chan any    // to the client's messages
	typed      chan []byte // input for the terminal
	over       chan verdict
	blocked    atomic.Bool  // listen waits until the program reads its input
	pinging    atomic.Bool  // a ping is pending
	received   atomic.Int64 // messages of the client

	split      splitter
	flushTimer *time.Timer // for the bytes that split holds
}

// run serves the connection to its end and returns the reason.
func (s *socket) run(ctx context.Context) verdict {
	ctx, cancel := context.WithCancel(ctx)
	defer s.door.cancelOnClose(cancel)()
	s.events, s.answers, s.typed = make(chan belljar.TerminalEvent), make(chan any, 8), make(chan []byte)
	s.goroutines.Go(func() { s.follow(ctx) })
	s.goroutines.Go(func() { s.end(s.listen(ctx)) })
	s.goroutines.Go(func() { s.typist(ctx) })
	v := s.write(ctx)
	s.close(v)
	cancel()
	_ = s.terminal.Close() // never fails; it ends a pending write of input
	s.goroutines.Wait()
	return v
}

// end ends the connection; the first verdict wins.
func (s *socket) end(v verdict) {
	select {
	case s.over <- v:
	default:
	}
}

// close sends the verdict and closes the connection.
func (s *socket) close(v verdict) {
	if v.code != 0 {
		timeout := closeGrace
		if v.code == closeUnauthorized { // an unauthenticated client may not hold a connection for long
			timeout = shutdownGrace
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		defer s.door.cancelOnClose(cancel)()
		if v.message != nil {
			_ = s.send(ctx, v.message) // best effort: the client may be gone
		}
		s.handshake(ctx, v)
	}
	_ = s.conn.CloseNow()
}

// handshake performs the close handshake, until ctx ends.
func (s *socket) handshake(ctx context.Context, v verdict) {
	reason := v.reason
	if len(reason) > 120 { // a close frame takes 123 bytes
		reason = reason[:100] + "…"
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.conn.Close(v.code, reason)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		_ = s.conn.CloseNow()
		<-done
	}
}

// follow forwards the terminal's events to write.
func (s *socket) follow(ctx context.Context) {
	for {
		e, err := s.terminal.Next(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, io.EOF) {
				s.end(refused(err))
			}
			return
		}
		select {
		case s.events <- e:
		case <-ctx.Done():
			return
		}
	}
}

// write sends all messages until the connection ends.
func (s *socket) write(ctx context.Context) verdict {
	if err := s.greet(ctx); err != nil {
		return lost(err)
	}
	renew := time.NewTicker(s.door.opts.TokenTTL / 2)
	defer renew.Stop()
	ping := time.NewTicker(s.door.opts.PingEvery)
	defer ping.Stop()
	s.flushTimer = time.NewTimer(s.door.opts.Flush)
	s.flushTimer.Stop()
	defer s.flushTimer.Stop()
	for {
		var err error
		select {
		case v := <-s.over:
			return v
		case <-s.door.drain.Closing().Done():
			return verdict{code: websocket.StatusGoingAway, reason: "server is shutting down"}
		case <-ctx.Done():
			return verdict{code: websocket.StatusGoingAway, reason: "server is shutting down"}
		case e := <-s.events:
			var v verdict
			if v, err = s.sendEvent(ctx, e); v.code != 0 {
				return v
			}
		case <-s.flushTimer.C:
			if m, ok := s.split.flush(string(belljar.TerminalOutput)); ok {
				err = s.send(ctx, m)
			}
		case a := <-s.answers:
			err = s.send(ctx, a)
		case <-renew.C:
			err = s.greet(ctx)
		case <-ping.C:
			if s.pinging.CompareAndSwap(false, true) {
				s.goroutines.Go(s.ping)
			}
		}
		if err != nil {
			return lost(err)
		}
	}
}

// greet sends the session message with a new token.
func (s *socket) greet(ctx context.Context) error {
	state := s.terminal.Terminal()
	token, expires, err := s.door.tokens.issue(s.caller.ID, state.SessionID, state.ID)
	if err != nil {
		return err
	}
	return s.send(ctx, greeting{
		Type: "session", Token: token, Terminal: state.ID, Resumed: s.terminal.resumed, ExpiresAt: expires, State: state,
	})
}

// sendEvent sends an event. The verdict has a code if the event is the last.
func (s *socket) sendEvent(ctx context.Context, e belljar.TerminalEvent) (verdict, error) {
	switch e.Kind {
	case belljar.TerminalHistory, belljar.TerminalOutput:
		if e.Kind == belljar.TerminalHistory && !s.terminal.history {
			return verdict{}, nil
		}
		s.flushTimer.Stop()
		m, ok := s.split.next(string(e.Kind), e.Data)
		if len(s.split.held) > 0 {
			s.flushTimer.Reset(s.door.opts.Flush)
		}
		if !ok {
			return verdict{}, nil
		}
		return verdict{}, s.send(ctx, m)
	}
	if m, ok := s.split.flush(string(belljar.TerminalOutput)); ok {
		if err := s.send(ctx, m); err != nil {
			return verdict{}, err
		}
	}
	return verdictOf(e), nil
}

// verdictOf returns the verdict for a terminal's last event.
func verdictOf(e belljar.TerminalEvent) verdict {
	switch e.Kind {
	case belljar.TerminalExit:
		return verdict{websocket.StatusNormalClosure, "the program has ended", exit{"exit", e.ExitCode}}
	case belljar.TerminalReplaced:
		const text = "the terminal is used from elsewhere now"
		return verdict{closeReplaced, text, failed(belljar.CodeConflict, text)}
	case belljar.TerminalOverflow:
		const text = "too slow for what the terminal prints; attach again for the history"
		return verdict{closeOverflow, text, failed(belljar.CodeRateLimited, text)}
	}
	switch e.Reason {
	case "idle", "lifetime":
		text := "nothing was typed or printed for too long"
		if e.Reason == "lifetime" {
			text = "the terminal's lifetime is over"
		}
		message := failed(belljar.CodeTimeout, text)
		message.Details = map[string]any{"reason": e.Reason}
		return verdict{closeTimeout, text, message}
	case "shutdown":
		return verdict{code: websocket.StatusGoingAway, reason: "server is shutting down"}
	}
	return notFound() // closed, its session ended, its sandbox died
}

// send writes a message.
func (s *socket) send(ctx context.Context, m any) error {
	raw, err := encode(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.door.opts.WriteTimeout)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, raw)
}

// ping checks that the client is alive. While listen waits for the program, it does not read the pong either.
func (s *socket) ping() {
	defer s.pinging.Store(false)
	timeout := 3 * s.door.opts.PingEvery
	if s.blocked.Load() {
		timeout = shutdownGrace
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	received := s.received.Load()
	err := s.conn.Ping(ctx)
	switch {
	case err == nil:
	case ctx.Err() == nil: // the ping cannot be sent
		s.end(verdict{reason: "client"})
	case s.received.Load() == received && !s.blocked.Load():
		s.end(verdict{code: websocket.StatusTryAgainLater, reason: "no pong"})
	}
}

// listen reads the client's messages until the connection ends.
func (s *socket) listen(ctx context.Context) verdict {
	limiter := rate.NewLimiter(messagesPerSecond, 2*messagesPerSecond)
	for {
		kind, raw, err := s.conn.Read(ctx)
		if err != nil {
			return lost(err)
		}
		s.received.Add(1)
		if limiter.Wait(ctx) != nil {
			return verdict{reason: "client"}
		}
		in := input{Type: typeInput, bytes: raw}
		if kind == websocket.MessageText {
			if in, err = decode(raw); err != nil {
				var v verdict
				errors.As(err, &v)
				return v
			}
		}
		if !s.handle(ctx, in) {
			return verdict{reason: "client"}
		}
	}
}

// handle handles a message; false if the connection ends meanwhile.
func (s *socket) handle(ctx context.Context, in input) bool {
	switch in.Type {
	case typePing:
		return s.answer(ctx, struct {
			Type string `json:"type"`
		}{"pong"})
	case typeResize:
		if err := s.terminal.Resize(in.Cols, in.Rows); belljar.CodeOf(err) == belljar.CodeInvalidRequest {
			return s.answer(ctx, refused(err).message)
		}
		return true // any other error means that the terminal has ended, which its last event reports
	}
	if len(in.bytes) == 0 {
		return true
	}
	s.blocked.Store(true)
	defer s.blocked.Store(false)
	select {
	case s.typed <- in.bytes:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *socket) answer(ctx context.Context, m any) bool {
	select {
	case s.answers <- m:
		return true
	case <-ctx.Done():
		return false
	}
}

// typist writes input to the terminal, one message at a time.
func (s *socket) typist(ctx context.Context) {
	for {
		select {
		case b := <-s.typed:
			err := s.terminal.Write(ctx, b)
			if err != nil && belljar.CodeOf(err) != belljar.CodeConflict && ctx.Err() == nil {
				s.end(refused(err)) // a conflict means that the terminal has ended, which its last event reports
			}
		case <-ctx.Done():
			return
		}
	}
}

// lost is the verdict on a connection that can no longer be read or written.
func lost(err error) verdict {
	var failed net.Error
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return verdict{code: websocket.StatusMessageTooBig, reason: "message is too long"}
	case websocket.CloseStatus(err) != -1, errors.As(err, &failed), errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return verdict{reason: "client"}
	}
	return verdict{code: websocket.StatusProtocolError, reason: "message breaks the protocol"}
}
