// Package agent is the host's side of the conversation with the agent inside a sandbox: commands, files, terminals and
// leases, over whatever connections a runtime hands out. The protocol is specified in package wire.
package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// ErrDisconnected is the cause of every failure of the connection, as opposed to an answer of the agent, which is a
// [*wire.Error]. The request may or may not have been carried out.
var ErrDisconnected = errors.New("disconnected from the agent")

// ErrProtocol means that the agent sent what it must not, or speaks another version. Trying again does not help.
var ErrProtocol = errors.New("agent breaks the protocol")

// Client talks to one sandbox's agent. It holds no connection: each request dials one. Safe for concurrent use.
type Client struct {
	dial func(context.Context) (net.Conn, error)
}

// New returns a client that reaches the agent through dial, usually a sandbox's Dial.
func New(dial func(context.Context) (net.Conn, error)) *Client { return &Client{dial: dial} }

// Ping asks the agent about itself. It renews the lease, as every request does.
func (c *Client) Ping(ctx context.Context) (wire.Info, error) {
	reply, err := c.ask(ctx, wire.Request{Op: wire.OpPing})
	if err != nil {
		return wire.Info{}, fmt.Errorf("ping: %w", err)
	}
	if reply.Info == nil {
		return wire.Info{}, fmt.Errorf("ping: %w: answer without info", ErrProtocol)
	}
	return *reply.Info, nil
}

// List returns the commands that the agent knows, running and finished, until they are forgotten.
func (c *Client) List(ctx context.Context) ([]wire.ExecInfo, error) {
	s, err := c.open(ctx, wire.Request{Op: wire.OpList})
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	defer s.close()
	var list []wire.ExecInfo
	room := room{entries: mostExecs, bytes: mostListed}
	for {
		reply, err := s.part(&room)
		if err == nil {
			err = room.take(len(reply.Execs), 0)
		}
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		list = append(list, reply.Execs...)
		if !reply.More {
			return list, nil
		}
	}
}

// Forget drops a finished command and what is left of its output. An unknown id is no error; a running command is
// [wire.CodeInvalid].
func (c *Client) Forget(ctx context.Context, id string) error {
	if _, err := c.ask(ctx, wire.Request{Op: wire.OpForget, ID: id}); err != nil {
		return fmt.Errorf("forget: %w", err)
	}
	return nil
}

// Lease sets for how long the agent lives without hearing from a host, to the millisecond; 0 is for ever.
func (c *Client) Lease(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("lease: negative duration %v", d)
	}
	if _, err := c.ask(ctx, wire.Request{Op: wire.OpLease, Lease: milliseconds(d)}); err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	return nil
}

// Kill sends a signal to a command or ends it. It returns when the agent has begun, not when the command is gone:
// that is [Process.Output]'s to say. A finished or unknown command is [wire.CodeNotFound].
func (c *Client) Kill(ctx context.Context, id string, kill wire.Kill) error {
	if _, err := c.ask(ctx, wire.Request{Op: wire.OpSignal, ID: id, Kill: &kill}); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	return nil
}

// ask makes a request that has a single answer.
func (c *Client) ask(ctx context.Context, req wire.Request) (wire.Reply, error) {
	s, err := c.open(ctx, req)
	if err != nil {
		return wire.Reply{}, err
	}
	defer s.close()
	return s.reply()
}

// stream is one request's connection.
type stream struct {
	conn   net.Conn
	r      *wire.Reader
	w      *wire.Writer
	ctx    context.Context // its end closes conn
	unhook func() bool
	greet  bool // the agent's Hello has been read
	hello  wire.Hello
}

