// Package terminal attaches the user's terminal to a terminal of a session, and reattaches after a broken connection.
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
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/notice"
	"golang.org/x/term"
)

// Attachment is one use of a terminal: from attaching to detaching, across broken connections.
type Attachment struct {
	Terminals belljar.Terminals
	ID        string // of the terminal
	Keys      Keys   // detach sequence
	Stdin     io.Reader
	Stdout    io.Writer
	Notice    *notice.Writer

	raw   bool  // the user's terminal is in raw mode
	modes modes // that the program has turned on
}

// ErrDetached means that the user has detached; the terminal continues.
var ErrDetached = errors.New("left the terminal")

// reconnectTimeout limits the retries to reach an unavailable server.
const reconnectTimeout = 2 * time.Minute

// Run attaches until the user detaches, which returns [ErrDetached], or the program ends, which returns its exit status.
func (v *Attachment) Run(ctx context.Context) (status int, err error) {
	restore, err := v.makeRaw()
	if err != nil {
		return 0, err
	}
	ctx, stopped := interrupt.Context(ctx) // a signal must not leave the terminal raw
	status, err = v.follow(ctx)
	err = stopped(err)
	restore()
	if v.raw && show.IsTerminal(v.Stdout) {
		_, _ = v.Stdout.Write(v.modes.undo()) // an output that is closed needs no restore
	}
	return status, err
}

// makeRaw puts the user's terminal, if stdin is one, into raw mode.
func (v *Attachment) makeRaw() (restore func(), err error) {
	f, ok := v.Stdin.(*os.File)
	if !ok || !show.IsTerminal(f) {
		return func() {}, nil
	}
	old, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("prepare our terminal: %w", err)
	}
	v.raw = true
	return func() { _ = term.Restore(int(f.Fd()), old) }, nil // best effort
}

// follow attaches, and reattaches after a broken connection.
func (v *Attachment) follow(ctx context.Context) (status int, err error) {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	typed := newTyped()
	go v.read(ctx, typed, leave)
	resized, quiet := watchSize()
	defer quiet()
	pause, lost, attached := 100*time.Millisecond, time.Time{}, false
	for {
		at, err := v.Terminals.Attach(ctx, v.ID)
		if err == nil {
			attached = true
			if !lost.IsZero() {
				v.say("back again")
				fmt.Fprint(v.Stdout, "\x1b[H\x1b[2J") // the history repaints the screen
			}
			pause, lost = 100*time.Millisecond, time.Time{}
			status, err = v.relay(ctx, at, typed, resized)
			at.Close()
			if err == nil {
				return status, nil
			}
		}
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case !temporary(err), !attached && belljar.CodeOf(err) == belljar.CodeInternal: // for example, behind a proxy that does not pass WebSockets
			return 0, err
		case lost.IsZero():
			lost = time.Now()
			v.say("the connection is lost; trying again" + v.detachHint())
		case time.Since(lost) > reconnectTimeout:
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

// temporary reports whether a failure is temporary: the server is unavailable or starting.
func temporary(err error) bool {
	code := belljar.CodeOf(err)
	return code == belljar.CodeRuntimeUnavailable || code == belljar.CodeInternal || code == belljar.CodeRateLimited
}

// detachHint returns a message on how to detach, for users at a terminal.
func (v *Attachment) detachHint() string {
	if !v.raw {
		return ""
	}
	return "; " + strings.ReplaceAll(v.Keys.names, ",", " ") + " leaves"
}

// say prints a message on its own line.
func (v *Attachment) say(text string) {
	if v.raw {
		fmt.Fprintf(v.Notice.Stderr, "\r\nbelljar: %s\r\n", notice.OneLine(text))
		return
	}
	v.Notice.Note("%s", text)
}

// relay copies input and output through one attachment.
func (v *Attachment) relay(ctx context.Context, at belljar.Attachment, typed *typed, resized <-chan struct{}) (status int, err error) {
	ctx, done := context.WithCancelCause(ctx)
	defer done(nil)
	if cols, rows := Size(v.Stdout); v.raw {
		if err := accepted(at.Resize(cols, rows)); err != nil {
			return 0, err
		}
	}
	written := make(chan struct{})
	defer func() { <-written }()
	defer done(nil)
	go func() {
		defer close(written)
		done(v.sendInput(ctx, at, typed, resized))
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
				return 0, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "writing the terminal's output", Err: err} // not temporary
			}
		case belljar.TerminalExit:
			return e.ExitCode, nil
		case belljar.TerminalReplaced:
			return 0, mistake.New("open it with --shared to let several people in", "another client has replaced this one at the terminal")
		case belljar.TerminalOverflow:
			return 0, &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "too much output at once"} // reattach and read the history
		case belljar.TerminalClosed:
			return 0, closedError(e.Reason)
		}
	}
}

// closedError returns the error for a closed terminal. If the server is stopping, the error is temporary: the terminal outlives it.
func closedError(reason string) error {
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

// sendInput sends input and terminal sizes. It returns the error that ended it.
func (v *Attachment) sendInput(ctx context.Context, at belljar.Attachment, typed *typed, resized <-chan struct{}) error {
	for {
		var err error
		select {
		case <-typed.ready:
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
		if err = accepted(err); err != nil {
			return err
		}
	}
}

// accepted returns the error of an input. It is nil if the attachment has ended, because Next reports why.
func accepted(err error) error {
	if belljar.CodeOf(err) == belljar.CodeConflict {
		return nil
	}
	return err
}

// read buffers input until the detach sequence. If the input is not a terminal, its end is sent as the terminal's end-of-file
// character until the program ends: a line editor loses what comes before its prompt.
func (v *Attachment) read(ctx context.Context, typed *typed, leave context.CancelCauseFunc) {
	const endOfFile = "\x04"
	buf := make([]byte, 4096)
	detach := detacher{keys: v.Keys.typed}
	for {
		n, err := v.Stdin.Read(buf)
		keys, left := buf[:n], false
		if v.raw {
			keys, left = detach.filter(buf[:n])
		}
		if len(keys) > 0 && !typed.add(ctx, keys, !v.raw) {
			return
		}
		switch {
		case left, errors.Is(err, io.EOF) && v.raw:
			typed.flush(ctx)
			leave(ErrDetached)
			return
		case err != nil && v.raw:
			return
		case err != nil:
			for pause := 50 * time.Millisecond; typed.add(ctx, []byte(endOfFile), true); pause = min(2*pause, time.Second) {
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
			}
			return
		}
	}
}

// Size returns the size of the terminal that out is, or the default size.
func Size(out io.Writer) (cols, rows int) {
	if f, ok := out.(*os.File); ok {
		if cols, rows, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 && rows > 0 {
			return min(cols, 1000), min(rows, 1000)
		}
	}
	return 80, 24
}
