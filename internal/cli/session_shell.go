package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/notice"
)

// sessionShell is belljar session shell.
type sessionShell struct {
	ID      string `arg:"" name:"session" help:"The session; the beginning of its id will do."`
	Program struct {
		Args []string `arg:"" optional:"" passthrough:"partial" name:"cmd" help:"What runs in a new terminal; a shell if it is not given."`
	} `embed:""`

	Attach     string `short:"a" placeholder:"TERMINAL" help:"Come back to a terminal; last is the one made last."`
	List       bool   `short:"l" help:"List the session's terminals."`
	Name       string `placeholder:"NAME" help:"What a new terminal is called."`
	Shared     bool   `help:"Let several people type in a new terminal."`
	DetachKeys string `default:"ctrl-p,ctrl-q" placeholder:"KEYS" help:"Keys that leave the terminal, which lives on (default ctrl-p,ctrl-q)."`
	JSON       bool   `name:"json" help:"With --list: print one JSON array."`
	Quiet      bool   `short:"q" help:"No notes of our own, only failures."`
}

// Help is the long help.
func (x *sessionShell) Help() string {
	return `A terminal goes on when nobody watches it: leave with ctrl-p ctrl-q, or lose the connection, and come
back with --attach. Ctrl-C and everything else goes to the program.

Examples:
  belljar session shell 01a1fe25-cb55
  belljar session shell 01a1fe25-cb55 --attach last
  belljar session shell 01a1fe25-cb55 -- python3 -i`
}

// Run opens a terminal, or comes back to one.
func (x *sessionShell) Run(ctx context.Context, c *console) error {
	c.Quiet = x.Quiet
	return c.remote(x.JSON, func(s belljar.Service) error {
		keys, err := keysOf(x.DetachKeys)
		if err != nil {
			return err
		}
		id, err := findSession(ctx, s, x.ID)
		if err != nil {
			return err
		}
		if x.List {
			return x.list(ctx, c, s, id)
		}
		size := c.terminalSize()
		var at belljar.Terminal
		if x.Attach != "" {
			at, err = findTerminal(ctx, s, id, x.Attach)
		} else {
			args := x.Program.Args
			if len(args) > 0 && args[0] == "--" {
				args = args[1:]
			}
			at, err = s.Terminals().Open(ctx, id, belljar.TerminalSpec{
				Cols: size.cols, Rows: size.rows, Command: args, Name: x.Name, Shared: x.Shared,
			})
		}
		if err != nil {
			return err
		}
		v := &visit{c: c, s: s, terminal: at.ID, keys: &detacher{keys: keys, names: x.DetachKeys}}
		return v.run(ctx, fmt.Sprintf("belljar session shell %s --attach %s", x.ID, at.ID))
	})
}

func (x *sessionShell) list(ctx context.Context, c *console, s belljar.Service, id string) error {
	all, err := s.Terminals().List(ctx, id)
	if err != nil {
		return err
	}
	if x.JSON {
		if all == nil {
			all = []belljar.Terminal{}
		}
		return writeJSON(c.stdout, all)
	}
	rows, now := [][]string{}, time.Now()
	for _, t := range all {
		state := fmt.Sprintf("%d attached", t.Attached)
		if t.Attached == 0 && !t.DetachedAt.IsZero() {
			state = "left " + rough(now.Sub(t.DetachedAt)) + " ago"
		}
		rows = append(rows, []string{t.ID, t.Name, strings.Join(t.Command, " "), state, rough(now.Sub(t.CreatedAt))})
	}
	return c.table("TERMINAL NAME COMMAND STATE AGE", rows)
}

// findTerminal finds a terminal by the beginning of its id, its name, or as the one made last.
func findTerminal(ctx context.Context, s belljar.Service, session, want string) (belljar.Terminal, error) {
	all, err := s.Terminals().List(ctx, session)
	if err != nil {
		return belljar.Terminal{}, err
	}
	if want == "last" && len(all) > 0 {
		return all[len(all)-1], nil
	}
	var found []belljar.Terminal
	for _, t := range all {
		if t.ID == want || t.Name == want {
			return t, nil
		}
		if strings.HasPrefix(t.ID, want) {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return belljar.Terminal{}, mistake("belljar session shell --list shows them", "the session has no terminal %s", want)
	}
	return belljar.Terminal{}, mistake("give more of its id", "%s begins the id of %d terminals", want, len(found))
}

// visit is a person at a terminal: from attaching to leaving, whatever happens to the connection meanwhile.
type visit struct {
	c        *console
	s        belljar.Service
	terminal string
	keys     *detacher
	raw      bool  // our own terminal passes everything on
	modes    modes // that the program has turned on in it
}

// errDetached says that the person has left the terminal.
var errDetached = errors.New("detached")

// patience is how long a visit waits for a server that is gone.
const patience = 2 * time.Minute

// run attaches until the person leaves or the program ends.
func (v *visit) run(ctx context.Context, back string) error {
	restore, err := v.makeRaw()
	if err != nil {
		return err
	}
	status, err := v.follow(ctx)
	restore()
	if v.raw && isTerminal(v.c.stdout) {
		_, _ = v.c.stdout.Write(v.modes.undo()) // who cannot be shown it has no need of it
	}
	switch {
	case errors.Is(err, errDetached):
		v.c.Note("left the terminal, which lives on")
		v.c.Hint("%s", back)
		return nil
	case err != nil:
		return err
	}
	return exitStatus(status)
}

// makeRaw hands every key on as it is, if ours is a terminal.
func (v *visit) makeRaw() (restore func(), err error) {
	f, ok := v.c.stdin.(*os.File)
	if !ok || !isTerminal(f) {
		return func() {}, nil
	}
	old, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("prepare our terminal: %w", err)
	}
	v.raw = true
	return func() { _ = term.Restore(int(f.Fd()), old) }, nil // it was ours a moment ago
}

