package cli

import (
	"context"

	"github.com/belljar/belljar/internal/local"
)

// serveCommand runs the daemon.
type serveCommand struct {
	Listen string            `placeholder:"ADDR" help:"Address to listen on: host:port or unix:/path (default 127.0.0.1:8080)."`
	Data   string            `placeholder:"DIR" help:"Data folder: records, logs, artifacts, secrets (default /var/lib/belljar for root, ~/.local/share/belljar for other users)."`
	Config string            `placeholder:"FILE" help:"YAML file with settings; belljar serve works without one."`
	Set    map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Any key of docs/config.md, such as max_concurrent_runs=4. Other users can read command lines, so secrets do not belong here. Repeatable."`
	JSON   bool              `name:"json" help:"When the server is ready, print its address as one line of JSON, with the API key if belljar made it."`

	Private bool `help:"Serve only the program that starts this command, on a socket in a folder of its own, until standard input ends."`
}

// Help is the text below the flags in --help.
func (serveCommand) Help() string {
	return `Examples:
  belljar serve
  belljar serve --listen 0.0.0.0:8080 --set tls_cert=cert.pem --set tls_key=key.pem
  SANDBOX_API_KEY=… belljar serve --data /srv/belljar

With --private the server listens on a Unix socket that only its user can reach, and on no port. It prints one line of JSON:
{"socket", "base_url", "api_key", "pid", "version"}. Its standard input must be a pipe; when the pipe ends, the server and
all its sandboxes end. Without --data it keeps nothing.

After a first SIGTERM or Ctrl-C, runs in progress have 30 seconds (drain_sec) to end; the server then cancels the rest. A second
one cancels them at once.`
}

// Run serves until a signal stops it.
func (s *serveCommand) Run(ctx context.Context, c *console) error {
	return c.machine.Serve(ctx, local.ServeOptions{Listen: s.Listen, Data: s.Data, Config: s.Config, Set: s.Set, JSON: s.JSON, Private: s.Private})
}
