package repl

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/belljar/belljar/internal/cli/interrupt"
)

// typed reads input from a terminal. The terminal is raw only while a line is read, so that an interrupt reaches running
// code.
type typed struct {
	fd       int
	keys     *keys
	shown    io.Writer
	terminal *term.Terminal
	history  *history
}

// keys are the typed keys. Ctrl-C would end the input of [term.Terminal]; here it ends the line.
type keys struct {
	r           io.Reader
	rest        []byte
	interrupted bool // the last line is to be discarded
}

const (
	interruptKey = "\x03"
	endKey       = "\x04"
	endLine      = "\x05\r" // to the end of the line, and Enter
)

func (k *keys) Read(p []byte) (int, error) {
	if len(k.rest) == 0 {
		n, err := k.r.Read(p)
		if err != nil {
			return n, err
		}
		k.rest = slices.Clone(p[:n])
	}
	if after, found := bytes.CutPrefix(k.rest, []byte(interruptKey)); found {
		k.rest, k.interrupted = after, true
		return copy(p, endLine), nil
	}
	n := len(k.rest)
	if i := bytes.IndexAny(k.rest, interruptKey+endKey); i >= 0 {
		n = max(i, 1) // Ctrl-D comes alone, because [typed.restart] drops what comes with it
	}
	n = copy(p, k.rest[:n])
	k.rest = k.rest[n:]
	return n, nil
}

// restart sets a new terminal, with the history and the completion of the one before it.
func (t *typed) restart() {
	before := t.terminal
	t.terminal = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{t.keys, t.shown}, "")
	if before != nil {
		t.terminal.History, t.terminal.AutoCompleteCallback = before.History, before.AutoCompleteCallback
	}
}

func (t *typed) read(prompt string) (string, error) {
	return t.raw(func() (string, error) {
		t.terminal.SetPrompt(prompt)
		return t.terminal.ReadLine()
	})
}

// answer reads without the history and the completion of code, because the input of a program is not code.
func (t *typed) answer() (string, error) {
	history, complete := t.terminal.History, t.terminal.AutoCompleteCallback
	t.terminal.History, t.terminal.AutoCompleteCallback = openHistory(""), nil
	defer func() { t.terminal.History, t.terminal.AutoCompleteCallback = history, complete }()
	return t.read("")
}

func (t *typed) password() (string, error) {
	return t.raw(func() (string, error) { return t.terminal.ReadPassword("") })
}

func (t *typed) raw(read func() (string, error)) (string, error) {
	before, err := term.MakeRaw(t.fd)
	if err != nil {
		return "", err
	}
	defer term.Restore(t.fd, before)
	if cols, rows, err := term.GetSize(t.fd); err == nil && cols > 0 && rows > 0 { // on failure the size stays the default
		_ = t.terminal.SetSize(cols, rows)
	}
	t.terminal.SetBracketedPasteMode(true)
	defer t.terminal.SetBracketedPasteMode(false)
	line, err := unlessSignalled(read)
	var status interrupt.Status
	switch {
	case errors.As(err, &status):
	case t.keys.interrupted:
		t.keys.interrupted, line, err = false, "", errInterrupt
	case errors.Is(err, term.ErrPasteIndicator):
		err = errPasted
	case errors.Is(err, io.EOF): // the terminal keeps Ctrl-D, which would end the next line too
		t.restart()
	}
	return line, err
}

// unlessSignalled reads until a signal ends the command, so that the caller can restore the terminal and end the session.
func unlessSignalled(read func() (string, error)) (string, error) {
	type result struct {
		line string
		err  error
	}
	ctx, stopped := interrupt.Context(context.Background())
	got := make(chan result, 1)
	go func() {
		line, err := read()
		got <- result{line, err}
	}()
	select {
	case r := <-got:
		return r.line, stopped(r.err)
	case <-ctx.Done():
		return "", stopped(ctx.Err())
	}
}

func (t *typed) close() error { return t.history.close() }

// mostHistory limits the number of kept lines.
const mostHistory = 1000

// history holds the typed lines, also of earlier sessions.
type history struct {
	lines []string // oldest first
	file  *os.File // nil for none
}

// openHistory reads the history from a file that only its owner can read. An empty name means no file.
func openHistory(name string) *history {
	h := &history{}
	if name == "" || os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return h
	}
	if raw, err := os.ReadFile(name); err == nil {
		for line := range strings.Lines(string(raw)) {
			h.lines = append(h.lines, strings.TrimSuffix(line, "\n"))
		}
		if len(h.lines) > 2*mostHistory {
			h.lines = h.lines[len(h.lines)-mostHistory:]
			_ = os.WriteFile(name, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600) // on failure the file stays long
		}
	}
	h.file, _ = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return h
}

// Add implements [term.History].
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if h.file != nil {
		_, _ = h.file.WriteString(line + "\n") // on failure the line is lost
	}
}

// Len implements [term.History].
func (h *history) Len() int { return len(h.lines) }

// At implements [term.History]: 0 is the newest.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

func (h *history) close() error {
	if h.file == nil {
		return nil
	}
	return h.file.Close()
}
