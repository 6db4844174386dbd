package api

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	acceptPause    = 50 * time.Millisecond // after a failed accept
	acceptLogEvery = 10 * time.Second      // at most one failed accept in this time is logged
)

// NewListener returns l with an Accept that fails only after Close. The server would end with any other error, and a program in a sandbox can
// cause some: those for what the kernel gives each user a number of, such as ENOSPC for epoll watches, where sandboxes have the server's user.
// Its TCP connections keep little in the kernel for a client that does not read, and nothing once it was late.
func NewListener(l net.Listener, log *slog.Logger) net.Listener {
	return &listener{Listener: l, log: log, closed: make(chan struct{})}
}

type listener struct {
	net.Listener
	log    *slog.Logger
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex
	logged time.Time
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			return newClientConn(tcp), nil
		}
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		l.report(err)
		select {
		case <-time.After(acceptPause):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// report logs a failed accept, unless one was logged recently.
func (l *listener) report(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.logged) >= acceptLogEvery {
		l.logged = now
		l.log.Error("connections are not accepted now; the server keeps trying", "err", err)
	}
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}
