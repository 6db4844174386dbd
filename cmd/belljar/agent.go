package main

import (
	"embed"
	"io/fs"

	"github.com/belljar/belljar"
)

// agents holds belljar-agent for linux on amd64 and arm64, as built by make build. In a clean clone the folder has
// only a placeholder, so that everything compiles without the agent.
//
//go:embed all:agent
var agents embed.FS

// agentIn opens the program that runs inside every sandbox, for an architecture by Go's name.
func agentIn(folder fs.FS, arch string) (fs.File, error) {
	program, err := folder.Open("agent/belljar-agent-linux-" + arch)
	if err != nil {
		return nil, &belljar.Error{
			Code:    belljar.CodeRuntimeUnavailable,
			Message: "this binary was built without the agent",
			Hint:    "run make build, then use bin/belljar",
		}
	}
	return program, nil
}
