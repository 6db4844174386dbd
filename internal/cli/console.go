package cli

import (
	"fmt"
	"io"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/notice"
)

// console is what a command has of the world outside. Notices to the person at the terminal go through its writer, to stderr;
// stdout belongs to the program, or to the answer of a command.
type console struct {
	notice.Writer
	env     []string
	stdin   io.Reader
	stdout  io.Writer
	version string
	commit  string
	machine local.Machine // that this process runs on
	server  server        // that the command line asks, if any
	wants   string        // the image that a command without a server is about; "" for none besides host
	flags   []string      // of the command, as they are written: --timeout, -m
}

// exitStatus is the exit status of a command that has already said what there was to say.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// fail prints an error and its hint and returns the exit status for it.
func (c *console) fail(err error) int {
	fmt.Fprintf(c.Stderr, "belljar: %s\n", notice.OneLine(err.Error()))
	hint := belljar.HintOf(err)
	if belljar.CodeOf(err) == belljar.CodeUnauthorized { // the server's hint is about headers
		hint = "set BELLJAR_API_KEY or give --api-key-file, with a key of this server that is neither revoked nor expired"
	}
	if hint != "" {
		fmt.Fprintf(c.Stderr, "hint: %s\n", notice.OneLine(hint))
	}
	return belljar.CodeOf(err).Info().Exit
}

// getenv returns a variable of the caller's environment and whether it is set.
func (c *console) getenv(name string) (string, bool) {
	w := local.World{Env: c.env}
	return w.Getenv(name)
}

// colour reports whether stdout is a terminal that wants colours (https://no-color.org).
func (c *console) colour() bool {
	if off, _ := c.getenv("NO_COLOR"); off != "" {
		return false
	}
	if kind, _ := c.getenv("TERM"); kind == "dumb" {
		return false
	}
	return show.IsTerminal(c.stdout)
}

// aside prints a note for people. It prints nothing where stdout is a pipe.
func (c *console) aside(format string, args ...any) {
	if show.IsTerminal(c.stdout) {
		c.Note(format, args...)
	}
}
