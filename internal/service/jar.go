package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belljar/belljar"
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

// meet makes the acquaintance of a sandbox's agent. Commands run as the user of its image, or else Belljar's own; where a
// runtime cannot keep that user apart from the agent's (shared), as the agent's.
func meet(ctx context.Context, box runtime.Sandbox, caps runtime.Capabilities, root runtime.Root) (*jar, error) {
	j := &jar{Sandbox: box, agent: agent.New(box.Dial), uid: cmp.Or(root.UID, sandboxUID), gid: cmp.Or(root.GID, sandboxGID)}
	if caps.AgentUID == "shared" {
		info, err := j.agent.Ping(ctx)
		if err != nil {
			return j, fmt.Errorf("ask the agent who it is: %w", err)
		}
		j.uid, j.gid = info.UID, info.GID
	}
	return j, nil
}

// exec starts a command of a plan. The folder that an image names to start in need not be there: a command that was to
// start there then starts in the workspace.
func (j *jar) exec(ctx context.Context, p *plan, e wire.Exec) (*agent.Process, error) {
	proc, err := j.agent.Exec(ctx, e)
	var refused *wire.Error
	if e.Cwd == "" || e.Cwd != p.image.WorkingDir || !errors.As(err, &refused) || refused.Step != stepChdir {
		return proc, err
	}
	for i, pair := range e.Env {
		if pair == "PWD="+e.Cwd {
			e.Env[i] = "PWD=" + belljar.WorkspaceDir
		}
	}
	e.Cwd = ""
	return j.agent.Exec(ctx, e)
}

// file is a request for a file with the user's rights.
func (j *jar) file(path string) wire.FileRequest {
	return wire.FileRequest{Path: path, UID: j.uid, GID: j.gid}
}

// putDown ends a command that nobody follows, within a time, and has it forgotten. One that is not known is no error.
func (j *jar) putDown(id string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	proc, err := j.agent.Attach(ctx, id, 0)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer proc.Close()
	_ = proc.End(0) // if it cannot be told, there is no output either
	if _, err := proc.Output(ctx, func(int64, wire.Stream, []byte) error { return nil }); err != nil {
		return err
	}
	return j.agent.Forget(ctx, id)
}

// isNotFound tells whether an agent does not know what it was asked for.
func isNotFound(err error) bool {
	var refused *wire.Error
	return errors.As(err, &refused) && refused.Code == wire.CodeNotFound
}
