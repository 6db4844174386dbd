package workspace

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

const (
	maxMessage = 8 << 20 // bytes of a client's message
	// messagesPerSecond limits the rate of a client's messages, after a burst of two seconds' worth.
	messagesPerSecond = 1000
	closeGrace        = 10 * time.Second
	shutdownGrace     = time.Second
)

// Close codes of this API.
const (
	closeUnauthorized websocket.StatusCode = 4001
	closeUnknown      websocket.StatusCode = 4003 // a template that does not exist
	closeNotFound     websocket.StatusCode = 4004
	closeTimeout      websocket.StatusCode = 4008
	closeOverflow     websocket.StatusCode = 4009
)

// verdict is why a connection ends: an optional message, a close code and its reason.
type verdict struct {
	code    websocket.StatusCode // 0 if the connection is lost
	reason  string
	message any // nil for none
}

func (v verdict) Error() string { return v.reason }

// notFound is the verdict for everything that cannot be found, whatever the reason.
func notFound() verdict {
	return verdict{closeNotFound, "session not found", typed{"session_not_found"}}
}

type typed struct {
	Type string `json:"type"`
}

// peer is what a WebSocket is connected to. emit sends a message to the client.
type peer interface {
	// greet returns the first message, with a token. It is called again before the token expires.
	greet() (any, error)
	// follow emits what comes until it ends, and returns why.
	follow(ctx context.Context, emit func(any) error) verdict
	// receive handles a message of the client. Its error ends the connection.
	receive(ctx context.Context, text bool, raw []byte, emit func(any) error) error
	// close releases it, when follow and receive have returned.
	close()
}

// socket serves a WebSocket that attach connects. Errors are sent over the WebSocket but for a foreign origin (403), a
// rate limit (429) and a server that shuts down (503).
//
// failure returns the message for an error.
func (d *Door) socket(attach func(*call) (peer, error), failure func(belljar.Code, string) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		api.Route(r.Context(), r.Pattern)
		if err := api.RequireWebSocket(w, r, ""); err != nil {
			fail(w, r, err)
			return
		}
		if !d.opts.OriginAllowed(r) {
			fail(w, r, api.ForeignOrigin("a workspace"))
			return
		}
		r, caller, unknown := d.identify(d.opts.Sockets, r)
		if unknown != nil && belljar.CodeOf(unknown) != belljar.CodeUnauthorized {
			fail(w, r, unknown)
			return
		}
		if err := d.opts.Connect(r); err != nil {
			fail(w, r, err)
			return
		}
		leave, err := d.drain.Enter()
		if err != nil {
			fail(w, r, err)
			return
		}
		defer leave()
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			InsecureSkipVerify: true, // OriginAllowed has checked the origin
			CompressionMode:    websocket.CompressionDisabled,
		})
		if err != nil {
			return // the library has responded
		}
		defer conn.CloseNow()
		conn.SetReadLimit(maxMessage)
		s := &socket{door: d, conn: conn, failure: failure, over: make(chan verdict, 1)}
		c := &call{door: d, caller: caller, w: w, r: r}
		if unknown == nil {
			if c.Workspace, unknown = d.open(c); unknown == nil {
				s.peer, unknown = attach(c)
			}
		}
		if unknown != nil {
			d.opts.Events.Record(event.Event{
				Name: event.TerminalRefused, Caller: caller, Component: "workspace", Reason: string(belljar.CodeOf(unknown)), Err: unknown,
			})
			s.close(s.refused(unknown))
			return
		}
		defer s.peer.close()
		begun := time.Now()
		d.opts.Events.Record(event.Event{Name: event.StreamOpened, Caller: caller, Component: "ws", Kind: "workspace"})
		v := s.run(r.Context())
		d.opts.Events.Record(event.Event{
			Name: event.StreamClosed, Caller: caller, Component: "ws", Kind: "workspace", Reason: v.reason, Took: time.Since(begun),
		})
	}
}

// socket is one connection. The library serialises what several goroutines write.
type socket struct {
	door    *Door
	conn    *websocket.Conn
	peer    peer
	failure func(belljar.Code, string) any
	over    chan verdict
	blocked atomic.Bool // a message of the client is being handled, so no pong is read
	pinging atomic.Bool
}

// run serves the connection to its end and returns why it ended.
func (s *socket) run(ctx context.Context) verdict {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	emit := func(m any) error { return s.send(ctx, m) }
	if err := s.greet(emit); err != nil {
		return lost(err)
	}
	var work sync.WaitGroup
	work.Go(func() { s.end(s.peer.follow(ctx, emit)) })
	work.Go(func() { s.end(s.listen(ctx, emit)) })
	v := s.wait(ctx, emit, &work)
	s.close(v)
	cancel()
	work.Wait()
	return v
}

