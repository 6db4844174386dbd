package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"

	"github.com/belljar/belljar"
)

// How Belljar talks on a terminal: stdout belongs to the program, or to the answer of a command. Everything else goes
// to stderr, one line each, with a "belljar:" prefix, no capital at the start and no full stop at the end. Where there
// is a next thing to do, a "hint:" line says it.

// console is what a command has of the world outside.
type console struct {
	env    []string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	quiet  bool                    // no notes, only failures
	server server                  // that the command line asks, if any
	wants  string                  // the image that a command without a server is about; "" for none besides host
	flags  []string                // of the command, as they are written: --timeout, -m
	agent  func() (fs.File, error) // the program that runs inside every sandbox
}

// exitStatus is the exit status of a command that has already said what there was to say.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// fail prints an error and its hint and returns the exit status for it.
func (c *console) fail(err error) int {
	fmt.Fprintf(c.stderr, "belljar: %s\n", oneLine(err.Error()))
	hint := belljar.HintOf(err)
	if belljar.CodeOf(err) == belljar.CodeUnauthorized { // the server's hint is about headers
		hint = "set BELLJAR_API_KEY or give --api-key-file, with a key of this server that is neither revoked nor expired"
	}
	if hint != "" {
		fmt.Fprintf(c.stderr, "hint: %s\n", oneLine(hint))
	}
	return belljar.CodeOf(err).Info().Exit
}

// say prints a line of Belljar's own.
func (c *console) say(format string, args ...any) {
	fmt.Fprintf(c.stderr, "belljar: %s\n", oneLine(fmt.Sprintf(format, args...)))
}

// note prints a line that --quiet silences.
func (c *console) note(format string, args ...any) {
	if !c.quiet {
		c.say(format, args...)
	}
}

// hint prints what to do about the line before; --quiet silences it.
func (c *console) hint(format string, args ...any) {
	if !c.quiet {
		fmt.Fprintf(c.stderr, "hint: %s\n", oneLine(fmt.Sprintf(format, args...)))
	}
}

// getenv returns a variable of the caller's environment and whether it is set.
func (c *console) getenv(name string) (string, bool) {
	for i := len(c.env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(c.env[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// colour reports whether stdout is a terminal that wants colours (https://no-color.org).
func (c *console) colour() bool {
	if off, _ := c.getenv("NO_COLOR"); off != "" {
		return false
	}
	if kind, _ := c.getenv("TERM"); kind == "dumb" {
		return false
	}
	return isTerminal(c.stdout)
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// oneLine keeps a message on one line and free of terminal control, whatever names it quotes. It escapes characters that
// show nothing or reorder others, as \u202e, so that two names that differ look different. Emoji that join several show
// the escape too.
func oneLine(s string) string {
	var b strings.Builder
	for _, r := range strings.TrimRight(s, "\n") {
		switch {
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			b.WriteByte('?')
		case unseen(r) && r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		case unseen(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unseen reports whether a character shows nothing: a control of direction or format, a line separator, or a filler.
func unseen(r rune) bool {
	return r >= 0x80 && unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// mistake is a failure that is the caller's: a message and what to do about it.
func mistake(hint, format string, args ...any) error {
	return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...), Hint: hint}
}
