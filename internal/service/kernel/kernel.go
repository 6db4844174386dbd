package kernel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
)

// Session is a live session from the view of its contexts.
type Session interface {
	// Context ends when the session ends, or its sandbox is released.
	Context() context.Context
	// Session returns the session's current state, and Contexts its contexts.
	Session() belljar.Session
	Contexts() *Table
	// Record stores the session, with its contexts. BeginContext stores one that is new, if it can, and fails if it was deleted.
	Record() error
	BeginContext(name string) error
	// Box returns its sandbox with its agent, and Execution a command in it without arguments.
	Box() *box.Box
	Execution() wire.Exec
	// Limits returns the limits of its sandbox.
	Limits() belljar.Limits
}

// Options configures [Kernels].
type Options struct {
	// Acquire counts a use of a session of the caller until release is called. With execute, it also checks that the caller may run code now.
	Acquire func(ctx context.Context, caller belljar.Caller, id string, execute bool) (x Session, release func(), err error)
	// Stop cancels the runs of a context.
	Stop func(session, context string)
	// Ended returns the error for a session whose context has ended, or whose sandbox has died.
	Ended func(context.Context, belljar.Session) error
	// Refused converts an error for the caller, and records a refusal.
	Refused func(caller belljar.Caller, doing string, err error) error
	// Record records an event and fills in its time and component.
	Record func(event.Event)
	Now    func() time.Time
}

// Kernels manages the contexts of all sessions.
type Kernels struct{ opts Options }

// New returns Kernels with these options.
func New(opts Options) *Kernels { return &Kernels{opts} }

// As returns the contexts as one caller sees them.
func (k *Kernels) As(caller belljar.Caller) belljar.Contexts { return view{k, caller} }

// view is the contexts as one caller sees them.
type view struct {
	*Kernels
	caller belljar.Caller
}

var _ belljar.Contexts = view{}

const (
	startTime     = time.Minute      // to start or end an interpreter
	listTime      = 10 * time.Second // to list contexts
	completeTime  = 2 * time.Second
	mostMatches   = 200
	maxMatchBytes = 1 << 20
)

// executing performs an operation in a session that executes code.
func (v view) executing(ctx context.Context, doing, sessionID string, limit time.Duration, do func(ctx context.Context, x Session) error) error {
	return v.with(ctx, true, doing, sessionID, limit, do)
}

// with performs an operation in a session.
func (v view) with(ctx context.Context, execute bool, doing, sessionID string, limit time.Duration, do func(ctx context.Context, x Session) error) error {
	x, release, err := v.opts.Acquire(ctx, v.caller, sessionID, execute)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, limit)
		err = do(ctx, x)
		if err != nil && x.Context().Err() != nil { // any other error
			err = v.opts.Ended(x.Context(), x.Session())
		}
		cancel()
		release()
	}
	if err != nil {
		return v.opts.Refused(v.caller, doing, err)
	}
	return nil
}

// Create starts a context.
func (v view) Create(ctx context.Context, sessionID string, spec belljar.ContextSpec) (made belljar.Context, err error) {
	if err := spec.Validate(); err != nil {
		return made, err
	}
	if spec.Name == "" {
		spec.Name, _ = belljar.ContextLanguage(spec.Language)
	}
	if spec.Cwd != "" {
		spec.Cwd, _ = belljar.CleanPath(spec.Cwd)
	}
	err = v.executing(ctx, "make a context", sessionID, startTime, func(ctx context.Context, x Session) error {
		e, fresh, err := x.Contexts().enter(spec, v.opts.Now())
		if err != nil {
			return err
		}
		if !fresh && spec.Cwd != e.cwd {
			x.Contexts().leave(e)
			return &belljar.Error{
				Code: belljar.CodeConflict, Message: fmt.Sprintf("context %q has started in another directory", e.name),
				Details: map[string]any{"context": e.name, "cwd": e.cwd}, Hint: "use another name, or delete it first",
			}
		}
		// A context that had variables stays stopped: its next code reports that they are lost, or replays the earlier code.
		if made, err = v.look(ctx, x, e); err == nil && made.State == belljar.ContextStopped && made.Runs == 0 && !x.Contexts().isLost(e) {
			made, err = v.start(ctx, x, e)
		}
		if err != nil {
			if x.Contexts().leave(e) {
				_ = v.end(ctx, x, e, listTime) // otherwise the agent keeps its name, language and folder
			}
			return err
		}
		if fresh {
			v.record(event.ContextCreated, x, e, "")
		}
		return x.BeginContext(e.name)
	})
	return made, err
}