func (s *socket) greet(emit func(any) error) error {
	m, err := s.peer.greet()
	if err != nil {
		return err
	}
	return emit(m)
}

// wait waits for the end, and meanwhile renews the token and pings.
func (s *socket) wait(ctx context.Context, emit func(any) error, work *sync.WaitGroup) verdict {
	renew := time.NewTicker(s.door.opts.TokenTTL / 2)
	defer renew.Stop()
	ping := time.NewTicker(s.door.opts.PingEvery)
	defer ping.Stop()
	for {
		select {
		case v := <-s.over:
			return v
		case <-s.door.drain.Closing().Done():
			return verdict{code: websocket.StatusGoingAway, reason: "server is shutting down"}
		case <-ctx.Done():
			return verdict{code: websocket.StatusGoingAway, reason: "server is shutting down"}
		case <-renew.C:
			if err := s.greet(emit); err != nil {
				return lost(err)
			}
		case <-ping.C:
			if !s.blocked.Load() && s.pinging.CompareAndSwap(false, true) {
				work.Go(func() { s.ping(ctx) })
			}
		}
	}
}

// ping ends the connection if the client does not answer for three intervals.
func (s *socket) ping(ctx context.Context) {
	defer s.pinging.Store(false)
	ctx, cancel := context.WithTimeout(ctx, 3*s.door.opts.PingEvery)
	defer cancel()
	if err := s.conn.Ping(ctx); err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !s.blocked.Load() {
		s.end(verdict{code: websocket.StatusTryAgainLater, reason: "no pong"})
	}
}

// end ends the connection; the first verdict wins.
func (s *socket) end(v verdict) {
	select {
	case s.over <- v:
	default:
	}
}

// listen reads the client's messages until the connection ends.
func (s *socket) listen(ctx context.Context, emit func(any) error) verdict {
	limiter := rate.NewLimiter(messagesPerSecond, 2*messagesPerSecond)
	for {
		kind, raw, err := s.conn.Read(ctx)
		if err != nil {
			return lost(err)
		}
		if limiter.Wait(ctx) != nil {
			return verdict{reason: "client"}
		}
		s.blocked.Store(true)
		err = s.peer.receive(ctx, kind == websocket.MessageText, raw, emit)
		s.blocked.Store(false)
		if err != nil {
			return s.refused(err)
		}
	}
}

// send writes a message.
func (s *socket) send(ctx context.Context, m any) error {
	raw, ok := m.([]byte)
	if !ok {
		var err error
		if raw, err = encode(m); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.door.opts.WriteTimeout)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, raw)
}

// close sends the verdict and closes the connection.
func (s *socket) close(v verdict) {
	if v.code == 0 {
		return
	}
	grace := closeGrace
	if v.code == closeUnauthorized || s.door.drain.Closing().Err() != nil {
		grace = shutdownGrace
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if v.message != nil {
		_ = s.send(ctx, v.message) // best effort: the client may be gone
	}
	reason := v.reason
	if len(reason) > 120 { // a close frame takes 123 bytes
		reason = reason[:100] + "…"
	}
	stop := context.AfterFunc(ctx, func() { _ = s.conn.CloseNow() })
	defer stop()
	_ = s.conn.Close(v.code, reason)
}

// refused is the verdict for an error.
func (s *socket) refused(err error) verdict {
	var v verdict
	if errors.As(err, &v) {
		return v
	}
	code := belljar.CodeOf(err)
	switch code {
	case belljar.CodeNotFound:
		return notFound()
	case belljar.CodeInternal:
		if isLost(err) {
			return lost(err)
		}
		s.door.opts.Logger.Error("workspace failed", "err", err)
		return verdict{websocket.StatusInternalError, "internal error", s.failure(code, "internal error")}
	}
	var e *belljar.Error
	errors.As(err, &e)
	v = verdict{websocket.StatusPolicyViolation, e.Message, s.failure(code, e.Message)}
	switch code {
	case belljar.CodeUnauthorized:
		v.code, v.reason, v.message = closeUnauthorized, "Authentication required", s.failure(code, "Authentication required")
	case belljar.CodeRuntimeUnavailable, belljar.CodeQuotaExceeded, belljar.CodeRateLimited:
		v.code = websocket.StatusTryAgainLater
	}
	return v
}

func isLost(err error) bool {
	var failed net.Error
	return websocket.CloseStatus(err) != -1 || errors.As(err, &failed) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// lost is the verdict on a connection that can no longer be read or written.
func lost(err error) verdict {
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return verdict{code: websocket.StatusMessageTooBig, reason: "message is too long"}
	case isLost(err):
		return verdict{reason: "client"}
	}
	return verdict{code: websocket.StatusProtocolError, reason: "message breaks the protocol"}
}
