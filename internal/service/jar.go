package service

import (
	"context"
	"fmt"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// jar is one run's sandbox with its agent, and the user that everything in it is done as.
type jar struct {
	runtime.Sandbox
	agent    *agent.Client
	uid, gid int
}

// meet makes the acquaintance of a sandbox's agent. Commands run as the sandbox's user; where a runtime cannot keep
// that user apart from the agent's (shared), as the agent's.
func meet(ctx context.Context, box runtime.Sandbox, caps runtime.Capabilities) (*jar, error) {
	j := &jar{Sandbox: box, agent: agent.New(box.Dial), uid: sandboxUID, gid: sandboxGID}
	if caps.AgentUID == "shared" {
		info, err := j.agent.Ping(ctx)
		if err != nil {
			return j, fmt.Errorf("ask the agent who it is: %w", err)
		}
		j.uid, j.gid = info.UID, info.GID
	}
	return j, nil
}

// file is a request for a file with the user's rights.
func (j *jar) file(path string) wire.FileRequest {
	return wire.FileRequest{Path: path, UID: j.uid, GID: j.gid}
}
