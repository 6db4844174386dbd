// Package agent is the host's client for the agent inside a sandbox: commands, files, terminals and leases, over the connections
// that a runtime dials. Package wire specifies the protocol.
package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/belljar/belljar/internal/agent/wire"
)

// ErrDisconnected is the cause of every connection failure. A failure that the agent reports is a [*wire.Error]. After a
// disconnect, the caller cannot know whether the request was executed.
var ErrDisconnected = errors.New("disconnected from the agent")

// ErrProtocol means that the agent violated the protocol, or speaks another version. A retry does not help.
var ErrProtocol = errors.New("agent breaks the protocol")

// Client is a client of one sandbox's agent. It holds no connection: each request dials one. Safe for concurrent use.
type Client struct {
	dial    func(context.Context) (net.Conn, error)
	buffers sync.Pool // of *[]byte, for the frames of connections
	frames  *rate.Limiter
}

// Limits of the frames that a client reads from an agent: per second over all streams, in a burst, and between two checks. An honest agent
// sends one frame for all data that has arrived. A hijacked agent can send tiny frames instead, each of which costs the host more than the
// sandbox.
const (
	framesPerSecond = 100_000
	framesAtOnce    = 10_000
	framesCounted   = 100
)

// New returns a client that reaches the agent through dial, usually a sandbox's Dial.
func New(dial func(context.Context) (net.Conn, error)) *Client {
	return &Client{dial: dial, frames: rate.NewLimiter(framesPerSecond, framesAtOnce)}
}

// pace waits if an agent has sent too many frames.
func pace(frames *rate.Limiter) {
	now := time.Now()
	time.Sleep(frames.ReserveN(now, framesCounted).DelayFrom(now))
}

// Ping returns the agent's description of itself. Like every request, it renews the lease.
func (c *Client) Ping(ctx context.Context) (wire.Info, error) {
	reply, err := c.ask(wire.Urgent(ctx), wire.Request{Op: wire.OpPing})
	if err != nil {
		return wire.Info{}, fmt.Errorf("ping: %w", err)
	}
	if reply.Info == nil {
		return wire.Info{}, fmt.Errorf("ping: %w: answer without info", ErrProtocol)
	}
	return *reply.Info, nil
}

// List returns the commands that the agent knows, running and finished, except forgotten ones.
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

// Forget drops a finished command and its remaining output. An unknown id is no error; a running command is [wire.CodeInvalid].
func (c *Client) Forget(ctx context.Context, id string) error {
	if _, err := c.ask(ctx, wire.Request{Op: wire.OpForget, ID: id}); err != nil {
		return fmt.Errorf("forget: %w", err)
	}
	return nil
}

// Lease sets how long the agent lives without contact from a host, in whole milliseconds; 0 means for ever.
func (c *Client) Lease(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("lease: negative duration %v", d)
	}
	if _, err := c.ask(wire.Urgent(ctx), wire.Request{Op: wire.OpLease, Lease: milliseconds(d)}); err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	return nil
}

// Kill sends a signal to a command or ends it. It returns when the agent has started to do so; [Process.Output] reports the end. A
// finished or unknown command is [wire.CodeNotFound].
func (c *Client) Kill(ctx context.Context, id string, kill wire.Kill) error {
	if _, err := c.ask(wire.Urgent(ctx), wire.Request{Op: wire.OpSignal, ID: id, Kill: &kill}); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	return nil
}

// ask makes a request with a single reply.
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
	ctx    context.Context // closes conn when it ends
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
	s.r.Pace(framesCounted, func() { pace(c.frames) })
	s.unhook = context.AfterFunc(ctx, func() { conn.Close() })
	if _, err := conn.Write(buf.Bytes()); err != nil {
		// The agent may have sent the reason before it closed.
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

// detach stops the context from closing the stream.
func (s *stream) detach() error {
	if !s.unhook() {
		s.conn.Close()
		return context.Cause(s.ctx)
	}
	s.ctx, s.unhook = context.Background(), func() bool { return true }
	return nil
}

// read returns the next frame after the agent's Hello.
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

// reply reads a frame that must be a Reply. It returns a Reply's Error as the error.
func (s *stream) reply() (wire.Reply, error) {
	f, err := s.read()
	if err != nil {
		return wire.Reply{}, err
	}
	return asReply(f)
}

// part is reply for one part of a list. It takes the part's bytes from room.
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

// asReply decodes a Reply. It returns a Reply's Error as the error.
func asReply(f wire.Frame) (wire.Reply, error) {
	var reply wire.Reply
	if f.Kind != wire.KindReply {
		return reply, fmt.Errorf("%w: frame of kind %d instead of an answer", ErrProtocol, f.Kind)
	}
	if err := f.JSON(&reply); err != nil {
		return reply, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if e := reply.Error; e != nil {
		e.Message, e.Step = plain(e.Message), plain(e.Step)
		return reply, e
	}
	return reply, nil
}

// plain makes an agent's text safe for a log and for a caller: short, and without characters that move a terminal's cursor. A hijacked
// agent can send any text, and an honest one repeats names of files.
func plain(s string) string {
	const most = 1000
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// fault maps a connection failure to the context's error, if that closed the connection.
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

// checkHello accepts agents of this version and of the previous one.
func checkHello(f wire.Frame) (hello wire.Hello, err error) {
	if f.Kind == wire.KindReply { // an agent may refuse before its Hello
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
		return hello, fmt.Errorf("%w: it greets as %.100q", ErrProtocol, hello.Protocol)
	}
	if hello.Version != wire.Version && hello.Version != wire.Version-1 {
		return hello, fmt.Errorf("%w: it speaks version %d, this host %d and %d", ErrProtocol, hello.Version, wire.Version-1, wire.Version)
	}
	return hello, nil
}

// milliseconds rounds up, so that a short duration does not become 0.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
