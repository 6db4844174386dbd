package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Thresholds for an ack, in bytes delivered since the previous one.
const (
	ackEvery = 256 << 10 // while output keeps arriving
	ackIdle  = 16 << 10  // when no more output has arrived yet
)

// Process is a command in a sandbox, seen through one attachment. Losing or closing the attachment does not affect the command:
// [Client.Attach] continues at [Process.Position]. Methods are safe for concurrent use, except that only one Output or Follow may
// run.
type Process struct {
	s       *stream
	started wire.Started

	writing sync.Mutex    // orders stdin
	mu      sync.Mutex    // guards the fields below
	raised  chan struct{} // closed and replaced when the limit rises
	ended   error         // why stdin can no longer be sent
	limit   int64
	sent    int64
	next    int64 // position of the next output byte to deliver
	safe    int64 // position up to which the host has stored the output
	acked   int64
	most    int64 // limit of output that the command was started with; 0 is no limit
}

// Exec starts a command and attaches to it. With the id of a known command it only attaches, from position 0, so it can be
// repeated after [ErrDisconnected]. A program that cannot be started is [wire.CodeExecFailed]. ctx limits only the start.
func (c *Client) Exec(ctx context.Context, exec wire.Exec) (*Process, error) {
	p, err := c.attach(ctx, wire.Request{Op: wire.OpExec, Exec: &exec})
	if err != nil {
		return nil, fmt.Errorf("exec: %w", err)
	}
	p.most = exec.OutputLimit
	if exec.CPUTimeMS > 0 && !slices.Contains(p.s.hello.Features, wire.FeatureCPUTime) {
		_ = p.End(0) // an older agent has started it without the limit
		p.Close()
		return nil, fmt.Errorf("exec: %w", &wire.Error{Code: wire.CodeUnsupported, Message: "this sandbox's agent is of a version that cannot limit CPU time"})
	}
	return p, nil
}

// Attach attaches to a command, running or finished, from a position. If [wire.Started.From] is later, earlier output is gone. It
// ends any other host's attachment. ctx limits only the attaching.
func (c *Client) Attach(ctx context.Context, id string, from int64) (*Process, error) {
	p, err := c.attach(ctx, wire.Request{Op: wire.OpAttach, ID: id, From: from})
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	return p, nil
}

func (c *Client) attach(ctx context.Context, req wire.Request) (*Process, error) {
	s, err := c.open(ctx, req)
	if err != nil {
		return nil, err
	}
	reply, err := s.reply()
	if err == nil {
		err = checkStarted(reply.Started, req.From)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	if err := s.detach(); err != nil {
		return nil, err
	}
	st := *reply.Started
	return &Process{
		s: s, started: st, raised: make(chan struct{}),
		limit: st.StdinLimit, sent: st.Stdin, next: st.From, safe: st.From, acked: st.From,
	}, nil
}

// checkStarted validates the agent's reply to an exec, or to an attach from a position. The host calculates with its numbers.
func checkStarted(st *wire.Started, from int64) error {
	const longest = math.MaxInt64 / int64(time.Millisecond)
	switch {
	case st == nil:
		return fmt.Errorf("%w: answer without started", ErrProtocol)
	case st.From < from, st.Stdin < 0, st.StdinLimit < 0, st.AgeMS < 0, st.AgeMS > longest:
		return fmt.Errorf("%w: started from %d of %d, stdin at %d of %d, %d ms ago", ErrProtocol, st.From, from, st.Stdin, st.StdinLimit, st.AgeMS)
	}
	return nil
}

// checkExit validates the agent's report of a command's end. The host stores it without a limit on texts, and JSON cannot
// represent infinity.
func checkExit(e *wire.Exit) error {
	const mostWord, mostCwd, longest = 100, 3 * 4096, 1e12 // of a folder, bytes that are not UTF-8 arrive as three
	const mostCPUs, spare, mostRSS = 1024, 60_000, 1 << 50 // spare is in ms: processes may outlive the first one for a grace period
	texts := []string{string(e.Cause), e.Usage.Source}
	if e.Shell != nil {
		texts = append(texts, e.Shell.Program)
	}
	bad := e.Code < -1 || e.Code > 255 || e.Signal < 0 || e.Signal > 64 || e.Dropped < 0 || !(e.WallMS >= 0 && e.WallMS <= longest) || len(e.Cwd) > mostCwd
	span := e.WallMS + spare
	if e.Shell != nil {
		span = longest // a shell's jobs may have begun before the command, and count once the shell has waited for them
	}
	bad = bad || float64(e.Usage.UserMicros+e.Usage.SystemMicros) > 1000*mostCPUs*span || e.Usage.MaxRSS > mostRSS
	for _, text := range texts {
		bad = bad || len(text) > mostWord || plain(text) != text
	}
	if bad {
		return fmt.Errorf("%w: end with status %d, signal %d, after %g ms", ErrProtocol, e.Code, e.Signal, e.WallMS)
	}
	return nil
}

// Started is the agent's reply to the exec or attach.
func (p *Process) Started() wire.Started { return p.started }

// Deliver receives a piece of a command's output. b starts at position and is valid during the call. Every byte before safe is
// stored where it outlives this process, so that the agent may drop it. The agent sends later bytes again to the next attachment.
type Deliver func(position int64, s wire.Stream, b []byte) (safe int64, err error)

// Position is where the next attachment must continue: after the last safe byte.
func (p *Process) Position() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.safe
}

