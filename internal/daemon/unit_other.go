//go:build !linux

package daemon

import "github.com/belljar/belljar/internal/runtime/docker"

// usualRuntime is the one of commands and servers that are told none (S0 §17).
const usualRuntime = docker.Name

func openers() []opener { return []opener{{docker.Name, openDocker}} }
