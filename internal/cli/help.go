package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// errHelpShown ends parsing after --help.
var errHelpShown = errors.New("help shown")

// helpFlag is --help, on every command.
type helpFlag bool

// BeforeReset prints the help of the command parsed so far, before anything is checked.
func (helpFlag) BeforeReset(parsed *kong.Context) error {
	if err := parsed.PrintUsage(false); err != nil {
		return err
	}
	if parsed.Command() == "" {
		fmt.Fprint(parsed.Stdout, examples)
	}
	return errHelpShown
}

// printHelp prints kong's help with two changes: flags precede the program, because later ones belong to the program, and a
// command that only examines this machine shows no server flags.
func printHelp(o kong.HelpOptions, parsed *kong.Context) error {
	name, _, _ := strings.Cut(parsed.Command(), " ")
	if slices.Contains(localOnly(), name) {
		for _, flag := range parsed.Model.Flags {
			flag.Hidden = flag.Hidden || flag.Group != nil && flag.Group.Key == "server"
		}
	}
	var text strings.Builder
	to := parsed.Stdout
	parsed.Stdout = &text
	err := kong.DefaultHelpPrinter(o, parsed)
	parsed.Stdout = to
	if err != nil {
		return err
	}
	usage := strings.NewReplacer("[<program> ...] [flags]", "[flags] [<program> ...]", "[<cmd> ...] [flags]", "[flags] [<cmd> ...]")
	_, err = io.WriteString(to, usage.Replace(text.String()))
	return err
}

const examples = `
Examples:
  belljar run hello.py                                 a file; its extension selects the interpreter
  belljar run --memory 1g --timeout 5m train.py data   flags before the file, arguments after it
  belljar run -- sh -c 'id; ls -la'                    any command of the image
  belljar run --file data.csv --capture '*.png' --out plots plot.py
  cat untrusted.js | belljar run --lang js -           a program from standard input
  belljar doctor                                       which protections this host enforces
  belljar serve                                        a server; then, with BELLJAR_SERVER and BELLJAR_API_KEY set:
  belljar run hello.py                                 the program runs on the server
  belljar ps --all                                     all runs on the server
`

// helpCommand is belljar help [command].
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command."`
}

// Run prints the same as belljar [command] --help.
func (h *helpCommand) Run(ctx context.Context, c *console) error {
	if status := c.run(ctx, append(h.Command, "--help")); status != 0 {
		return exitStatus(status)
	}
	return nil
}