// start starts the interpreter of a context, and returns the context's resulting state.
func (v view) start(ctx context.Context, x Session, e *entry) (c belljar.Context, err error) {
	if err = v.launch(ctx, x, e); err == nil {
		c, err = v.look(ctx, x, e)
	}
	const hint = "see that the session has processes and memory left, or make the session with more pids (--pids) and memory_mb (--memory)"
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded): // Node waits for threads that the limit denies
		return c, &belljar.Error{
			Code: belljar.CodeTimeout, Message: fmt.Sprintf("the interpreter of context %q did not start in time", e.name), Hint: hint,
		}
	case err == nil && c.State == belljar.ContextStopped:
		return c, &belljar.Error{Code: belljar.CodeConflict, Message: fmt.Sprintf("the interpreter of context %q ended while it started", e.name), Hint: hint}
	}
	return c, err
}

// launch starts the interpreter of a context with empty code.
func (v view) launch(ctx context.Context, x Session, e *entry) error {
	nothing := map[string]string{"bash": ":"}[e.language]
	exec := x.Contexts().direct(x.Execution(), e, cmp.Or(nothing, " "))
	exec.Shell.Complete = true
	out, err := v.execute(ctx, x, exec)
	var shown belljar.ResultReader
	for _, r := range shown.Add(belljar.Frame{Type: belljar.FrameResult, Output: out}) {
		if r.Type == belljar.ResultError { // for example, a module is missing
			return noInterpreter(e, r.Value)
		}
	}
	var refused *wire.Error
	switch {
	case !errors.As(err, &refused) || refused.Code != wire.CodeExecFailed:
	case refused.Step == wire.StepChdir:
		return &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("cwd %q is no directory of the workspace that can be entered", e.cwd),
			Details: map[string]any{"field": "cwd"},
		}
	case refused.Step == wire.StepRlimits:
		return box.AtHardLimit(x.Limits(), err)
	case refused.Errno == wire.ENOENT:
		return noInterpreter(e, "the image has no interpreter for "+e.language)
	case refused.Errno == wire.EAGAIN:
		return box.NoProcessLeft(ctx, x.Limits(), x.Box(), x.Session().ID, err)
	}
	return err
}

func noInterpreter(e *entry, why string) error {
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: why, Details: map[string]any{"field": "language", "language": e.language},
		Hint: "make the session with an image that has it",
	}
}

// execute runs a command outside any run, and returns its results and output, without the values of secrets.
func (v view) execute(ctx context.Context, x Session, exec wire.Exec) ([]byte, error) {
	out, exit, err := execute(ctx, x.Box(), exec)
	if err == nil && (exit.Cause != wire.CauseExited || exit.Code != 0) {
		code := belljar.CodeInternal
		if exit.Cause == wire.CauseTimeout {
			code = belljar.CodeTimeout
		}
		err = &belljar.Error{
			Code: code, Message: "the interpreter does not answer", Details: map[string]any{"exit_code": exit.Code, "cause": string(exit.Cause)},
		}
	}
	return out, err
}

