// Package sandbox has the workspaces that are sessions of an engine in this process.
package sandbox

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/workspace"
)

// Source has the sessions of an engine as workspaces.
type Source struct {
	Engine belljar.Engine
	Image  string // of a session that is made; "" is the server's default
}

var _ workspace.Source = Source{}

// Mode is sandbox.
func (Source) Mode() string { return "sandbox" }

// Open returns a workspace of a caller.
func (s Source) Open(ctx context.Context, caller belljar.Caller, session string) (workspace.Workspace, error) {
	return workspace.Open(ctx, s.Engine.As(caller), session, workspace.Spec(s.Image))
}

// Ready is ready: the server's other checks are about all that it depends on.
func (Source) Ready(context.Context) workspace.Readiness {
	return workspace.Readiness{State: "ready", Circuit: "closed"}
}
