package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/internal/local"
)

// lspCommand is belljar lsp.
type lspCommand struct {
	Stdio bool `help:"Speak on standard input and output: the only way there is, and the default."`
}

func (lspCommand) Help() string {
	return `An editor starts this command and speaks the Language Server Protocol with it. The command runs files and tests of the
editor's folders in sandboxes, and shows where they fail. No server is needed; with --server or BELLJAR_SERVER the sandboxes
are on that server, and the key comes from BELLJAR_API_KEY. Settings for editors: docs/ide.md.

Examples:
  belljar lsp
  belljar lsp --server https://belljar.example.com`
}

// Run serves the editor.
func (lspCommand) Run(ctx context.Context, c *console) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	c.image = local.HostImage // runs may ask for other images
	c.source = "IDE"
	in := c.stdin
	if in == nil {
		in = strings.NewReader("")
	}
	url := c.server.url
	if strings.HasPrefix(url, "unix:") {
		url = "" // it has no web page to open
	}
	err := c.machine.ServeEditor(ctx, local.Editor{
		Open: func() (*local.Engine, error) { return c.open("", true) }, OnRetry: client.OnRetry, URL: strings.TrimRight(url, "/"), In: in, Out: c.stdout,
	})
	if errors.Is(err, local.ErrNoShutdown) {
		return exitStatus(1) // as the protocol requires
	}
	return err
}