// follow attaches, and again after a broken connection.
func (v *visit) follow(ctx context.Context) (status int, err error) {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	typed := newTyped()
	go v.read(ctx, typed, leave)
	resized, quiet := watchSize()
	defer quiet()
	pause, lost := 100*time.Millisecond, time.Time{}
	for {
		at, err := v.s.Terminals().Attach(ctx, v.terminal)
		if err == nil {
			if !lost.IsZero() {
				v.say("back again")
				fmt.Fprint(v.c.stdout, "\x1b[H\x1b[2J") // the history shows all of it
			}
			pause, lost = 100*time.Millisecond, time.Time{}
			status, err = v.sit(ctx, at, typed, resized)
			at.Close()
			if err == nil {
				return status, nil
			}
		}
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case !passing(err):
			return 0, err
		case lost.IsZero():
			lost = time.Now()
			v.say("the connection is lost; trying again" + v.leaving())
		case time.Since(lost) > patience:
			return 0, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// passing reports whether a failure may be over soon: the server is away, or starts.
func passing(err error) bool {
	code := belljar.CodeOf(err)
	return code == belljar.CodeRuntimeUnavailable || code == belljar.CodeInternal || code == belljar.CodeRateLimited
}

// leaving says how to leave, to who sits at a terminal.
func (v *visit) leaving() string {
	if !v.raw {
		return ""
	}
	return "; " + strings.ReplaceAll(v.keys.names, ",", " ") + " leaves"
}

// say prints a line of ours between those of the terminal.
func (v *visit) say(text string) {
	if v.raw {
		fmt.Fprintf(v.c.Stderr, "\r\nbelljar: %s\r\n", notice.OneLine(text))
		return
	}
	v.c.Note("%s", text)
}

// sit passes on what is typed and what comes, through one attachment.
func (v *visit) sit(ctx context.Context, at belljar.Attachment, typed *typed, resized <-chan struct{}) (status int, err error) {
	ctx, done := context.WithCancelCause(ctx)
	defer done(nil)
	if size := v.c.terminalSize(); v.raw {
		if err := at.Resize(size.cols, size.rows); err != nil {
			return 0, err
		}
	}
	written := make(chan struct{})
	defer func() { <-written }()
	defer done(nil)
	go func() {
		defer close(written)
		done(v.pass(ctx, at, typed, resized))
	}()
	for {
		e, err := at.Next(ctx)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return 0, err
		}
		switch e.Kind {
		case belljar.TerminalHistory, belljar.TerminalOutput:
			v.modes.see(e.Data)
			if _, err := v.c.stdout.Write(e.Data); err != nil {
				return 0, fmt.Errorf("writing the terminal's output: %w", err)
			}
		case belljar.TerminalExit:
			return e.ExitCode, nil
		case belljar.TerminalReplaced:
			return 0, mistake("open it with --shared to let several people in", "another client has taken over the terminal")
		case belljar.TerminalOverflow:
			return 0, &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "too much output at once"} // come back to the history
		case belljar.TerminalClosed:
			return 0, over(e.Reason)
		}
	}
}

// over is the failure that a closed terminal is. That of a server which stops passes: the terminal lives on behind it.
func over(reason string) error {
	if reason == "shutdown" {
		return &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "the server stops"}
	}
	words := map[string]string{
		"closed": "it, or its session, was ended", "session": "its session has ended", "lost": "its sandbox is gone",
		"idle": "nothing was typed or shown for too long", "lifetime": "its time is over", "detached": "no client reattached in time",
	}
	if text, ok := words[reason]; ok {
		reason = text
	}
	return &belljar.Error{Code: belljar.CodeConflict, Message: strings.TrimSuffix("the terminal is closed: "+reason, ": ")}
}

// pass sends what is typed, and our size. It returns what ended it.
func (v *visit) pass(ctx context.Context, at belljar.Attachment, typed *typed, resized <-chan struct{}) error {
	for {
		var err error
		select {
		case <-typed.some:
			if b := typed.take(); len(b) > 0 {
				err = at.Write(ctx, b)
			}
			typed.sent()
		case <-resized:
			if size := v.c.terminalSize(); v.raw {
				err = at.Resize(size.cols, size.rows)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// read hands on what is typed until the keys that leave. The end of an input that is no terminal is the terminal's
// end-of-file character.
func (v *visit) read(ctx context.Context, typed *typed, leave context.CancelCauseFunc) {
	const endOfFile = "\x04"
	buf := make([]byte, 4096)
	for {
		n, err := v.c.stdin.Read(buf)
		keys, left := buf[:n], false
		if v.raw {
			keys, left = v.keys.filter(buf[:n])
		}
		if err != nil && !v.raw {
			keys = append(append([]byte{}, keys...), endOfFile...)
		}
		if len(keys) > 0 && !typed.add(ctx, keys, !v.raw) {
			return
		}
		switch {
		case left, errors.Is(err, io.EOF) && v.raw:
			typed.flush(ctx)
			leave(errDetached)
			return
		case err != nil:
			return
		}
	}
}

type windowSize struct{ cols, rows int }

// terminalSize is the size of our terminal, or the usual one.
func (c *console) terminalSize() windowSize {
	if f, ok := c.stdout.(*os.File); ok {
		if cols, rows, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 && rows > 0 {
			return windowSize{min(cols, 1000), min(rows, 1000)}
		}
	}
	return windowSize{80, 24}
}
