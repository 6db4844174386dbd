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
	// lingering is how long the last words on a connection may take, and parting how long when the server shuts down.
	lingering = 10 * time.Second
	parting   = time.Second
	// messagesPerSecond is how many messages of a client are looked at, of whatever kind; he may hurry for two seconds.
	messagesPerSecond = 1000
)

// socket is one connection to a terminal. Four parties work on it: follow waits for what the terminal says, listen reads
// what the client sends, type hands that to the terminal, and write, the only one who writes, decides when it is over.
type socket struct {
	door   *Door
	conn   *websocket.Conn
	caller belljar.Caller
	seat   *seat

	parties sync.WaitGroup
	events  chan belljar.TerminalEvent
	answers chan any    // to what the client sent
	typed   chan []byte // on its way to the terminal
	over    chan verdict
	held    atomic.Bool  // listen waits for the program to read
	pinged  atomic.Bool  // a ping is on its way
	heard   atomic.Int64 // messages of the client

	split splitter
	late  *time.Timer // of what split holds
}

// run serves the connection to its end, and returns why it ended.
func (s *socket) run(ctx context.Context) verdict {
	ctx, cancel := context.WithCancel(ctx)
	defer s.door.hurry(cancel)()
	s.events, s.answers, s.typed = make(chan belljar.TerminalEvent), make(chan any, 8), make(chan []byte)
	s.parties.Go(func() { s.follow(ctx) })
	s.parties.Go(func() { s.end(s.listen(ctx)) })
	s.parties.Go(func() { s.typist(ctx) })
	v := s.write(ctx)
	s.part(v)
	cancel()
	_ = s.seat.Close() // which never fails, and ends what is being typed
	s.parties.Wait()
	return v
}

// end gives a word on why the connection ends; the first one counts.
func (s *socket) end(v verdict) {
	select {
	case s.over <- v:
	default:
	}
}

// part says the last words.
func (s *socket) part(v verdict) {
	if v.code != 0 {
		patience := lingering
		if v.code == closeUnauthorized { // a stranger's connection is not worth much
			patience = parting
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		defer s.door.hurry(cancel)()
		if v.say != nil {
			_ = s.send(ctx, v.say) // best effort: the client may be gone
		}
		s.farewell(ctx, v)
	}
	_ = s.conn.CloseNow()
}

// farewell closes the connection, and does not wait for long until the client has, too.
func (s *socket) farewell(ctx context.Context, v verdict) {
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

// follow hands on what the terminal says.
func (s *socket) follow(ctx context.Context) {
	for {
		e, err := s.seat.Next(ctx)
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

// write sends what there is to send until the connection is over.
func (s *socket) write(ctx context.Context) verdict {
	if err := s.greet(ctx); err != nil {
		return lost(err)
	}
	renew := time.NewTicker(s.door.opts.TokenTTL / 2)
	defer renew.Stop()
	ping := time.NewTicker(s.door.opts.PingEvery)
	defer ping.Stop()
	s.late = time.NewTimer(s.door.opts.Flush)
	s.late.Stop()
	defer s.late.Stop()
	for {
		var err error
		select {
		case v := <-s.over:
			return v
		case <-s.door.closing.Done():
			return verdict{code: websocket.StatusGoingAway, reason: "server is shutting down"}
		case <-ctx.Done():
			return verdict{code: websocket.StatusGoingAway, reason: "server is shutting down"}
		case e := <-s.events:
			var v verdict
			if v, err = s.tell(ctx, e); v.code != 0 {
				return v
			}
		case <-s.late.C:
			if m, ok := s.split.flush(string(belljar.TerminalOutput)); ok {
				err = s.send(ctx, m)
			}
		case a := <-s.answers:
			err = s.send(ctx, a)
		case <-renew.C:
			err = s.greet(ctx)
		case <-ping.C:
			if s.pinged.CompareAndSwap(false, true) {
				s.parties.Go(s.ping)
			}
		}
		if err != nil {
			return lost(err)
		}
	}
}

// greet says which terminal this is, and what to come back with.
func (s *socket) greet(ctx context.Context) error {
	state := s.seat.Terminal()
	token, expires, err := s.door.tokens.issue(s.caller.ID, state.SessionID, state.ID)
	if err != nil {
		return err
	}
	return s.send(ctx, greeting{
		Type: "session", Token: token, Terminal: state.ID, Resumed: s.seat.resumed, ExpiresAt: expires, State: state,
	})
}

// tell sends an event. The verdict has a code if it was the last one.
func (s *socket) tell(ctx context.Context, e belljar.TerminalEvent) (verdict, error) {
	switch e.Kind {
	case belljar.TerminalHistory, belljar.TerminalOutput:
		if e.Kind == belljar.TerminalHistory && !s.seat.history {
			return verdict{}, nil
		}
		s.late.Stop()
		m, ok := s.split.next(string(e.Kind), e.Data)
		if len(s.split.held) > 0 {
			s.late.Reset(s.door.opts.Flush)
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
	return farewellOf(e), nil
}

// farewellOf is how a connection ends whose terminal has nothing more to say.
func farewellOf(e belljar.TerminalEvent) verdict {
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
		say := failed(belljar.CodeTimeout, text)
		say.Details = map[string]any{"reason": e.Reason}
		return verdict{closeTimeout, text, say}
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

// ping finds out whether the client is still there. While what he types waits for the program nobody reads his answers.
func (s *socket) ping() {
	defer s.pinged.Store(false)
	patience := 3 * s.door.opts.PingEvery
	if s.held.Load() {
		patience = parting
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	heard := s.heard.Load()
	err := s.conn.Ping(ctx)
	switch {
	case err == nil:
	case ctx.Err() == nil: // it cannot even be asked
		s.end(verdict{reason: "client"})
	case s.heard.Load() == heard && !s.held.Load():
		s.end(verdict{code: websocket.StatusTryAgainLater, reason: "no pong"})
	}
}

// listen reads what the client sends until the connection is over.
func (s *socket) listen(ctx context.Context) verdict {
	pace := rate.NewLimiter(messagesPerSecond, 2*messagesPerSecond)
	for {
		kind, raw, err := s.conn.Read(ctx)
		if err != nil {
			return lost(err)
		}
		s.heard.Add(1)
		if pace.Wait(ctx) != nil {
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
		if !s.take(ctx, in) {
			return verdict{reason: "client"}
		}
	}
}

// take does what a message asks; false if the connection ends meanwhile.
func (s *socket) take(ctx context.Context, in input) bool {
	switch in.Type {
	case typePing:
		return s.answer(ctx, struct {
			Type string `json:"type"`
		}{"pong"})
	case typeResize:
		if err := s.seat.Resize(in.Cols, in.Rows); belljar.CodeOf(err) == belljar.CodeInvalidRequest {
			return s.answer(ctx, refused(err).say)
		}
		return true // one that has ended has no size, and says so
	}
	if len(in.bytes) == 0 {
		return true
	}
	s.held.Store(true)
	defer s.held.Store(false)
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

// typist hands what is typed to the terminal, one message after the other.
func (s *socket) typist(ctx context.Context) {
	for {
		select {
		case b := <-s.typed:
			err := s.seat.Write(ctx, b)
			if err != nil && belljar.CodeOf(err) != belljar.CodeConflict && ctx.Err() == nil {
				s.end(refused(err)) // of one that has ended, its last event tells
			}
		case <-ctx.Done():
			return
		}
	}
}

// lost is the verdict on a connection that cannot be read or written any more.
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
