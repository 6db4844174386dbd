package cli

import (
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/belljar/belljar/internal/cli/completion"
)

// completionCommand is belljar completion SHELL.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (completionCommand) Help() string {
	return `Examples:
  source <(belljar completion bash)                                   in .bashrc
  source <(belljar completion zsh)                                    in .zshrc, after compinit
  belljar completion fish > ~/.config/fish/completions/belljar.fish`
}

// Run prints the script. It comes from the grammar, so it is always up to date.
func (s *completionCommand) Run(c *console, parsed *kong.Context) error {
	_, err := fmt.Fprint(c.stdout, completion.Script(s.Shell, parsed.Model.Node))
	return err
}
