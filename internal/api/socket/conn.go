package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

const (
	// closeGrace limits the last message and the close handshake, shutdownGrace during the server's shutdown.
	closeGrace    = 10 * time.Second
	shutdownGrace = time.Second
	// writeTimeout limits the write of one message.
	writeTimeout = 30 * time.Second
	// messagesPerSecond limits the rate of a client's messages, after a burst of two seconds' worth.
	messagesPerSecond = 1000
)

// conn is one connection. The library serialises the writes of several goroutines.
type conn struct {
	server *Server
	ws     *websocket.Conn
	peer   Peer
	failed func(*belljar.Error) any

	over     chan Verdict
	blocked  atomic.Bool  // the peer handles a message, so no pong is read
	pinging  atomic.Bool  // a ping is pending
	received atomic.Int64 // messages of the client
}

// run serves the connection to its end and returns why it ended.
func (c *conn) run(ctx context.Context) Verdict {
	// The library breaks a connection whose context ends. This one outlives the request, so that the client learns why the request has
	// ended.
	wire, sever := context.WithCancel(context.WithoutCancel(ctx))
	defer sever()
	defer c.cancelOnClose(sever)()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	emit := func(m any) error { return c.send(wire, m) }
	if err := emit(c.peer.Greet()); err != nil {
		return Lost(err)
	}
	var work sync.WaitGroup
	work.Go(func() { c.end(c.peer.Follow(ctx, emit)) })
	work.Go(func() { c.end(c.listen(ctx, wire, emit)) })
	v := c.wait(ctx, emit, &work)
	if err := api.Revoked(ctx); err != nil {
		v = c.refused(err)
	}
	c.close(v)
	cancel()
	work.Wait()
	return v
}

// wait waits for the end. Until then it renews the token and sends pings.
func (c *conn) wait(ctx context.Context, emit Emit, work *sync.WaitGroup) Verdict {
	renew := time.NewTicker(c.server.opts.Renew)
	defer renew.Stop()
	ping := time.NewTicker(c.server.opts.PingEvery)
	defer ping.Stop()
	for {
		select {
		case v := <-c.over:
			return v
		case <-c.server.drain.Closing().Done():
			return Verdict{Code: websocket.StatusGoingAway, Reason: "server is shutting down"}
		case <-ctx.Done():
			return Verdict{Code: websocket.StatusGoingAway, Reason: "server is shutting down"}
		case <-renew.C:
			if err := emit(c.peer.Greet()); err != nil {
				return Lost(err)
			}
		case <-ping.C:
			if c.pinging.CompareAndSwap(false, true) {
				work.Go(c.ping)
			}
		}
	}
}

// ping checks that the client is alive. While the peer handles a message, the connection does not read the pong either.
func (c *conn) ping() {
	defer c.pinging.Store(false)
	timeout := 3 * c.server.opts.PingEvery
	if c.blocked.Load() {
		timeout = shutdownGrace
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	received := c.received.Load()
	err := c.ws.Ping(ctx)
	switch {
	case err == nil:
	case ctx.Err() == nil: // the ping cannot be sent
		c.end(Verdict{Reason: reasonClient})
	case c.received.Load() == received && !c.blocked.Load():
		c.end(Verdict{Code: websocket.StatusTryAgainLater, Reason: "no pong"})
	}
}

// end ends the connection; the first verdict wins.
func (c *conn) end(v Verdict) {
	select {
	case c.over <- v:
	default:
	}
}

// listen reads the client's messages until the connection ends.
func (c *conn) listen(ctx, wire context.Context, emit Emit) Verdict {
	limiter := rate.NewLimiter(messagesPerSecond, 2*messagesPerSecond)
	for {
		kind, message, err := c.ws.Reader(wire)
		if err != nil {
			return Lost(err)
		}
		raw, release, err := c.server.messages.ReadMessage(ctx, api.CallerOf(ctx).ID, message, c.server.opts.MaxMessage)
		switch {
		case belljar.CodeOf(err) == belljar.CodeRateLimited:
			return c.refused(err)
		case err != nil:
			return Lost(err)
		}
		c.received.Add(1)
		if limiter.Wait(ctx) != nil {
			release()
			return Verdict{Reason: reasonClient}
		}
		c.blocked.Store(true)
		err = c.peer.Receive(ctx, kind == websocket.MessageText, raw, emit)
		c.blocked.Store(false)
		release()
		if err != nil {
			return c.refused(err)
		}
	}
}

// send writes a message.
func (c *conn) send(ctx context.Context, m any) error {
	raw, ok := m.([]byte)
	if !ok {
		var err error
		if raw, err = Encode(m); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, raw)
}

// Encode returns a message as JSON, without HTML escapes.
func Encode(m any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(m)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// close sends the verdict and closes the connection. It waits no longer than the grace for a write in progress.
func (c *conn) close(v Verdict) {
	defer c.ws.CloseNow()
	if v.Code == 0 {
		return
	}
	grace := closeGrace
	if v.Code == CloseUnauthorized { // an unauthenticated client may not hold a connection for long
		grace = shutdownGrace
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	defer c.cancelOnClose(cancel)()
	if v.Message != nil {
		_ = c.send(ctx, v.Message) // best effort: the client may be gone
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.ws.Close(v.Code, v.Brief())
	}()
	select {
	case <-done:
	case <-ctx.Done():
		_ = c.ws.CloseNow()
		<-done
	}
}

// cancelOnClose calls cancel shortly after the server starts to close, unless stop is called before.
func (c *conn) cancelOnClose(cancel context.CancelFunc) (stop func() bool) {
	return context.AfterFunc(c.server.drain.Closing(), func() { time.AfterFunc(shutdownGrace, cancel) })
}

// refused returns the verdict for an error, and logs internal errors.
func (c *conn) refused(err error) Verdict {
	v := verdictOf(err, c.failed)
	switch code := belljar.CodeOf(err); {
	case v.Code == websocket.StatusInternalError:
		c.server.opts.Logger.Error("websocket failed", "kind", c.server.opts.Kind, "err", err)
	case v.Code == websocket.StatusPolicyViolation && slices.Contains(c.server.opts.TryAgain, code):
		v.Code = websocket.StatusTryAgainLater
	}
	return v
}
