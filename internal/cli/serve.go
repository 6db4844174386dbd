package cli

import (
	"context"

	"github.com/belljar/belljar/internal/local"
)

// serveCommand runs the daemon.
type serveCommand struct {
	Listen string            `placeholder:"ADDR" help:"Address to listen on: host:port or unix:/path (default 127.0.0.1:8080)."`
	Data   string            `placeholder:"DIR" help:"Folder of this installation: records, logs, artifacts, secrets (default /var/lib/belljar, or not as root ~/.local/share/belljar)."`
	Config string            `placeholder:"FILE" help:"YAML file with settings; belljar serve works without one."`
	Set    map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Any key of docs/config.md, such as max_concurrent_runs=4. May be repeated."`
	JSON   bool              `name:"json" help:"Say what is served as one line of JSON on stdout, when it is ready. It has the API key if this start has made one."`

	Private bool `help:"Serve the one program that has started this one: on a socket in a folder of its own, until standard input ends."`
}

// Help is what --help shows below the flags.
func (serveCommand) Help() string {
	return `Examples:
  belljar serve
  belljar serve --listen 0.0.0.0:8080 --set tls_cert=cert.pem --set tls_key=key.pem
  SANDBOX_API_KEY=… belljar serve --data /srv/belljar

With --private it listens on a Unix socket that only its user can reach, never on a port, says where as one line of JSON
({"socket", "base_url", "api_key", "pid", "version"}), and ends with all that runs when its standard input does, which must
be a pipe. Without --data it forgets everything then.

The first SIGTERM or Ctrl-C lets current runs end within 30 seconds (drain_sec) and cancels the rest; a second one does not wait.`
}

// Run serves until a signal stops it.
func (s *serveCommand) Run(ctx context.Context, c *console) error {
	return c.machine.Serve(ctx, local.ServeOptions{Listen: s.Listen, Data: s.Data, Config: s.Config, Set: s.Set, JSON: s.JSON, Private: s.Private})
}
