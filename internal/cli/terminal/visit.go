// Package terminal is a person at a terminal of a session: their keys, their screen, and a connection that may break.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/notice"
	"golang.org/x/term"
)

// Visit is a person at a terminal: from attaching to leaving, whatever happens to the connection meanwhile.
type Visit struct {
	Terminals belljar.Terminals
	ID        string // of the terminal
	Keys      Keys   // that leave it
	Stdin     io.Reader
	Stdout    io.Writer
	Notice    *notice.Writer

	raw   bool  // our own terminal passes everything on
	modes modes // that the program has turned on in it
}

// ErrLeft says that the person has left the terminal, which lives on.
var ErrLeft = errors.New("left the terminal")

// patience is how long a visit waits for a server that is gone.
const patience = 2 * time.Minute

// Run attaches until the person leaves, which is [ErrLeft], or the program ends, and returns its exit status.
func (v *Visit) Run(ctx context.Context) (status int, err error) {
	restore, err := v.makeRaw()
	if err != nil {
		return 0, err
	}
	status, err = v.follow(ctx)
	restore()
	if v.raw && show.IsTerminal(v.Stdout) {
		_, _ = v.Stdout.Write(v.modes.undo()) // who cannot be shown it has no need of it
	}
	return status, err
}

// makeRaw hands every key on as it is, if ours is a terminal.
func (v *Visit) makeRaw() (restore func(), err error) {
	f, ok := v.Stdin.(*os.File)
	if !ok || !show.IsTerminal(f) {
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
func (v *Visit) follow(ctx context.Context) (status int, err error) {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	typed := newTyped()
	go v.read(ctx, typed, leave)
	resized, quiet := watchSize()
	defer quiet()
	pause, lost := 100*time.Millisecond, time.Time{}
	for {
		at, err := v.Terminals.Attach(ctx, v.ID)
		if err == nil {
			if !lost.IsZero() {
				v.say("back again")
				fmt.Fprint(v.Stdout, "\x1b[H\x1b[2J") // the history shows all of it
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
func (v *Visit) leaving() string {
	if !v.raw {
		return ""
	}
	return "; " + strings.ReplaceAll(v.Keys.names, ",", " ") + " leaves"
}

// say prints a line of ours between those of the terminal.
func (v *Visit) say(text string) {
	if v.raw {
		fmt.Fprintf(v.Notice.Stderr, "\r\nbelljar: %s\r\n", notice.OneLine(text))
		return
	}
	v.Notice.Note("%s", text)
}

// sit passes on what is typed and what comes, through one attachment.
func (v *Visit) sit(ctx context.Context, at belljar.Attachment, typed *typed, resized <-chan struct{}) (status int, err error) {
	ctx, done := context.WithCancelCause(ctx)
	defer done(nil)
	if cols, rows := Size(v.Stdout); v.raw {
		if err := at.Resize(cols, rows); err != nil {
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
			if _, err := v.Stdout.Write(e.Data); err != nil {
				return 0, fmt.Errorf("writing the terminal's output: %w", err)
			}
		case belljar.TerminalExit:
			return e.ExitCode, nil
		case belljar.TerminalReplaced:
			return 0, mistake.New("open it with --shared to let several people in", "another client has taken over the terminal")
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
func (v *Visit) pass(ctx context.Context, at belljar.Attachment, typed *typed, resized <-chan struct{}) error {
	for {
		var err error
		select {
		case <-typed.some:
			if b := typed.take(); len(b) > 0 {
				err = at.Write(ctx, b)
			}
			typed.sent()
		case <-resized:
			if cols, rows := Size(v.Stdout); v.raw {
				err = at.Resize(cols, rows)
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
func (v *Visit) read(ctx context.Context, typed *typed, leave context.CancelCauseFunc) {
	const endOfFile = "\x04"
	buf := make([]byte, 4096)
	leaving := detacher{keys: v.Keys.typed}
	for {
		n, err := v.Stdin.Read(buf)
		keys, left := buf[:n], false
		if v.raw {
			keys, left = leaving.filter(buf[:n])
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
			leave(ErrLeft)
			return
		case err != nil:
			return
		}
	}
}

// Size is the size of the terminal that out is, or the usual one.
func Size(out io.Writer) (cols, rows int) {
	if f, ok := out.(*os.File); ok {
		if cols, rows, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 && rows > 0 {
			return min(cols, 1000), min(rows, 1000)
		}
	}
	return 80, 24
}
