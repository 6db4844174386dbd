//go:build linux

package client_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar/client"
)

// line is a listener whose connections are pipes, for a fake clock.
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

// deaf is a connection whose other end receives nothing after a signal.
type deaf struct {
	net.Conn
	from, over <-chan struct{}
}

func (d deaf) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	select {
	case <-d.from:
		<-d.over
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (l *line) Close() error   { close(l.shut); return nil }
func (l *line) Addr() net.Addr { return &net.UnixAddr{Name: "line"} }

// onLine returns a client of a server with one interactive run, x, and the test's stream. After leave the server is silent.
func onLine(t *testing.T, stream func(conn *websocket.Conn, leave func())) *client.Client {
	t.Helper()
	gone, over := make(chan struct{}), make(chan struct{})
	l := &line{conns: make(chan net.Conn), shut: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/sandbox/runs/x", says(200, "application/json", `{"id":"x","phase":"running","interactive":true}`))
	mux.HandleFunc("GET /api/v1/sandbox/runs/x/stream", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		conn.SetReadLimit(1 << 20)
		stream(conn, sync.OnceFunc(func() { close(gone) }))
	})
	server := &http.Server{Handler: mux}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // until it is closed
	}()
	carrier := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case l.conns <- deaf{theirs, gone, over}:
			return ours, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	c := open(t, "http://line", func(o *client.Options) { o.HTTP = &http.Client{Transport: carrier} })
	t.Cleanup(func() {
		close(over)
		carrier.CloseIdleConnections()
		_ = server.Close()
		<-served
	})
	return c
}

// TestInputOfABusyProgram: a program that starts to read its input after half an hour gets all of it. Meanwhile the server
// sends no pong, since it processes the earlier input first.
func TestInputOfABusyProgram(t *testing.T) {
	const piece, pieces = 20 << 10, 10
	for name, first := range map[string]int{"much": piece, "first a word": 5} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := make(chan int, 1)
				c := onLine(t, func(conn *websocket.Conn, _ func()) {
					over := make(chan struct{})
					defer close(over)
					go func() { // the server pings, too, and gets no pong
						for {
							select {
							case <-over:
								return
							case <-time.After(20 * time.Second):
								ask, cancel := context.WithTimeout(context.Background(), 5*time.Second)
								_ = conn.Ping(ask)
								cancel()
							}
						}
					}()
					n := 0
					for want := first + pieces*piece; n < want; {
						kind, raw, err := conn.Read(context.Background())
						if err != nil || kind != websocket.MessageText {
							t.Errorf("after %d: %v %v", n, kind, err)
							break
						}
						n += strings.Count(string(raw), "x")
						if n <= first+piece {
							time.Sleep(30 * time.Minute)
						}
					}
					got <- n
					_ = conn.Close(websocket.StatusNormalClosure, "")
				})
				in, err := c.Runs().Stdin(t.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(in, strings.Repeat("x", first)); err != nil {
					t.Fatal(err)
				}
				for range pieces {
					if _, err := io.WriteString(in, strings.Repeat("x", piece)); err != nil {
						t.Fatal(err)
					}
				}
				if n := <-got; n != first+pieces*piece {
					t.Errorf("%d bytes arrive", n)
				}
				<-in.Closed()
				if in.Reason() != "run_ended" {
					t.Errorf("closed for %s", in.Reason())
				}
				_ = in.Close()
			})
		})
	}
}

// TestHoldUnread: Close waits ten seconds for a program that does not read, not for its end.
func TestHoldUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		c := onLine(t, func(*websocket.Conn, func()) { <-over }) // the server does not read
		in, err := c.Runs().Stdin(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		wrote := make(chan error, 1)
		go func() {
			_, err := io.WriteString(in, strings.Repeat("x", 1<<20))
			wrote <- err
		}()
		synctest.Wait() // until it is blocked
		was := time.Now()
		if err := in.Close(); err != nil || time.Since(was) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(was))
		}
		if err := <-wrote; err == nil {
			t.Error("the unread input was written")
		}
	})
}

// TestInputToADeadServer: a dead server is detected, with and without earlier input.
func TestInputToADeadServer(t *testing.T) {
	for name, reply := range map[string]string{"silent": "", "after a byte": "x"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var was time.Time
				c := onLine(t, func(conn *websocket.Conn, leave func()) {
					was = time.Now()
					time.AfterFunc(time.Minute, leave)
					for {
						if _, _, err := conn.Read(context.Background()); err != nil {
							break
						}
					}
				})
				in, err := c.Runs().Stdin(t.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(in, reply); err != nil {
					t.Fatal(err)
				}
				<-in.Closed()
				if took := time.Since(was); in.Reason() != "connection_lost" || took < time.Minute || took > 2*time.Minute {
					t.Errorf("closed for %s after %v", in.Reason(), took)
				}
				_ = in.Close()
			})
		})
	}
}
