package egress

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The gate releases connections to a host that ends each after one response.
func TestHTTPRedials(t *testing.T) {
	const requests = 5
	var freed atomic.Int64
	w := newWorld(t, nil)
	dial := w.gate.opts.Dial
	w.gate.opts.Dial = func(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
		c, err := dial(ctx, at)
		if err == nil {
			runtime.AddCleanup(c.(*net.TCPConn), func(int) { freed.Add(1) }, 0)
		}
		return c, err
	}
	w.peer("a.example.com", public, 80, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
	})
	c := w.connect("a.example.com", 80)
	r := bufio.NewReader(c)
	for range requests {
		write(t, c, "GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n")
		if _, err := http.ReadResponse(r, nil); err != nil {
			t.Fatal(err)
		}
	}
	w.wait("the connections before to be freed", func() bool { runtime.GC(); return freed.Load() >= requests-2 }) // the first and the last are still in use
}

// TestHTTPEnds: a program that reads to the end of the connection finds an orderly end after a complete response, and a reset after a
// partial one.
func TestHTTPEnds(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		broken       bool
	}{
		{"whole", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", false},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\nbody", false},
		{"cut", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.peer("a.example.com", public, 80, func(c net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, tt.answer)
				}
			})
			c := w.connect("a.example.com", 80)
			write(t, c, "GET / HTTP/1.0\r\nHost: a.example.com\r\n\r\n")
			got, err := readAll(t, c)
			if (err != nil) != tt.broken || !tt.broken && !strings.HasSuffix(string(got), "\r\n\r\nbody") {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
}

// A request that its program has abandoned ends, even if the host stays silent.
func TestHTTPGivenUp(t *testing.T) {
	w := newWorld(t, nil)
	w.gate.waits.silent = time.Millisecond
	asked := make(chan struct{})
	w.peer("a.example.com", public, 80, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		close(asked)
		_, _ = io.Copy(io.Discard, c)
	})
	c := w.connect("a.example.com", 80)
	write(t, c, "GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n")
	<-asked
	c.Close()
	w.wait("the end", func() bool { w.gate.mu.Lock(); defer w.gate.mu.Unlock(); return len(w.gate.live) == 0 })
}

// A WebSocket whose program is gone ends, even if the host stays silent.
func TestHTTPUpgradeGivenUp(t *testing.T) {
	w := newWorld(t, nil)
	w.gate.waits.silent = time.Millisecond
	over := make(chan struct{})
	w.peer("a.example.com", public, 80, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			<-over
		}
	})
	defer close(over)
	c := w.connect("a.example.com", 80)
	write(t, c, "GET / HTTP/1.1\r\nHost: a.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp, err)
	}
	c.Close()
	w.wait("the end", func() bool { w.gate.mu.Lock(); defer w.gate.mu.Unlock(); return len(w.gate.live) == 0 })
}

// If a connection is cut before the host responds, the gate sends no response in place of the host. The cut is recorded before the
// program detects it.
func TestHTTPCutHasNoAnswer(t *testing.T) {
	w := newWorld(t, nil)
	asked := make(chan struct{})
	w.peer("a.example.com", public, 80, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		asked <- struct{}{}
		_, _ = io.Copy(io.Discard, c)
	})
	var open []net.Conn
	for range 20 { // the cut and the response race
		c := w.connect("a.example.com", 80)
		write(t, c, "GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n")
		<-asked
		open = append(open, c)
	}
	w.gate.SetPolicy(policyOf(t))
	if n := w.gate.Report().Denied; n != len(open) {
		t.Errorf("%d of %d cuts are on record", n, len(open))
	}
	for _, c := range open {
		if got, err := readAll(t, c); len(got) != 0 || err == nil {
			t.Errorf("%q, %v", got, err)
		}
	}
}
