package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/notice"
)

// console is a command's connection to its environment. Notices for the user go to stderr; stdout carries the program's output, or
// the command's result.
type console struct {
	source string // of requests to a server, for its records and rules; "" is cli
	notice.Writer
	env     []string
	stdin   io.Reader
	stdout  io.Writer
	version string
	commit  string
	machine local.Machine // this machine
	server  server        // of the command line, if any
	image   string        // image that a local command needs; "" for none or host
	flags   []string      // flags of the command, as the user types them: --timeout, -m
	lines   bool          // --json prints an object a line
}

// exitStatus is the exit status of a command that has already reported its failure.
type exitStatus = interrupt.Status

// fail prints an error and its hint and returns the exit status for it.
func (c *console) fail(err error) int {
	if some, is := errors.AsType[*mistake.Some](err); is {
		for _, other := range some.Failed[:len(some.Failed)-1] {
			c.fail(other)
		}
	}
	fmt.Fprintf(c.Stderr, "belljar: %s\n", notice.OneLine(err.Error()))
	hint := belljar.HintOf(err)
	if belljar.CodeOf(err) == belljar.CodeUnauthorized { // the server's hint is about headers
		hint = "set BELLJAR_API_KEY or give --api-key-file, with a key of this server that is neither revoked nor expired"
	}
	var e *belljar.Error
	if errors.As(err, &e) && hint == "" && e.Details["request_id"] != nil {
		hint = fmt.Sprintf("the server's log says why, with request_id %v", e.Details["request_id"])
	}
	if hint != "" {
		fmt.Fprintf(c.Stderr, "hint: %s\n", notice.OneLine(hint))
	}
	return belljar.CodeOf(err).Info().Exit
}

// getenv returns a variable of the caller's environment and whether it is set.
func (c *console) getenv(name string) (string, bool) {
	w := local.Environment{Env: c.env}
	return w.Getenv(name)
}

// colour reports whether stdout is a terminal that supports colours (https://no-color.org).
func (c *console) colour() bool {
	if off, _ := c.getenv("NO_COLOR"); off != "" {
		return false
	}
	if kind, _ := c.getenv("TERM"); kind == "dumb" {
		return false
	}
	return show.IsTerminal(c.stdout)
}

// aside prints a note for people, if stdout is a terminal.
func (c *console) aside(format string, args ...any) {
	if show.IsTerminal(c.stdout) {
		c.Note(format, args...)
	}
}
