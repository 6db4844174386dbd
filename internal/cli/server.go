package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/belljar/belljar/internal/cli/mistake"
)

// server is the server to use, with its credentials. The zero value means this machine.
type server struct {
	url string
	key string
}

func (s server) given() bool { return s.url != "" }

// localOnly lists the commands that only examine this machine.
func localOnly() []string {
	return []string{"serve", "doctor", "bench", "completion", "version", "help"}
}

// choose selects the server: by flag, by BELLJAR_SERVER, or none. The key comes from a file or from BELLJAR_API_KEY, never from
// the command line, which every user of this machine can read.
func (c *console) choose(parsed *kong.Context, grammar any) error {
	url, keyFile := textOf(grammar, "Server"), textOf(grammar, "APIKeyFile")
	name, _, _ := strings.Cut(parsed.Command(), " ")
	if slices.Contains(localOnly(), name) {
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
