package api_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/belljar/belljar/internal/api"
)

// line is a listener whose connections are pipes: in a synctest bubble a bound on a connection is exact, however busy the
// machine is, and waiting for it costs nothing.
type line struct {
	conns chan net.Conn
	shut  chan struct{}
}

func (l *line) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.shut:
		return nil, net.ErrClosed
	}
}

func (l *line) Close() error   { close(l.shut); return nil }
func (l *line) Addr() net.Addr { return &net.UnixAddr{Name: "line"} }

// dial is a client's end of a new connection.
func (l *line) dial() net.Conn {
	ours, theirs := net.Pipe()
	l.conns <- theirs
	return ours
}

// client returns a client of whoever listens.
func (l *line) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return l.dial(), nil }}}
}

// outOfTime serves h on a line for as long as the test takes, on a clock that moves only when nobody has anything to do.
func outOfTime(t *testing.T, h func(*testing.T) http.Handler, test func(t *testing.T, l *line)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &line{conns: make(chan net.Conn), shut: make(chan struct{})}
		server, served := api.NewServer(h(t), nil), make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(l) // until it is closed
		}()
		defer func() {
			_ = server.Close()
			<-served
		}()
		test(t, l)
	})
}

// say sends bytes and returns the first answer, and what the connection says after it.
func say(t *testing.T, conn net.Conn, text string) (*http.Response, string, error) {
	t.Helper()
	defer conn.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(conn, text) // an answer may come before all of it is taken
	}()
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, err = in.ReadByte()
	_ = conn.Close()
	<-sent
	return answer, string(body), err
}
