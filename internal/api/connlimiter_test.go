package api

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A new connection evicts the one that has been idle the longest, and never an active one.
func TestConnLimiter(t *testing.T) {
	hold, entered := make(chan struct{}), make(chan struct{}, 2)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			entered <- struct{}{}
			<-hold
		}
	}))
	c := newConnLimiter(2)
	rests := make(chan struct{}, 10)
	s.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		c.state(conn, state)
		if state == http.StateIdle {
			rests <- struct{}{}
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	send := func(conn net.Conn, path string) { io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n") }
	status := func(conn net.Conn) int {
		t.Helper()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0
		}
		return answer.StatusCode
	}

	idle := dial()
	send(idle, "/")
	if got := status(idle); got != 200 {
		t.Fatalf("the first: %d", got)
	}
	<-rests
	busy := dial()
	send(busy, "/hold")
	<-entered
	third := dial()
	send(third, "/hold")
	<-entered
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("the idle connection was not evicted")
	}
	fourth := dial()
	if _, err := fourth.Read(make([]byte, 1)); err == nil {
		t.Error("a connection over the limit was accepted")
	}
	close(hold)
	for _, conn := range []net.Conn{busy, third} {
		if got := status(conn); got != 200 {
			t.Errorf("a busy one: %d", got)
		}
		<-rests
	}
	last := dial()
	send(last, "/")
	if got := status(last); got != 200 {
		t.Errorf("after the others: %d", got)
	}
}
