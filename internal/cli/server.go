package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/belljar/belljar/internal/cli/mistake"
)

// server is the server that a command line asks, and as whom. The zero value is none: this machine.
type server struct {
	url string
	key string
}

func (s server) given() bool { return s.url != "" }

// hereOnly are the commands that look at this machine only.
func hereOnly() []string {
	return []string{"serve", "doctor", "bench", "completion", "version", "help"}
}

// choose finds out which server is meant: by flag, by BELLJAR_SERVER, or none. The key comes from a file or from
// BELLJAR_API_KEY, never from the command line, which everybody on this machine can read.
func (c *console) choose(parsed *kong.Context, grammar any) error {
	url, keyFile := textOf(grammar, "Server"), textOf(grammar, "APIKeyFile")
	name, _, _ := strings.Cut(parsed.Command(), " ")
	if slices.Contains(hereOnly(), name) {
		if url != "" || keyFile != "" {
			return mistake.New("", "%s looks at this machine only, --server does not go with it", name)
		}
		return nil
	}
	c.server.url = url
	if c.server.url == "" {
		c.server.url, _ = c.getenv("BELLJAR_SERVER")
	}
	if keyFile == "" {
		c.server.key, _ = c.getenv("BELLJAR_API_KEY")
		return nil
	}
	if !c.server.given() {
		return mistake.New("name the server with --server or BELLJAR_SERVER", "--api-key-file without a server")
	}
	raw, err := os.ReadFile(keyFile)
	if err != nil {
		return mistake.New("", "--api-key-file %s: %s", keyFile, mistake.Reason(err))
	}
	if c.server.key = strings.TrimSpace(string(raw)); c.server.key == "" {
		return mistake.New("", "--api-key-file %s: is empty", keyFile)
	}
	return nil
}
