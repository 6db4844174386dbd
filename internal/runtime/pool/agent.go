package pool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// errAgent means that an agent's answer was invalid.
var errAgent = errors.New("the agent gives no proper answer")

// question is a request to a sandbox's agent that it has not answered yet.
type question struct {
	conn net.Conn
	ctx  context.Context
	free func() bool
}

// ask sends a request.
func ask(ctx context.Context, box runtime.Sandbox, req wire.Request) (*question, error) {
	var text bytes.Buffer
	w := wire.NewWriter(&text)
	if err := w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version}); err != nil {
		return nil, err
	}
	if err := w.JSON(wire.KindRequest, req); err != nil {
		return nil, err
	}
	conn, err := box.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial the agent: %w", err)
	}
	q := &question{conn: conn, ctx: ctx, free: context.AfterFunc(ctx, func() { conn.Close() })}
	if _, err := conn.Write(text.Bytes()); err != nil {
		q.close()
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	return q, nil
}

// askLease asks the agent to live for d without a host; 0 is for ever.
func askLease(ctx context.Context, box runtime.Sandbox, d time.Duration) (*question, error) {
	return ask(ctx, box, wire.Request{Op: wire.OpLease, Lease: int64((d + time.Millisecond - 1) / time.Millisecond)})
}

// ping requests an answer from the agent, which renews its lease.
func ping(ctx context.Context, box runtime.Sandbox) error {
	q, err := ask(ctx, box, wire.Request{Op: wire.OpPing})
	if err != nil {
		return err
	}
	defer q.close()
	return q.done()
}

// park makes the agent start an interpreter, and returns when that waits.
func park(ctx context.Context, box runtime.Sandbox, of *runtime.Park) error {
	q, err := ask(ctx, box, wire.Request{Op: wire.OpPark, Exec: &wire.Exec{
		Argv: of.Argv, Env: of.Env, Cwd: of.Cwd, UID: of.UID, GID: of.GID, Rlimits: of.Rlimits, KillAll: true, Warm: &wire.Warm{Preload: of.Preload},
	}})
	if err != nil {
		return err
	}
	defer q.close()
	return q.done()
}

// done returns when the agent has executed the request.
func (q *question) done() error {
	r := wire.NewReader(q.conn)
	for _, want := range []wire.Kind{wire.KindHello, wire.KindReply} {
		f, err := r.Read()
		switch {
		case err != nil && q.ctx.Err() != nil:
			return context.Cause(q.ctx)
		case err != nil:
			return fmt.Errorf("%w: %w", errAgent, err)
		case f.Kind != want:
			return fmt.Errorf("%w: frame of kind %d", errAgent, f.Kind)
		}
		if want == wire.KindHello {
			continue
		}
		var reply wire.Reply
		if err := f.JSON(&reply); err != nil {
			return fmt.Errorf("%w: %w", errAgent, err)
		}
		if reply.Error != nil {
			return fmt.Errorf("%w: %w", errAgent, reply.Error)
		}
	}
	return nil
}

func (q *question) close() {
	q.free()
	q.conn.Close()
}
