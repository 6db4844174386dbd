package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Relay is the host's end of a relay: the agent's questions for names and connections. Next may be called by one goroutine at a
// time; the other methods are safe for concurrent use.
type Relay struct{ s *stream }

// Relay opens the relay, in place of an older one. The agent listens on ports at the address of each name. If the agent has no
// relay, the error is [errors.ErrUnsupported]. ctx limits only the opening.
func (c *Client) Relay(ctx context.Context, ports []uint16) (*Relay, error) {
	s, err := c.opened(ctx, wire.Request{Op: wire.OpRelay, Relay: &wire.Relay{Ports: ports}})
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	return &Relay{s}, nil
}

// Next returns the next question. It fails with [ErrDisconnected] when the agent has ended or another host has opened a relay.
func (r *Relay) Next() (wire.Ask, error) {
	f, err := r.s.read()
	if err != nil {
		return wire.Ask{}, fmt.Errorf("relay: %w", err)
	}
	reply, err := asReply(f)
	if err == nil && reply.Ask == nil {
		err = fmt.Errorf("%w: answer without a question", ErrProtocol)
	}
	if err != nil {
		return wire.Ask{}, fmt.Errorf("relay: %w", err)
	}
	return *reply.Ask, nil
}

// Answer answers a question. An allowed connection is not answered, but accepted: [Client.Accept].
func (r *Relay) Answer(a wire.Answer) error {
	if err := r.s.w.JSON(wire.KindControl, wire.Control{Answer: &a}); err != nil {
		return fmt.Errorf("relay: answer: %w", r.s.fault(err))
	}
	return nil
}

// Close closes the relay. The agent then resets all its connections. It is idempotent.
func (r *Relay) Close() error {
	r.s.conn.Close()
	return nil
}

// Accept carries a connection that the agent has asked for; conn is the ID of its [wire.Ask]. It is [wire.CodeNotFound] if the
// program has closed the connection. ctx limits only the opening.
func (c *Client) Accept(ctx context.Context, conn uint64) (*Conn, error) {
	s, err := c.opened(ctx, wire.Request{Op: wire.OpAccept, Conn: conn})
	if err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	return c.newConn(s), nil
}

// Connect connects to a program that listens on a port of the sandbox's loopback. It is [wire.CodeNotFound] if none does. ctx
// limits only the opening.
func (c *Client) Connect(ctx context.Context, port uint16) (*Conn, error) {
	s, err := c.opened(ctx, wire.Request{Op: wire.OpConnect, Port: port})
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return c.newConn(s), nil
}

// Ports returns the ports of the sandbox that [Client.Connect] reaches, in order, at most [wire.MaxListeners]; cut means that there
// are more.
func (c *Client) Ports(ctx context.Context) (list []wire.Listener, cut bool, err error) {
	s, err := c.open(ctx, wire.Request{Op: wire.OpPorts})
	if err != nil {
		return nil, false, fmt.Errorf("ports: %w", unsupported(err))
	}
	defer s.close()
	reply, err := s.done()
	if err == nil && len(reply.Listeners) > wire.MaxListeners {
		err = fmt.Errorf("%w: %d ports", ErrProtocol, len(reply.Listeners))
	}
	if err != nil {
		return nil, false, fmt.Errorf("ports: %w", err)
	}
	return reply.Listeners, reply.Cut, nil
}

// opened opens a stream of [wire.FeatureRelay] and waits for the agent's Done.
func (c *Client) opened(ctx context.Context, req wire.Request) (*stream, error) {
	s, err := c.open(ctx, req)
	if err != nil {
		return nil, unsupported(err)
	}
	if _, err := s.done(); err != nil {
		s.close()
		return nil, err
	}
	if err := s.detach(); err != nil {
		return nil, err
	}
	return s, nil
}

// done waits for the agent's Done.
func (s *stream) done() (wire.Reply, error) {
	reply, err := s.reply()
	switch {
	case err != nil:
		if s.greet && !slices.Contains(s.hello.Features, wire.FeatureRelay) {
			err = errors.Join(err, errors.ErrUnsupported)
		}
		return reply, unsupported(err)
	case !reply.Done:
		return reply, fmt.Errorf("%w: answer without done", ErrProtocol)
	}
	return reply, nil
}

// unsupported makes an agent's CodeUnsupported an [errors.ErrUnsupported] as well.
func unsupported(err error) error {
	var remote *wire.Error
	if errors.As(err, &remote) && remote.Code == wire.CodeUnsupported {
		return errors.Join(err, errors.ErrUnsupported)
	}
	return err
}