// Output is [Process.Follow] for a host that counts bytes as safe once deliver returns nil for them.
func (p *Process) Output(ctx context.Context, deliver func(position int64, s wire.Stream, b []byte) error) (wire.Exit, error) {
	return p.Follow(ctx, func(position int64, s wire.Stream, b []byte) (int64, error) {
		return position + int64(len(b)), deliver(position, s, b)
	})
}

// Follow delivers the command's output in order and without a gap, and returns the outcome after the last byte. It acknowledges
// safe bytes, in batches. If deliver is slow or reports no safe bytes, the program eventually blocks.
//
// Follow ends early with deliver's error, with ctx's, or with [ErrDisconnected]. It then closes the attachment, and the command
// continues.
func (p *Process) Follow(ctx context.Context, deliver Deliver) (wire.Exit, error) {
	unhook := context.AfterFunc(ctx, func() { p.s.conn.Close() })
	defer unhook()
	exit, err := p.pump(deliver)
	if err != nil {
		p.s.conn.Close()
		if ctx.Err() != nil && errors.Is(err, ErrDisconnected) {
			err = context.Cause(ctx)
		}
		p.endStdin(err)
		return wire.Exit{}, fmt.Errorf("output: %w", err)
	}
	p.endStdin(io.ErrClosedPipe)
	return exit, nil
}

func (p *Process) pump(deliver Deliver) (wire.Exit, error) {
	for {
		f, err := p.s.read()
		if err != nil {
			return wire.Exit{}, err
		}
		if f.Kind == wire.KindOutput {
			if err := p.deliver(f, deliver); err != nil {
				return wire.Exit{}, err
			}
			continue
		}
		reply, err := asReply(f)
		switch {
		case err != nil:
			return wire.Exit{}, err
		case reply.StdinLimit != nil:
			p.raise(*reply.StdinLimit)
		case reply.Exit != nil:
			if end := reply.Exit.Position; end != p.delivered() {
				return wire.Exit{}, fmt.Errorf("%w: output ends at %d instead of %d", ErrProtocol, p.delivered(), end)
			}
			// All output has arrived: a lost ack only costs the agent memory until the command is forgotten.
			_ = p.ack(1)
			return *reply.Exit, checkExit(reply.Exit)
		default:
			return wire.Exit{}, fmt.Errorf("%w: unexpected answer on an exec's stream", ErrProtocol)
		}
	}
}

func (p *Process) deliver(f wire.Frame, deliver Deliver) error {
	position, stream, b, err := f.Output()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if next := p.delivered(); position != next {
		return fmt.Errorf("%w: output at %d instead of %d", ErrProtocol, position, next)
	}
	if p.most > 0 && int64(len(b)) > p.most-position {
		return fmt.Errorf("%w: more than %d bytes of output", ErrProtocol, p.most)
	}
	safe, err := deliver(position, stream, b)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.next += int64(len(b))
	p.safe = max(p.safe, min(safe, p.next))
	p.mu.Unlock()
	if p.s.r.Buffered() > 0 {
		return p.ack(ackEvery)
	}
	return p.ack(ackIdle)
}

