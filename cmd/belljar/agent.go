package main

import (
	"embed"
	"runtime"

	"github.com/belljar/belljar"
)

// agents holds belljar-agent for linux on amd64 and arm64, put there by make build. On a clean clone the folder is
// empty but for a placeholder, so that everything compiles without it.
//
//go:embed all:agent
var agents embed.FS

// embeddedAgent returns the program that runs inside every sandbox, for this machine.
func embeddedAgent() ([]byte, error) {
	binary, err := agents.ReadFile("agent/belljar-agent-linux-" + runtime.GOARCH)
	if err != nil {
		return nil, &belljar.Error{
			Code:    belljar.CodeRuntimeUnavailable,
			Message: "this binary was built without the agent",
			Hint:    "run make build, then use bin/belljar",
		}
	}
	return binary, nil
}