func execute(ctx context.Context, b *box.Box, exec wire.Exec) (out []byte, exit wire.Exit, err error) {
	exec.ID = "context:" + belljar.NewID()
	exec.OutputLimit = maxMatchBytes
	if until, ok := ctx.Deadline(); ok {
		exec.TimeoutMS = max(1, time.Until(until).Milliseconds())
	}
	proc, err := b.Exec(ctx, exec, "")
	if err != nil {
		if ctx.Err() != nil { // it may have started
			go abandon(b, exec)
		}
		return nil, exit, err
	}
	defer proc.Close()
	hidden := b.Hidden.Stream()
	exit, err = proc.Output(ctx, func(_ int64, _ wire.Stream, p []byte) error {
		out = append(out, hidden.Write(p)...)
		return nil
	})
	out = append(out, hidden.Flush()...)
	if err != nil {
		go abandon(b, exec)
		return nil, exit, err
	}
	_ = proc.Forget()
	return out, exit, nil
}

// abandon makes the agent forget a command without a follower, when it has ended: at the latest at its timeout. Killing it now could
// cost the interpreter its variables. Commands that an agent does not forget count towards its maximum.
func abandon(b *box.Box, exec wire.Exec) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(exec.TimeoutMS)*time.Millisecond+listTime)
	defer cancel()
	proc, err := b.Agent.Attach(ctx, exec.ID, 0)
	if err != nil {
		return // it has not started, or its sandbox was removed
	}
	defer proc.Close()
	if _, err := proc.Output(ctx, func(int64, wire.Stream, []byte) error { return nil }); err == nil {
		_ = proc.Forget()
	}
}

// look returns a context in its current state.
func (v view) look(ctx context.Context, x Session, e *entry) (belljar.Context, error) {
	list, err := v.list(ctx, x, []*entry{e})
	if err != nil {
		return belljar.Context{}, err
	}
	return list[0], nil
}

// list returns contexts in their current state.
func (v view) list(ctx context.Context, x Session, entries []*entry) ([]belljar.Context, error) {
	shells, err := agent.Shells(ctx, x.Box().Agent)
	if err != nil {
		return nil, fmt.Errorf("ask for the interpreters: %w", err)
	}
	now := v.opts.Now()
	list := []belljar.Context{}
	for _, e := range entries {
		c := belljar.Context{Name: e.name, Language: e.language, Cwd: e.cwd, State: belljar.ContextStopped, CreatedAt: e.made, LastUsedAt: e.made}
		if i := slices.IndexFunc(shells, func(s wire.ShellInfo) bool { return s.Name == prefix+e.name }); i >= 0 {
			s := shells[i]
			switch c.Runs, c.LastUsedAt = s.Runs, now.Add(-time.Duration(s.IdleMS)*time.Millisecond); {
			case s.Busy:
				c.State = belljar.ContextBusy
			case s.Alive:
				c.State = belljar.ContextIdle
			}
		}
		list = append(list, c)
	}
	return list, nil
}

// List returns a session's contexts.
func (v view) List(ctx context.Context, sessionID string) (list []belljar.Context, err error) {
	err = v.with(ctx, false, "list contexts", sessionID, listTime, func(ctx context.Context, x Session) error {
		list, err = v.list(ctx, x, x.Contexts().all())
		return err
	})
	return list, err
}

// Restart ends a context's interpreter, and starts a new one.
func (v view) Restart(ctx context.Context, sessionID, name string) (c belljar.Context, err error) {
	err = v.executing(ctx, "restart a context", sessionID, startTime, func(ctx context.Context, x Session) error {
		e, err := x.Contexts().find(name)
		if err == nil {
			err = v.end(ctx, x, e, startTime)
			x.Contexts().restart(e, v.opts.Now())
		}
		if err == nil {
			err = keep(x)
		}
		if err == nil {
			c, err = v.start(ctx, x, e)
		}
		if err == nil {
			v.record(event.ContextEnded, x, e, "restarted")
		}
		return err
	})
	return c, err
}

