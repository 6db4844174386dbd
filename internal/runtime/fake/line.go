//go:build linux

package fake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/wire"
)

// line is the connection to a sandbox's agent.
type line interface {
	// listener is the agent's end.
	listener() net.Listener
	dial(ctx context.Context) (net.Conn, error)
	// disconnect closes the host's connections, as the host's death does.
	disconnect()
}

// sockets gives every connection a pair of Unix sockets. It is also the agent's listener.
type sockets struct {
	calls chan net.Conn
	shut  chan struct{}
	once  sync.Once

	mu   sync.Mutex
	open map[net.Conn]struct{} // the host's ends
}

func newSockets() *sockets {
	return &sockets{calls: make(chan net.Conn), shut: make(chan struct{}), open: make(map[net.Conn]struct{})}
}

func (s *sockets) listener() net.Listener { return s }

// Accept implements [net.Listener].
func (s *sockets) Accept() (net.Conn, error) {
	select {
	case c := <-s.calls:
		return c, nil
	case <-s.shut:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (s *sockets) Close() error {
	s.once.Do(func() { close(s.shut) })
	return nil
}

// Addr implements [net.Listener].
func (s *sockets) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

func (s *sockets) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("socket pair: %w", err)
	}
	err = net.ErrClosed
	select {
	case s.calls <- theirs:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open[ours] = struct{}{}
		return &socket{Conn: ours, of: s}, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-s.shut:
	}
	ours.Close()
	theirs.Close()
	return nil, err
}

func socketPair() (a, b net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	first, second := os.NewFile(uintptr(fds[0]), "host"), os.NewFile(uintptr(fds[1]), "agent")
	defer first.Close()
	defer second.Close()
	if a, err = net.FileConn(first); err != nil {
		return nil, nil, err
	}
	if b, err = net.FileConn(second); err != nil {
		a.Close()
		return nil, nil, err
	}
	return a, b, nil
}

func (s *sockets) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
	clear(s.open)
}

// socket removes itself from the open ones when it is closed.
type socket struct {
	net.Conn
	of *sockets
}

func (c *socket) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c.Conn)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// pipes is one byte stream, like the stdio of an attached container. It outlives a host, with the data that the host
// left unread, and the next host continues with it.
type pipes struct {
	agent           *wire.MuxAgent
	toHost, toAgent *os.File // the host's ends; each host has a copy

	mu   sync.Mutex
	host *wire.MuxHost // nil before the first dial and after a disconnect
}

func newPipes() (*pipes, error) {
	agentReads, toAgent, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	toHost, agentWrites, err := os.Pipe()
	if err != nil {
		agentReads.Close()
		toAgent.Close()
		return nil, err
	}
	p := &pipes{toHost: toHost, toAgent: toAgent}
	p.agent = wire.NewMuxAgent(duplex{agentReads, agentWrites})
	return p, nil
}

func (p *pipes) listener() net.Listener { return pipesListener{p.agent, p} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	p.mu.Lock()
	if p.host == nil || p.host.Err() != nil {
		end, err := p.attach()
		if err != nil {
			p.mu.Unlock()
			return nil, fmt.Errorf("attach to the byte stream: %w", err)
		}
		p.host = wire.NewMuxHost(end)
	}
	host := p.host
	p.mu.Unlock()
	return host.Dial(ctx)
}

// attach copies the host's ends, which no other host may be using.
func (p *pipes) attach() (duplex, error) {
	r, err := duplicate(p.toHost)
	if err != nil {
		return duplex{}, err
	}
	w, err := duplicate(p.toAgent)
	if err != nil {
		r.Close()
		return duplex{}, err
	}
	return duplex{r, w}, nil
}

func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var dupErr error
	if err := raw.Control(func(old uintptr) { fd, dupErr = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, os.NewSyscallError("dup", dupErr)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func (p *pipes) disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.host != nil {
		p.host.Close()
		p.host = nil
	}
}

// pipesListener closes both ends with the agent's.
type pipesListener struct {
	*wire.MuxAgent
	p *pipes
}

func (l pipesListener) Close() error {
	l.p.disconnect()
	l.p.toHost.Close()
	l.p.toAgent.Close()
	return l.MuxAgent.Close()
}

// duplex joins two pipes to a byte stream.
type duplex struct{ r, w *os.File }

func (d duplex) Read(p []byte) (int, error)  { return d.r.Read(p) }
func (d duplex) Write(p []byte) (int, error) { return d.w.Write(p) }
func (d duplex) Close() error                { return errors.Join(d.r.Close(), d.w.Close()) }
