package service

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
)

// terminal is a PTY in a session: a command of its sandbox that is followed whether anybody watches or not, so that its
// program never waits for want of a viewer.
//
// Typing counts as use of the session, and so does output that somebody watches; a terminal that is merely open does not
// keep its session.
type terminal struct {
	service *Service
	session *session
	id      string
	opts    TerminalOptions

	ctx  context.Context // ends when nothing more can be asked of the agent
	stop context.CancelFunc
	over chan struct{} // closed when its program is gone, or left to the agent

	jar    *box.Box      // where its program is; fixed when it runs
	keys   chan *keys    // what is typed, on its way to the program
	resize chan struct{} // has a token when there is a new size

	mu      sync.Mutex
	state   belljar.Terminal
	proc    *agent.Process
	seats   []*attachment // replaced, never changed
	history history
	last    *belljar.TerminalEvent // how it ended
	active  time.Time              // when it last printed or was typed to
	used    time.Time              // when its session was last told of its use
	stirred time.Time              // and of a sign of life
	clocks  []func() bool          // stop its life's and its idleness's
	unwatch func() bool            // stops the reattach window's; nil while somebody watches
}

// Why a terminal ended, apart from its program's end.
const (
	closedByCaller = "closed"
	closedSession  = "session"  // its session ended
	closedShutdown = "shutdown" // belljar stops: the program may live on, and be found again
	closedDetached = "detached" // nobody came back within the reattach window
	closedIdle     = "idle"
	closedLifetime = "lifetime"
	closedLost     = "lost" // its sandbox does not answer
)

// terminalExec begins the name under which an agent knows a terminal's program.
const terminalExec = "terminal:"

