//go:build !linux

package daemon

import "github.com/belljar/belljar/internal/runtime/docker"

// usualRuntime is the default runtime of commands and servers.
const usualRuntime = docker.Name

func openers() []opener { return []opener{{docker.Name, openDocker}} }