// delivered returns the position of the next output byte to deliver.
func (p *Process) delivered() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// ack acknowledges newly safe bytes if there are at least this many.
func (p *Process) ack(least int64) error {
	p.mu.Lock()
	safe := p.safe
	worth := safe-p.acked >= least
	if worth {
		p.acked = safe
	}
	p.mu.Unlock()
	if !worth {
		return nil
	}
	return p.control(wire.Control{Ack: &safe})
}

// Contact sends the agent a frame, which renews the lease of the sandbox.
func (p *Process) Contact() error {
	p.mu.Lock()
	acked := p.acked
	p.mu.Unlock()
	return p.control(wire.Control{Ack: &acked})
}

// Write sends b to the command's stdin or terminal. It blocks while the program does not read. It needs a running Output, which
// receives the agent's limits. It fails when the attachment is closed or the command has ended.
func (p *Process) Write(b []byte) (int, error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	done := 0
	for done < len(b) {
		n, err := p.room(len(b) - done)
		if err != nil {
			return done, fmt.Errorf("write stdin: %w", err)
		}
		if err := p.s.w.Data(b[done : done+n]); err != nil {
			return done, fmt.Errorf("write stdin: %w", p.s.fault(err))
		}
		done += n
	}
	return done, nil
}

// room waits until the limit allows some of want bytes, and reserves them.
func (p *Process) room(want int) (int, error) {
	for {
		p.mu.Lock()
		if p.ended != nil {
			defer p.mu.Unlock()
			return 0, p.ended
		}
		if n := min(int64(want), p.limit-p.sent); n > 0 {
			p.sent += n
			p.mu.Unlock()
			return int(n), nil
		}
		raised := p.raised
		p.mu.Unlock()
		<-raised
	}
}

func (p *Process) raise(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if limit > p.limit {
		p.limit = limit
		close(p.raised)
		p.raised = make(chan struct{})
	}
}

func (p *Process) endStdin(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		p.ended = err
		close(p.raised)
		p.raised = make(chan struct{})
	}
}

// CloseStdin ends stdin after the bytes written so far.
func (p *Process) CloseStdin() error {
	p.writing.Lock()
	defer p.writing.Unlock()
	if err := p.s.w.EOF(); err != nil {
		return fmt.Errorf("close stdin: %w", p.s.fault(err))
	}
	return nil
}

// Signal sends a signal to the process group of the command's first process.
func (p *Process) Signal(n int) error {
	return p.control(wire.Control{Kill: &wire.Kill{Signal: n}})
}

// End ends the command and everything it has started: TERM, and KILL after grace. Output returns after the end.
func (p *Process) End(grace time.Duration) error {
	return p.control(wire.Control{Kill: &wire.Kill{End: true, GraceMS: milliseconds(grace)}})
}

// forgetTime bounds [Process.Forget] with an agent that reads nothing.
const forgetTime = 5 * time.Second

// Forget drops the command, whose end Output has reported, and its remaining output. It ends the attachment and awaits no reply.
// With an older agent it is [errors.ErrUnsupported]; use [Client.Forget].
func (p *Process) Forget() error {
	if !slices.Contains(p.s.hello.Features, wire.FeatureForget) {
		return fmt.Errorf("forget: %w", errors.ErrUnsupported)
	}
	late := time.AfterFunc(forgetTime, func() { p.s.conn.Close() })
	defer late.Stop()
	err := p.control(wire.Control{Forget: true})
	p.Close()
	return err
}

// Resize sets the size of the command's terminal.
func (p *Process) Resize(size wire.Size) error {
	return p.control(wire.Control{Resize: &size})
}

func (p *Process) control(c wire.Control) error {
	if err := p.s.w.JSON(wire.KindControl, c); err != nil {
		return fmt.Errorf("control: %w", p.s.fault(err))
	}
	return nil
}

// Close ends the attachment without affecting the command; a running Output returns. It is idempotent.
func (p *Process) Close() error {
	p.endStdin(ErrDisconnected)
	p.s.conn.Close()
	return nil
}
