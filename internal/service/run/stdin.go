package run

import (
	"context"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/session"
	"github.com/belljar/belljar/internal/service/stdin"
)

// admitStdin decides about the input of an interactive run.
func (s *admitter) admitStdin(p *plan) error {
	if !p.request.Interactive {
		return nil
	}
	if s.rules.Policy.NoInteractive {
		return &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: "interactive runs are not allowed here",
			Details: map[string]any{"field": "interactive", "rule": "SANDBOX_NO_INTERACTIVE"},
		}
	}
	limits, err := stdin.Resolve(stdin.LimitsOf(&p.request.RunSpec), s.stdin, s.maxStdin)
	limits.Apply(&p.request.RunSpec)
	return err
}

// attachStdin connects an interactive run's input to its command: all input that callers write from now on, or have been waiting to
// write since the run was queued. The command must have been started with a standard input, and its output must be read. For a
// command of a previous process, the input continues after the bytes already sent.
func (r *Run) attachStdin(started wire.Started, to stdin.Sink) *stdin.Input {
	r.mu.Lock()
	in, x := r.stdin(), r.plan.session
	r.mu.Unlock()
	in.Resume(started.Stdin, started.StdinClosed)
	if x != nil {
		to = &touchingSink{to, x}
	}
	in.Attach(to)
	return in
}

// touchingSink is the destination of the input of a run in a session: input is a use of the session.
type touchingSink struct {
	stdin.Sink
	session *session.Session
}

// Write passes input to the command.
func (s *touchingSink) Write(b []byte) (int, error) {
	s.session.Touch()
	return s.Sink.Write(b)
}

// stdin returns the input of a run that has not ended, and creates it on first use. The caller holds the lock.
func (r *Run) stdin() *stdin.Input {
	if r.input == nil {
		r.input = stdin.New(stdin.LimitsOf(&r.plan.request.RunSpec))
		// A run that ends before its command begins has nothing to attach.
		context.AfterFunc(r.ctx, func() { r.input.Abandon(context.Cause(r.ctx)) })
	}
	return r.input
}

// OpenStdin opens the standard input of an interactive run for a caller.
func (s *Runs) OpenStdin(caller belljar.Caller, r *Run) (belljar.Stdin, error) {
	in, err := r.openInput()
	if err != nil {
		return nil, err
	}
	in.Watch(func(reason string, taken int64) {
		state := r.Snapshot()
		s.runner.record(event.Event{
			Name: event.StdinClosed, Caller: caller, Run: &state, Runtime: state.Runtime, Reason: reason, Count: taken,
		})
	})
	return in.Open(), nil
}

// openInput returns the input of an interactive run.
func (r *Run) openInput() (*stdin.Input, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.plan == nil || r.state.Phase.Terminal():
		return nil, noStdin(r.id, "has ended")
	case !r.plan.request.Interactive || r.plan.request.Input != nil:
		return nil, noStdin(r.id, "is not interactive")
	}
	return r.stdin(), nil
}

func noStdin(id, why string) error {
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("run %s %s", id, why),
		Details: map[string]any{"run_id": id},
	}
}
