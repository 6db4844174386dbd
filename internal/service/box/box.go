// Package box combines a sandbox with its agent. Runs, sessions, files and terminals work on it.
package box

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
	"github.com/belljar/belljar/internal/secret/redact"
)

// The user inside every sandbox whose image sets none.
const (
	uid = 1000
	gid = 1000
)

// Box is a sandbox with its agent, and the user for all operations in it.
type Box struct {
	runtime.Sandbox
	Agent    *agent.Client
	UID, GID int
	Network  *Network         // nil permits nothing
	Hidden   *redact.Patterns // secrets to redact from all output; nil for none
	Shared   Shared           // its counters, if several runs share it
}

// Destroy implements [runtime.Sandbox].
func (b *Box) Destroy(ctx context.Context) error {
	b.Network.Close()
	return b.Sandbox.Destroy(ctx)
}

// At returns the box of a sandbox that does not exist yet. It has only the user, as far as the image sets it.
func At(root runtime.Root) *Box {
	b := new(Box)
	b.UID, b.GID = User(root)
	return b
}

// Connect connects to a sandbox's agent. Commands run as the user of its image, or else as Belljar's own user. On a runtime that cannot separate that user from
// the agent's (shared), they run as the agent's. The box is returned even with an error.
func Connect(ctx context.Context, sandbox runtime.Sandbox, caps runtime.Capabilities, root runtime.Root) (*Box, error) {
	b := At(root)
	b.Sandbox, b.Agent = sandbox, agent.New(sandbox.Dial)
	if caps.AgentUID == "shared" {
		info, err := b.Agent.Ping(ctx)
		if err != nil {
			return b, fmt.Errorf("identify the agent: %w", err)
		}
		b.UID, b.GID = info.UID, info.GID
	}
	return b, nil
}

// User returns the user of an image.
func User(root runtime.Root) (int, int) { return cmp.Or(root.UID, uid), cmp.Or(root.GID, gid) }

// Exec starts a command, after the sandbox's network is open. optional is the image's working directory, which may be missing: a command that would start there
// then starts in the workspace.
func (b *Box) Exec(ctx context.Context, e wire.Exec, optional string) (*agent.Process, error) {
	if err := b.Network.Opened(ctx); err != nil {
		return nil, err
	}
	proc, err := b.start(ctx, e)
	var refused *wire.Error
	if e.Cwd == "" || e.Cwd != optional || !errors.As(err, &refused) || refused.Step != wire.StepChdir {
		return proc, err
	}
	for i, pair := range e.Env {
		if pair == "PWD="+e.Cwd {
			e.Env[i] = "PWD=" + belljar.WorkspaceDir
		}
	}
	e.Cwd = ""
	return b.start(ctx, e)
}

// replyTime is how long a cancelled start waits for the agent's reply. The agent normally replies immediately.
const replyTime = 2 * time.Second

// start starts a command. If ctx ends meanwhile, it fails, but only once the agent knows the command: otherwise [Box.End] could find none, and
// the agent could start it afterwards.
func (b *Box) start(ctx context.Context, e wire.Exec) (*agent.Process, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { time.AfterFunc(replyTime, func() { cancel(context.Cause(ctx)) }) })()
	proc, err := b.Agent.Exec(late, e)
	if err == nil && ctx.Err() != nil {
		proc.Close()
		return nil, context.Cause(ctx)
	}
	return proc, err
}

// File returns a request for a file with the user's rights.
func (b *Box) File(path string) wire.FileRequest {
	return wire.FileRequest{Path: path, UID: b.UID, GID: b.GID}
}

// End ends a command without a follower, at most slack after its grace, and makes the agent forget it. An unknown command is not an error.
func (b *Box) End(id string, grace, slack time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace+slack)
	defer cancel()
	proc, err := b.Agent.Attach(ctx, id, 0)
	if IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer proc.Close()
	_ = proc.End(grace) // if that fails, there is no output either
	if _, err := proc.Output(ctx, func(int64, wire.Stream, []byte) error { return nil }); err != nil {
		return err
	}
	return b.Agent.Forget(ctx, id)
}

// IsNotFound reports whether an agent does not know the requested object.
func IsNotFound(err error) bool {
	var refused *wire.Error
	return errors.As(err, &refused) && refused.Code == wire.CodeNotFound
}
