package terminal

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
	"github.com/belljar/belljar/internal/secret/redact"
	"github.com/belljar/belljar/internal/service/box"
)

// terminal is a PTY in a session. It reads its program's output whether or not a client is attached, so that the program
// never waits for a viewer.
//
// Input counts as use of the session, and so does output while a client is attached. A terminal that is merely open does not
// keep its session alive.
type terminal struct {
	all       *Terminals
	session   Session
	sessionID string
	owner     belljar.Caller // of the session
	closer    belljar.Caller // ends it: the owner, or the caller that closes it; mu guards it
	id        string
	limits    Limits
	box       *box.Box // the sandbox of its program

	ctx  context.Context // ends when the agent is no longer usable
	stop context.CancelFunc
	over chan struct{} // closed when its program has ended, or is left to the agent

	keys   chan *keystrokes // input for the program
	resize chan struct{}    // has a token when there is a new size
	sizing sync.Mutex       // held while the size is reported

	mu         sync.Mutex
	state      belljar.Terminal
	resized    bool // its size has not been reported yet
	proc       *agent.Process
	attached   []*attachment // replaced, never modified
	history    history
	hidden     *redact.Stream         // redacts the session's secrets in its output
	opening    opening                // of the output from a previous process
	last       *belljar.TerminalEvent // how it ended
	active     time.Time              // last output or input
	used       time.Time              // when it last touched its session
	heartbeat  time.Time              // when it last kept its session alive
	timers     []func() bool          // stop the timers of its lifetime and idle time
	stopWindow func() bool            // stops the reattach window; nil while a client is attached
}

// The reasons why a terminal ended, other than the end of its program.
const (
	endedByCaller    = "closed"
	endedWithSession = "session"  // its session ended
	endedByShutdown  = "shutdown" // Belljar stops: the program may continue, and is recovered
	endedDetached    = "detached" // the reattach window has passed
	endedIdle        = "idle"
	endedByLifetime  = "lifetime"
	endedLost        = "lost" // its sandbox does not respond
)

// execPrefix begins the id of a terminal's program at its agent.
const execPrefix = "terminal:"

// note is the data that the agent keeps about a terminal for the next process.
type note struct {
	Name      string    `json:"name,omitempty"`
	Command   []string  `json:"command"`
	Shared    bool      `json:"shared,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// make returns a terminal without a program.
func (s *Terminals) make(x Session, state belljar.Terminal) *terminal {
	t := &terminal{
		all: s, session: x, owner: x.Owner(), closer: x.Owner(), box: x.Box(), id: state.ID, limits: s.opts.Limits, state: state,
		over: make(chan struct{}), keys: make(chan *keystrokes), resize: make(chan struct{}, 1),
	}
	t.sessionID = x.Session().ID
	t.state.SessionID, t.state.UserID = t.sessionID, t.owner.ID
	t.history.most = t.limits.History
	t.hidden = x.Box().Hidden.Stream()
	t.active = s.opts.Clock.Now()
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// cancel removes a terminal whose program does not run.
func (t *terminal) cancel() {
	close(t.over)
	t.stop()
	t.all.table.leave(t)
}

// start starts the terminal's program: its command, or else the first shell that exists in the sandbox.
func (t *terminal) start(ctx context.Context) (*agent.Process, error) {
	choice := [][]string{{"bash"}, {"sh"}}
	if len(t.state.Command) > 0 {
		choice = [][]string{t.state.Command}
	}
	for i, argv := range choice {
		t.state.Command = argv
		proc, err := t.box.Exec(ctx, t.execution(), "")
		var failed *wire.Error
		missing := errors.As(err, &failed) && failed.Code == wire.CodeExecFailed && failed.Errno == wire.ENOENT
		if err == nil || !missing || i == len(choice)-1 {
			return proc, err
		}
	}
	return nil, nil // unreachable: the last choice has returned
}

// execution returns the terminal's program for the agent. It has no timeout.
func (t *terminal) execution() wire.Exec {
	e := t.session.Execution()
	e.ID, e.Argv, e.Env, e.Stdin = execPrefix+t.id, t.state.Command, interactive(e.Env), true
	e.PTY = &wire.Size{Cols: uint16(t.state.Cols), Rows: uint16(t.state.Rows)}
	e.Note = t.note()
	return e
}

// note returns the terminal's note. A command that is too long for it is cut.
func (t *terminal) note() string {
	n := note{Name: t.state.Name, Command: t.state.Command, Shared: t.state.Shared, CreatedAt: t.state.CreatedAt}
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

// interactive adds variables for interactive programs to an environment. Variables of the session or the image win.
func interactive(env []string) []string {
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

// snapshot returns the terminal's current state.
func (t *terminal) snapshot() belljar.Terminal {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.state
	s.Command = slices.Clone(s.Command)
	s.Attached = len(t.attached)
	if s.Attached > 0 {
		s.DetachedAt = time.Time{}
	}
	return s
}

// gone reports whether its program has ended.
func (t *terminal) gone() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// closed reports whether the terminal was ended other than by the end of its program, or has not started.
func (t *terminal) closed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.proc == nil || t.last != nil && t.last.Kind != belljar.TerminalExit
}
