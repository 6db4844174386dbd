package main

import (
	"embed"
	"io/fs"
	"runtime"

	"github.com/belljar/belljar"
)

// agents holds belljar-agent for linux on amd64 and arm64, put there by make build. On a clean clone the folder is
// empty but for a placeholder, so that everything compiles without it.
//
//go:embed all:agent
var agents embed.FS

// embeddedAgent opens the program that runs inside every sandbox, for this machine.
func embeddedAgent() (fs.File, error) { return agentIn(agents, runtime.GOARCH) }

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
