//go:build !linux

package daemon

import "github.com/belljar/belljar/internal/runtime/docker"

// platformRuntime is the default runtime of commands and servers.
const platformRuntime = docker.Name

func openers() []opener { return []opener{{docker.Name, openDocker}} }