// open dials and writes hello and request. The stream is closed when ctx ends.
func (c *Client) open(ctx context.Context, req wire.Request) (*stream, error) {
	var buf bytes.Buffer
	w := wire.NewWriter(&buf)
	if err := w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version}); err != nil {
		return nil, err
	}
	if err := w.JSON(wire.KindRequest, req); err != nil {
		return nil, err
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial the agent: %w", err)
	}
	s := &stream{conn: conn, r: wire.NewReader(conn), w: wire.NewWriter(conn), ctx: ctx}
	s.unhook = context.AfterFunc(ctx, func() { conn.Close() })
	if _, err := conn.Write(buf.Bytes()); err != nil {
		// The agent may have said why it closed.
		if _, e := s.reply(); e != nil {
			err = e
		}
		s.close()
		return nil, s.fault(err)
	}
	return s, nil
}

// close ends the stream.
func (s *stream) close() {
	s.unhook()
	s.conn.Close()
}

// detach takes the stream out of its context's hands.
func (s *stream) detach() error {
	if !s.unhook() {
		s.conn.Close()
		return context.Cause(s.ctx)
	}
	s.ctx, s.unhook = context.Background(), func() bool { return true }
	return nil
}

// read returns the next frame, past the agent's Hello.
func (s *stream) read() (wire.Frame, error) {
	if !s.greet {
		f, err := s.r.Read()
		if err != nil {
			return wire.Frame{}, s.fault(err)
		}
		if s.hello, err = checkHello(f); err != nil {
			return wire.Frame{}, err
		}
		s.greet = true
	}
	f, err := s.r.Read()
	if err != nil {
		return wire.Frame{}, s.fault(err)
	}
	return f, nil
}

// reply reads a frame that must be a Reply; one with an Error is returned as that.
func (s *stream) reply() (wire.Reply, error) {
	f, err := s.read()
	if err != nil {
		return wire.Reply{}, err
	}
	return asReply(f)
}

// part is reply for one of the parts of a list, whose bytes it takes from room.
func (s *stream) part(room *room) (wire.Reply, error) {
	f, err := s.read()
	if err == nil {
		err = room.take(0, len(f.Payload))
	}
	if err != nil {
		return wire.Reply{}, err
	}
	return asReply(f)
}

// asReply decodes a Reply; one with an Error is returned as that.
func asReply(f wire.Frame) (wire.Reply, error) {
	var reply wire.Reply
	if f.Kind != wire.KindReply {
		return reply, fmt.Errorf("%w: frame of kind %d instead of an answer", ErrProtocol, f.Kind)
	}
	if err := f.JSON(&reply); err != nil {
		return reply, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if reply.Error != nil {
		return reply, reply.Error
	}
	return reply, nil
}

// fault returns what a failure of the connection means: the context's end, if that is what closed it.
func (s *stream) fault(err error) error {
	var remote *wire.Error
	switch {
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case errors.As(err, &remote), errors.Is(err, ErrProtocol), errors.Is(err, ErrDisconnected):
		return err
	case errors.Is(err, wire.ErrFrame):
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	case errors.Is(err, io.EOF):
		return ErrDisconnected
	}
	return fmt.Errorf("%w: %w", ErrDisconnected, err)
}

// checkHello accepts an agent of this version and the one before.
func checkHello(f wire.Frame) (hello wire.Hello, err error) {
	if f.Kind == wire.KindReply { // an agent may refuse before it greets
		if _, err := asReply(f); err != nil {
			return hello, err
		}
	}
	if f.Kind != wire.KindHello {
		return hello, fmt.Errorf("%w: frame of kind %d instead of a hello", ErrProtocol, f.Kind)
	}
	if err := f.JSON(&hello); err != nil {
		return hello, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if hello.Protocol != wire.Protocol {
		return hello, fmt.Errorf("%w: it greets as %q", ErrProtocol, hello.Protocol)
	}
	if hello.Version != wire.Version && hello.Version != wire.Version-1 {
		return hello, fmt.Errorf("%w: it speaks version %d, this host %d and %d", ErrProtocol, hello.Version, wire.Version-1, wire.Version)
	}
	return hello, nil
}

// milliseconds rounds up, so that a short time does not become none.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
