package preview

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar/internal/api"
)

const (
	// idleTime limits one write to the client of an upgraded connection, and its silence after the program has ended its side.
	idleTime = time.Minute
	// closeTime limits a write to a client while the server shuts down.
	closeTime = 5 * time.Second
)

// final is the response of a request, until ctx ends. It drops informational responses of a program, apart from a change of the
// protocol: their headers are unchecked.
type final struct {
	http.ResponseWriter
	ctx context.Context
}

// WriteHeader implements [http.ResponseWriter].
func (w *final) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Unwrap gives [http.ResponseController] the writer.
func (w *final) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// hurry ends the response when closing ends, even if its client does not read. The returned function must be called before the
// handler returns.
func (w *final) hurry(closing context.Context, cancel context.CancelFunc) (stop func()) {
	done := make(chan struct{})
	unhook := context.AfterFunc(closing, func() {
		defer close(done)
		cancel()
		// A writer without deadlines has no connection, and so no slow client.
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(closeTime))
	})
	return func() {
		if !unhook() {
			<-done // the writer is invalid after the handler
		}
	}
}

// Hijack implements [http.Hijacker]. The proxy closes only the program's side when a request ends, so the connection closes itself.
func (w *final) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	own := &api.ConnWrapper{ResponseWriter: w.ResponseWriter, Wrap: func(c net.Conn) net.Conn {
		context.AfterFunc(w.ctx, func() { c.Close() })
		return &upgraded{Conn: c}
	}}
	return own.Hijack()
}

// upgraded is a client's connection after a change of the protocol. Its client cannot hold it forever by doing nothing.
type upgraded struct {
	net.Conn
	ended atomic.Bool // the program has ended its side
}

// Read implements [net.Conn].
func (c *upgraded) Read(b []byte) (int, error) {
	if c.ended.Load() {
		_ = c.SetReadDeadline(time.Now().Add(idleTime)) // fails only if closed, like the read
	}
	return c.Conn.Read(b)
}

// Write implements [net.Conn].
func (c *upgraded) Write(b []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(idleTime)) // fails only if closed, like the write
	return c.Conn.Write(b)
}

// CloseWrite ends the direction to the client.
func (c *upgraded) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	c.ended.Store(true)
	_ = c.SetReadDeadline(time.Now().Add(idleTime)) // for a read that waits
	return half.CloseWrite()
}
