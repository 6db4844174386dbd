package docker

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"

	"github.com/belljar/belljar/internal/runtime"
)

// connect makes a client for the engine at host; for "" see [Options.Host]. It sends nothing. If it fails, it also returns a
// hint.
func connect(host string) (*client.Client, string, error) {
	if host == "" {
		host = os.Getenv(client.EnvOverrideHost)
	}
	if host == "" {
		host = usual()
	}
	if strings.HasPrefix(host, "ssh://") {
		return nil, host, &runtime.StepError{
			Step: stepEngine, Err: fmt.Errorf("an engine cannot be reached over ssh, as %s requires", host),
			Hint: "forward its socket (ssh -L /tmp/engine.sock:/var/run/docker.sock HOST), and set SANDBOX_DOCKER_HOST=unix:///tmp/engine.sock",
		}
	}
	tls := tlsOption()
	if !strings.HasPrefix(host, "tcp://") {
		tls = nil
	}
	api, err := client.New(tls, client.WithHost(host), client.WithUserAgent("belljar"))
	switch {
	case err != nil && tls != nil && strings.Contains(err.Error(), "configure TLS"):
		return nil, host, &runtime.StepError{
			Step: stepEngine, Err: fmt.Errorf("engine at %q: %w", host, err),
			Hint: "DOCKER_CERT_PATH is a folder with ca.pem, cert.pem and key.pem; leave it and DOCKER_TLS_VERIFY out for an engine without TLS",
		}
	case err != nil:
		return nil, host, &runtime.StepError{
			Step: stepEngine, Err: fmt.Errorf("an engine's address cannot be %q: %w", host, err),
			Hint: "SANDBOX_DOCKER_HOST and DOCKER_HOST are unix:///path, tcp://host:port or, on Windows, npipe:////./pipe/name",
		}
	}
	return api, host, nil
}

// tlsOption returns the TLS settings of the environment. DOCKER_CERT_PATH is the folder of the keys. With DOCKER_TLS_VERIFY
// alone they are in ~/.docker, as for Docker's own command: if TLS is required, a connection never falls back to clear text.
func tlsOption() client.Opt {
	if os.Getenv(client.EnvOverrideCertPath) != "" || os.Getenv(client.EnvTLSVerify) == "" {
		return client.WithTLSClientConfigFromEnv()
	}
	file := func(name string) string {
		home, err := os.UserHomeDir()
		path := filepath.Join(home, ".docker", name)
		if err != nil || missing(path) {
			return ""
		}
		return path
	}
	return client.WithTLSClientConfig(file("ca.pem"), file("cert.pem"), file("key.pem"))
}

// nowhere returns a client without an engine: every request fails with why.
func nowhere(why error) (*client.Client, error) {
	return client.New(client.WithHost(client.DefaultDockerHost), client.WithDialContext(func(context.Context, string, string) (net.Conn, error) {
		return nil, why
	}))
}

// usual returns the default socket of an engine: the machine's, or else that of this user's rootless engine.
func usual() string {
	if !strings.HasPrefix(client.DefaultDockerHost, "unix://") {
		return client.DefaultDockerHost
	}
	places := []string{strings.TrimPrefix(client.DefaultDockerHost, "unix://")}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		places = append(places, filepath.Join(dir, "docker.sock")) // rootless engine
	}
	if home, err := os.UserHomeDir(); err == nil {
		places = append(places, filepath.Join(home, ".docker", "run", "docker.sock")) // Docker Desktop
	}
	for _, place := range places {
		if _, err := os.Stat(place); err == nil {
			return "unix://" + place
		}
	}
	return client.DefaultDockerHost
}
