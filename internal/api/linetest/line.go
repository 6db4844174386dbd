// Package linetest serves HTTP on pipes, on a clock that moves only when nobody has anything to do. A bound on a connection is
// exact there, however busy the machine is, and waiting for it costs nothing. Nothing waits in a pipe: what is written has been
// read.
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

// Accept waits for somebody to dial.
func (l *Line) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.shut:
		return nil, net.ErrClosed
	}
}

// Close ends the listener. It is called once, by its server.
func (l *Line) Close() error { close(l.shut); return nil }

// Addr is only a name.
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

// Client returns an HTTP client of whoever listens, under whatever name it is called.
func (l *Line) Client() *http.Client {
	dial := func(context.Context, string, string) (net.Conn, error) { return l.Dial(), nil }
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true}}
}

// Serve runs a test in a bubble of testing/synctest, beside a server with the bounds of ours that serves what handler makes.
// The server ends with the test, and so must everything that either has begun.
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
			time.Sleep(time.Second) // net/http lets half a second pass before it cuts off who still sends
		})
		test(t, l)
	})
}
