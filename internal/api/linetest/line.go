// Package linetest serves HTTP over pipes, with the fake clock of testing/synctest. Timeouts of connections are exact, however
// busy the machine is, and waiting for one takes no time. Pipes have no buffer: a write returns after the read.
package linetest

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar/internal/api"
)

// Line is a listener whose connections are pipes.
type Line struct {
	conns chan net.Conn
	shut  chan struct{}
}

// Accept waits for the next Dial.
func (l *Line) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.shut:
		return nil, net.ErrClosed
	}
}

// Close closes the listener. The server calls it once.
func (l *Line) Close() error { close(l.shut); return nil }

// Addr returns a placeholder address.
func (l *Line) Addr() net.Addr { return &net.UnixAddr{Name: "line"} }

// Dial returns a client's end of a new connection.
func (l *Line) Dial() net.Conn {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
	case <-l.shut:
		_ = theirs.Close()
	}
	return ours
}

// Client returns an HTTP client that connects to this listener for every host.
func (l *Line) Client() *http.Client {
	dial := func(context.Context, string, string) (net.Conn, error) { return l.Dial(), nil }
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true}}
}

// Serve runs a test in a bubble of testing/synctest, with a server for the handler and the limits of [api.NewServer]. The
// server ends with the test, and so must every goroutine of both.
func Serve(t *testing.T, handler func(*testing.T) http.Handler, test func(*testing.T, *Line)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &Line{conns: make(chan net.Conn), shut: make(chan struct{})}
		server, served := api.NewServer(handler(t), nil), make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(l) // until it is closed
		}()
		t.Cleanup(func() {
			_ = server.Close()
			<-served
			time.Sleep(time.Second) // net/http waits half a second before it disconnects a client that still sends
		})
		test(t, l)
	})
}
