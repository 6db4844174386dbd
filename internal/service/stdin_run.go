package service

import (
	"context"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/stdin"
)

// admitStdin decides about the input of an interactive run.
func (s *Service) admitStdin(p *plan) (err error) {
	if !p.request.Interactive {
		return nil
	}
	if s.opts.Policy.NoInteractive {
		return &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: "interactive runs are not allowed here",
			Details: map[string]any{"field": "interactive", "rule": "SANDBOX_NO_INTERACTIVE"},
		}
	}
	p.request.StdinLimits, err = stdin.Resolve(p.request.StdinLimits, s.opts.Stdin, s.opts.MaxStdin)
	return err
}

// attachStdin gives an interactive run's input to its command: what callers write from now on, or have been waiting to
// write since the run was queued, goes there. The command must have been started with a standard input, and its output
// must be read. One that a former process started goes on with what it has been sent.
func (r *run) attachStdin(told wire.Started, to stdin.Sink) {
	r.mu.Lock()
	in, x := r.stdin(), r.plan.session
	r.mu.Unlock()
	in.Resume(told.Stdin, told.StdinClosed)
	if x != nil {
		in.Attach(&livelySink{to, x})
		return
	}
	in.Attach(to)
}

// livelySink is where the input of a run in a session goes: what is typed is a use of the session.
type livelySink struct {
	stdin.Sink
	session *session
}

// Write passes input on.
func (s *livelySink) Write(b []byte) (int, error) {
	s.session.typed()
	return s.Sink.Write(b)
}

// detachStdin ends the input of a run whose command is over, or never came to be: whoever holds it learns the reason,
// [stdin.EndedWithRun] if there is no better one. It may be called twice, and for a run that is not interactive.
func (r *run) detachStdin(reason string) {
	r.mu.Lock()
	in := r.input
	r.mu.Unlock()
	if in != nil {
		in.End(reason)
	}
}

// stdin is the input of a run that has not ended, made when it is first asked for. The caller holds the lock.
func (r *run) stdin() *stdin.Input {
	if r.input == nil {
		r.input = stdin.New(r.plan.request.StdinLimits)
		// A run that ends before its command begins attaches nothing.
		context.AfterFunc(r.ctx, r.input.Abandon)
	}
	return r.input
}

// openStdin opens a hold on the input of a run that caller may see.
func (s *Service) openStdin(caller belljar.Caller, id string) (belljar.Stdin, error) {
	r, err := s.lookup(caller, id)
	if err != nil {
		return nil, err
	}
	in, err := r.openInput()
	if err != nil {
		return nil, err
	}
	in.Watch(func(reason string, taken int64) {
		state := r.snapshot()
		s.opts.Events.Record(event.Event{
			Name: event.StdinClosed, Time: s.clock.Now(), Caller: caller, Run: &state, Runtime: state.Runtime, Component: component,
			Reason: reason, Count: taken,
		})
	})
	return in.Open(), nil
}

// openInput is the input of a run that can have one.
func (r *run) openInput() (*stdin.Input, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.plan == nil || r.state.Phase.Terminal():
		return nil, noStdin(r.id, "has ended")
	case !r.plan.request.Interactive || r.plan.request.Stdin != nil:
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
