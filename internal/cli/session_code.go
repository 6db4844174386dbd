package cli

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/program"
	"github.com/belljar/belljar/internal/cli/repl"
)

// sessionCode is belljar session code.
type sessionCode struct {
	ID      string  `arg:"" name:"session" help:"The session: its id, or the beginning of it."`
	File    string  `arg:"" optional:"" name:"file" help:"File with the code (default, and -: standard input)."`
	Code    *string `group:"what" short:"c" empty:"" placeholder:"TEXT" help:"Execute this text instead of a file."`
	Context string  `group:"what" placeholder:"NAME" help:"Name of the context (default: the language's own)."`
	Lang    string  `group:"what" placeholder:"EXT" help:"Language: py, ipython, js or sh (default py, or that of the file's extension)."`
	Replay  bool    `group:"what" help:"If the context has lost its interpreter, execute its earlier code again first."`
	timeFlags
	outcomeFlags
}

func (x *sessionCode) Help() string {
	return `A context is an interpreter that lives as long as the session: variables, functions and imports stay from one call to
the next. The value of the last expression is printed as well. --json has the results in all their forms, pictures too.

Examples:
  belljar session code 01a1fe25-cb55 -c 'x = 41'
  belljar session code 01a1fe25-cb55 -c 'x + 1'             prints 42
  belljar session code 01a1fe25-cb55 --lang js -c 'let y = 1'
  belljar session code 01a1fe25-cb55 --context model train.py`
}

// Run executes code.
func (x *sessionCode) Run(ctx context.Context, c *console) error {
	run := &runCommand{snippet: &repl.Snippet{}}
	run.timeFlags, run.outcomeFlags = x.timeFlags, x.outcomeFlags
	err := c.remote(func(s belljar.Service) (err error) {
		if run.snippet, err = repl.ReadSnippet(x.Code, x.File, x.Context, x.Lang, c.stdin); err != nil {
			return err
		}
		run.snippet.Replay = x.Replay
		run.session, err = ident.Session(ctx, s, x.ID)
		return err
	})
	if err != nil {
		return err
	}
	return run.Run(ctx, c)
}

// reading returns the program of the command line; none for code in a context. Code read from standard input leaves the
// run no input.
func (r *runCommand) reading(ctx context.Context, c *console) (program.Program, error) {
	if r.snippet != nil {
		return program.Program{Stdin: true}, nil
	}
	asked := r.asked(c)
	prog, err := asked.Read(ctx)
	if err != nil {
		return prog, err
	}
	if stray := asked.StrayFlag(c.flags); stray != "" {
		c.Note("%s", stray)
	}
	return prog, nil
}

// shown returns the results that a frame completes, as lines.
func (s *streams) shown(f belljar.Frame) (lines []byte) {
	for _, r := range s.results.Add(f) {
		if text := repl.Text(r); text != "" {
			lines = append(append(lines, text...), '\n')
		}
	}
	return lines
}
