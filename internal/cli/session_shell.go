package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/cli/terminal"
)

// sessionShell is belljar session shell.
type sessionShell struct {
	ID      string `arg:"" name:"session" help:"The session: its id, or the beginning of it."`
	Program struct {
		Args []string `arg:"" optional:"" passthrough:"partial" name:"cmd" help:"Command of a new terminal (default: a shell)."`
	} `embed:""`

	Attach     string `short:"a" placeholder:"TERMINAL" help:"Reattach to a terminal; last is the newest."`
	List       bool   `short:"l" help:"List the session's terminals."`
	Name       string `placeholder:"NAME" help:"Name of a new terminal."`
	Shared     bool   `help:"Let several people type in a new terminal."`
	DetachKeys string `default:"ctrl-p,ctrl-q" placeholder:"KEYS" help:"Keys that detach from the terminal (default ctrl-p,ctrl-q)."`
	JSON       bool   `name:"json" help:"With --list: print one JSON array."`
	Quiet      bool   `short:"q" help:"Print none of belljar's notes, only its errors."`
}

func (x *sessionShell) Help() string {
	return `Ctrl-P Ctrl-Q, or a lost connection, detaches from the terminal. Its program keeps running: --attach reattaches. Ctrl-C
and every other key goes to the program.

Examples:
  belljar session shell 01a1fe25-cb55
  belljar session shell 01a1fe25-cb55 --attach last
  belljar session shell 01a1fe25-cb55 -- python3 -i`
}

// Run opens a terminal, or reattaches to one.
func (x *sessionShell) Run(ctx context.Context, c *console) error {
	c.Quiet = x.Quiet
	return c.remote(func(s belljar.Service) error {
		keys, err := terminal.ParseKeys(x.DetachKeys)
		if err == nil {
			err = x.check()
		}
		if err != nil {
			return err
		}
		id, err := ident.Session(ctx, s, x.ID)
		if err != nil {
			return err
		}
		if x.List {
			return x.list(ctx, c, s, id)
		}
		cols, rows := terminal.Size(c.stdout)
		var at belljar.Terminal
		if x.Attach != "" {
			at, err = ident.Terminal(ctx, s, id, x.Attach)
		} else {
			args := x.Program.Args
			if len(args) > 0 && args[0] == "--" {
				args = args[1:]
			}
			at, err = s.Terminals().Open(ctx, id, belljar.TerminalSpec{
				Cols: cols, Rows: rows, Command: args, Name: x.Name, Shared: x.Shared,
			})
		}
		if err != nil {
			return err
		}
		v := terminal.Attachment{Terminals: s.Terminals(), ID: at.ID, Keys: keys, Stdin: c.stdin, Stdout: c.stdout, Notice: &c.Writer}
		status, err := v.Run(ctx)
		switch {
		case errors.Is(err, terminal.ErrDetached):
			c.Note("left the terminal, which lives on")
			c.Hint("belljar session shell %s --attach %s", x.ID, at.ID)
			return nil
		case err != nil:
			return err
		}
		return exitStatus(status)
	})
}

// check refuses flags that would do nothing.
func (x *sessionShell) check() error {
	fresh := len(x.Program.Args) > 0 || x.Name != "" || x.Shared
	switch {
	case x.List && (fresh || x.Attach != ""):
		return mistake.New("", "--list opens no terminal, so --attach, --name, --shared and a command do not go with it")
	case x.Attach != "" && fresh:
		return mistake.New("leave them out, or --attach", "--name, --shared and a command are for a new terminal, --attach for one that exists")
	case x.JSON && !x.List:
		return mistake.New("belljar session exec --json has the outcome of a command", "--json goes with --list only")
	}
	return nil
}

func (x *sessionShell) list(ctx context.Context, c *console, s belljar.Service, id string) error {
	all, err := s.Terminals().List(ctx, id)
	if err != nil {
		return err
	}
	return show.List(c.stdout, x.JSON, all, "TERMINAL NAME COMMAND STATE AGE", func(t belljar.Terminal) []string {
		state := fmt.Sprintf("%d attached", t.Attached)
		if t.Attached == 0 && !t.DetachedAt.IsZero() {
			state = "left " + show.RoughDuration(time.Since(t.DetachedAt)) + " ago"
		}
		return []string{t.ID, t.Name, show.Command(t.Command), state, show.RoughDuration(time.Since(t.CreatedAt))}
	})
}
