package daemon

import (
	"context"
	"errors"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/upstream"
	"github.com/belljar/belljar/internal/workspace"
	"github.com/belljar/belljar/internal/workspace/remote"
)

// openRemote opens workspaces in another belljar. It fails if that belljar cannot be used.
func (d *server) openRemote(ctx context.Context, cfg *config.Config) (workspace.Source, error) {
	s, err := remote.New(remote.Options{
		URL: cfg.WorkspaceURL, Key: cfg.WorkspaceKey, Image: cfg.WorkspaceImage, Guard: upstream.Options{Observe: observeRequests("belljar", d.observe)},
		Ready: observeReady("belljar", d.observe),
	})
	if err != nil {
		return nil, mistake("it looks like https://belljar.example:8080", "SANDBOX_WORKSPACE_URL %v", err)
	}
	d.closers = append(d.closers, s.Close)
	return s, unfit("the belljar of SANDBOX_WORKSPACE_URL", s.Check(ctx))
}

// openSprite opens workspaces in a sprite. It fails if the sprite cannot be used.
func (d *server) openSprite(ctx context.Context, cfg *config.Config) (workspace.Source, error) {
	source := &remote.Sprite{Engine: d.service, Machine: d.machine, Root: cfg.SpriteWorkspace}
	return source, unfit("the sprite or its workspace service", d.machine.Ready(ctx))
}

// unfit returns the error with which the server refuses to start because the place of its
// workspaces cannot be used.
func unfit(what string, err error) error {
	var f *upstream.Failure
	if !errors.As(err, &f) {
		return err
	}
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: what + " cannot be used: " + f.Error(), Details: map[string]any{"reason": f.Reason}, Hint: f.Hint(),
	}
}
