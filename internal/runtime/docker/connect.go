package docker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"
)

// connect makes a client for the engine at host; "" as [Options.Host] says. It does not speak to it.
func connect(host string) (*client.Client, string, error) {
	if host == "" {
		host = os.Getenv(client.EnvOverrideHost)
	}
	if host == "" {
		host = usual()
	}
	if strings.HasPrefix(host, "ssh://") {
		return nil, "", errors.New("an engine cannot be reached over ssh: forward its socket (ssh -L /tmp/engine.sock:/var/run/docker.sock HOST) and give unix:///tmp/engine.sock")
	}
	api, err := client.New(client.WithTLSClientConfigFromEnv(), client.WithHost(host), client.WithUserAgent("belljar"))
	if err != nil {
		return nil, "", fmt.Errorf("engine at %q: %w", host, err)
	}
	return api, host, nil
}

// usual is where an engine has its socket if nobody says otherwise: the machine's, or else the one that this user runs.
func usual() string {
	if !strings.HasPrefix(client.DefaultDockerHost, "unix://") {
		return client.DefaultDockerHost
	}
	places := []string{strings.TrimPrefix(client.DefaultDockerHost, "unix://")}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		places = append(places, filepath.Join(dir, "docker.sock")) // a rootless engine's
	}
	if home, err := os.UserHomeDir(); err == nil {
		places = append(places, filepath.Join(home, ".docker", "run", "docker.sock")) // Docker Desktop's
	}
	for _, place := range places {
		if _, err := os.Stat(place); err == nil {
			return "unix://" + place
		}
	}
	return client.DefaultDockerHost
}

// local tells whether the engine may be on this machine, so that its containers may be processes of ours to look at.
func (r *Runtime) local() bool { return strings.HasPrefix(r.host, "unix://") }