// terminalNote is what the agent keeps of a terminal for the next process.
type terminalNote struct {
	Name      string    `json:"name,omitempty"`
	Command   []string  `json:"command"`
	Shared    bool      `json:"shared,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// newTerminal returns a terminal without a program.
func (s *Service) newTerminal(x *session, state belljar.Terminal) *terminal {
	t := &terminal{
		service: s, session: x, id: state.ID, opts: s.opts.Terminals, state: state,
		over: make(chan struct{}), keys: make(chan *keys), resize: make(chan struct{}, 1),
	}
	t.state.SessionID, t.state.UserID = x.id, x.caller.ID
	t.history.most = t.opts.History
	t.active = s.clock.Now()
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// openTerminal starts a terminal in a session that caller may use.
func (s *Service) openTerminal(ctx context.Context, caller belljar.Caller, sessionID string, spec belljar.TerminalSpec) (*terminal, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	x, err := s.session(caller, sessionID)
	if err == nil {
		err = s.strongEnough(caller, x, admission.Ask{})
	}
	if err != nil {
		return nil, err
	}
	j, err := x.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer x.release()
	fill(&spec.Cols, 80)
	fill(&spec.Rows, 24)
	now := s.now()
	t := s.newTerminal(x, belljar.Terminal{
		ID: belljar.NewID(), Name: spec.Name, Command: slices.Clone(spec.Command), Shared: spec.Shared,
		Cols: spec.Cols, Rows: spec.Rows, CreatedAt: now, DetachedAt: now,
	})
	if err := s.terminals.enter(t, t.opts.PerSession, t.opts.PerUser); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, seconds(x.place.Limits.StartupTimeoutSec), fault.ErrStartupTimeout)
	defer cancel()
	proc, err := t.start(ctx, j)
	if err != nil {
		close(t.over)
		t.stop()
		s.terminals.leave(t)
		return nil, x.terminalError(err)
	}
	if !s.work.Do(func() { t.run(j, proc) }) {
		_ = proc.End(0) // it goes with its session, at the latest
		proc.Close()
		close(t.over)
		t.stop()
		s.terminals.leave(t)
		return nil, fault.ShuttingDown()
	}
	return t, nil
}

// start starts the terminal's program: its command, or else the first shell that the sandbox has.
func (t *terminal) start(ctx context.Context, j *box.Box) (*agent.Process, error) {
	choice := [][]string{{"bash"}, {"sh"}}
	if len(t.state.Command) > 0 {
		choice = [][]string{t.state.Command}
	}
	for i, argv := range choice {
		t.state.Command = argv
		proc, err := j.Exec(ctx, t.execution(j), t.session.place.Image.WorkingDir)
		var failed *wire.Error
		missing := errors.As(err, &failed) && failed.Code == wire.CodeExecFailed && failed.Errno == wire.ENOENT
		if err == nil || !missing || i == len(choice)-1 {
			return proc, err
		}
	}
	return nil, nil // not reached: the last choice has returned
}

// execution is the terminal's program as the agent takes it. It has no time limit of the agent's, and no bound on the
// processor time of a process: its sandbox has one.
func (t *terminal) execution(j *box.Box) wire.Exec {
	p := *t.session.place
	p.Bind()
	limits := p.Rlimits()
	delete(limits, "cpu")
	return wire.Exec{
		ID: terminalExec + t.id, Argv: t.state.Command, Env: terminalEnv(p.Environment(p.Image.WorkingDir, t.session.spec.Env)), Cwd: p.Image.WorkingDir,
		UID: j.UID, GID: j.GID, Rlimits: limits, Stdin: true,
		PTY:  &wire.Size{Cols: uint16(t.state.Cols), Rows: uint16(t.state.Rows)},
		Note: t.note(),
	}
}

// note is what the next process has to know. A command too long for it is cut.
func (t *terminal) note() string {
	n := terminalNote{Name: t.state.Name, Command: t.state.Command, Shared: t.state.Shared, CreatedAt: t.state.CreatedAt}
	for {
		raw, err := json.Marshal(n)
		if err == nil && len(raw) <= wire.MaxNote {
			return string(raw)
		}
		if len(n.Command) == 1 {
			n.Command = []string{"…"}
		} else {
			n.Command = n.Command[:len(n.Command)/2]
		}
	}
}

// terminalEnv is an environment as interactive programs want it. What the session, or the image, says of these wins.
func terminalEnv(env []string) []string {
	prompt := false
	for i, pair := range env {
		if pair == "TERM=dumb" {
			env[i] = "TERM=xterm-256color"
		}
		prompt = prompt || strings.HasPrefix(pair, "PS1=")
	}
	if !prompt {
		env = append(env, `PS1=\w\$ `)
	}
	return env
}

// terminalError is what a caller hears of a terminal that could not be opened.
func (x *session) terminalError(err error) error {
	var failed *wire.Error
	switch {
	case errors.Is(err, fault.ErrStartupTimeout):
		return &belljar.Error{Code: belljar.CodeTimeout, Message: "the terminal did not start in time", Details: map[string]any{"session_id": x.id}}
	case errors.Is(err, agent.ErrDisconnected), errors.Is(err, runtime.ErrGone):
		state := x.snapshot()
		if !state.State.Ended() { // its end is about to be noticed
			state.State = belljar.SessionCrashed
		}
		return sessionEnded(state)
	case !errors.As(err, &failed):
		return err
	case failed.Code == wire.CodeExecFailed && failed.Step == "pty" && failed.Errno == wire.ENOSPC:
		return &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: "the sandbox has no more terminals", Err: err,
			Details: map[string]any{"quota": "sandbox_terminals", "session_id": x.id}, Hint: "close one, or end the programs that have some",
		}
	case failed.Code == wire.CodeExecFailed && failed.Errno == wire.EAGAIN:
		return &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: noProcess(x.place.Limits), Err: err,
			Details: map[string]any{"quota": "pids", "session_id": x.id}, Hint: noProcessHint(x.place.Limits),
		}
	case failed.Code == wire.CodeExecFailed:
		e := &belljar.Error{Code: belljar.CodeInvalidRequest, Message: failed.Message, Err: err, Details: map[string]any{"field": "command"}}
		if failed.Step != "lookup" && failed.Step != "exec" && failed.Step != "chdir" {
			e.Code, e.Message, e.Details = belljar.CodeInternal, "the terminal could not be started", map[string]any{"step": failed.Step}
		}
		return e
	case failed.Code == wire.CodeTooLarge:
		return &belljar.Error{Code: belljar.CodeQuotaExceeded, Message: failed.Message, Err: err}
	}
	return err
}

// snapshot is the terminal as it stands.
func (t *terminal) snapshot() belljar.Terminal {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.state
	s.Command = slices.Clone(s.Command)
	s.Attached = len(t.seats)
	if s.Attached > 0 {
		s.DetachedAt = time.Time{}
	}
	return s
}

// gone reports whether its program is.
func (t *terminal) gone() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// closed reports whether the terminal was ended, by whatever but its program's end, or has yet to start.
func (t *terminal) closed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.proc == nil || t.last != nil && t.last.Kind != belljar.TerminalExit
}