// Delete ends a context.
func (v view) Delete(ctx context.Context, sessionID, name string) error {
	return v.with(ctx, false, "delete a context", sessionID, startTime, func(ctx context.Context, x Session) error {
		e, err := x.Contexts().find(name)
		if err != nil {
			return nil
		}
		x.Contexts().remove(name, v.opts.Now())
		if err = v.end(ctx, x, e, startTime); err == nil {
			err = keep(x)
		}
		if err == nil {
			v.record(event.ContextEnded, x, e, "deleted")
		}
		return err
	})
}

// keep records that a context was removed or restarted: otherwise the next process could replay code from before.
func keep(x Session) error {
	if err := x.Record(); err != nil {
		return fault.Record("put the contexts on record", err)
	}
	return nil
}

// end ends the interpreter of a context, its runs, and all processes that they started. It goes on for the limit if the caller leaves: the context
// is no longer in the table, or must not replay its earlier code, and a repeated request could find nothing left to do.
func (v view) end(ctx context.Context, x Session, e *entry, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	v.opts.Stop(x.Session().ID, e.name)
	if err := agent.EndShell(ctx, x.Box().Agent, prefix+e.name); err != nil {
		return fmt.Errorf("end the interpreter: %w", err)
	}
	return nil
}

// Complete returns the possible continuations of code.
func (v view) Complete(ctx context.Context, sessionID, name, code string) (c belljar.Completion, err error) {
	if len(code) > maxCode {
		return c, &belljar.Error{Code: belljar.CodeTooLarge, Message: fmt.Sprintf("code is limited to %d bytes", maxCode), Details: map[string]any{"field": "code"}}
	}
	err = v.executing(ctx, "complete code", sessionID, completeTime, func(ctx context.Context, x Session) error {
		e, err := x.Contexts().find(name)
		if err != nil {
			return err
		}
		now, err := v.look(ctx, x, e)
		if err == nil && now.State == belljar.ContextIdle {
			c, err = v.complete(ctx, x, e, strings.ReplaceAll(code, "\x00", ""))
			if belljar.CodeOf(err) == belljar.CodeTimeout || errors.Is(ctx.Err(), context.DeadlineExceeded) {
				c, err = belljar.Completion{}, nil // the program's own objects are slow
			}
		}
		return err
	})
	if c.Matches == nil {
		c.Matches = []string{}
	}
	return c, err
}

// maxCode is the size of the longest code to complete, in bytes.
const maxCode = 1 << 20

func (v view) complete(ctx context.Context, x Session, e *entry, code string) (c belljar.Completion, err error) {
	exec := x.Contexts().direct(x.Execution(), e, cmp.Or(code, " "))
	exec.Shell.Complete, exec.GraceMS = true, listTime.Milliseconds() // killing it would cost the variables
	if e.language == "bash" {
		exec.Shell.Cmd, c.Word = bashNames(code)
		out, err := v.execute(ctx, x, exec)
		for name := range strings.Lines(string(out)) {
			c.Matches = append(c.Matches, bashQuoted(strings.TrimSuffix(name, "\n")))
		}
		return tidy(c), err
	}
	out, err := v.execute(ctx, x, exec)
	for line := range strings.Lines(string(out)) {
		var found struct {
			Type string `json:"type"`
			belljar.Completion
		}
		if json.Unmarshal([]byte(line), &found) == nil && found.Type == "completions" {
			c = found.Completion
		}
	}
	if !strings.HasSuffix(code, c.Word) {
		c = belljar.Completion{}
	}
	return tidy(c), err
}

// tidy sorts and bounds matches.
func tidy(c belljar.Completion) belljar.Completion {
	slices.Sort(c.Matches)
	c.Matches = slices.Compact(c.Matches)
	c.Matches = c.Matches[:min(len(c.Matches), mostMatches)]
	return c
}

// record records an event of a context.
func (v view) record(name string, x Session, e *entry, reason string) {
	s := x.Session()
	v.opts.Record(event.Event{
		Name: name, Caller: v.caller, Session: &s, Runtime: s.Runtime, Kind: e.language, Reason: reason, Detail: map[string]string{"context": e.name},
	})
}
