package daemon

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/rest"
	door "github.com/belljar/belljar/internal/api/workspace"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/workspace"
	"github.com/belljar/belljar/internal/workspace/sandbox"
)

// openSource opens the source of the workspace API's workspaces.
func (d *server) openSource(ctx context.Context, cfg *config.Config, data *dataDir, events event.Sink) (workspace.Source, error) {
	switch cfg.WorkspaceMode {
	case "sandbox":
		if d.machine != nil {
			return d.openSprite(ctx, cfg)
		}
		return &sandbox.Source{Engine: d.service, Image: cfg.WorkspaceImage}, nil
	case "remote":
		return d.openRemote(ctx, cfg)
	case "local":
		return d.openLocal(ctx, cfg, data, events)
	}
	return nil, fmt.Errorf("workspace mode %q is not known", cfg.WorkspaceMode)
}

// openWorkspaces opens the workspace API. It shares the streams' tickets, so the streams come first.
func (d *server) openWorkspaces(cfg *config.Config, secret []byte, edge *api.Edge, limits *api.Limits, callers api.Authenticator, bodies *api.Shares, events event.Sink, mux *http.ServeMux) error {
	templates, err := door.ParseTemplates(cfg.WorkspaceTemplates)
	if err != nil {
		return mistake("docs/workspace.md shows how to write them", "SANDBOX_WORKSPACE_TEMPLATES: %v", err)
	}
	opened, err := door.New(door.Options{
		Source: d.workspaces, Auth: callers, Sockets: d.streams, User: cfg.WorkspaceUser, Secret: tokenSecret(cfg, secret), TokenTTL: cfg.TerminalTokenTTL,
		Templates: templates, ChatLifetime: min(cfg.MaxExecTimeout, door.MaxChatLifetime), Origin: edge.OriginTrusted, OriginAllowed: edge.OriginAllowed,
		Secure: func(r *http.Request) bool { return strings.HasPrefix(edge.URL(r, "/"), "https:") }, Connect: limits.Connect,
		Trees: api.NewBuckets(cfg.WorkspaceTrees, 0, nil), Searches: api.NewBuckets(cfg.WorkspaceSearches, 0, nil), Bodies: bodies,
		Root: cfg.WorkspaceRoot, Version: d.version, Events: events, Logger: d.log,
	})
	if err != nil {
		return err
	}
	d.closers = append(d.closers, opened.Close)
	d.workspaceDoor = opened
	opened.Register(mux)
	return nil
}

// tokenSecret returns the key of the tokens with which browsers reconnect.
func tokenSecret(cfg *config.Config, secret []byte) []byte {
	if cfg.SessionTokenSecret != "" {
		return []byte(cfg.SessionTokenSecret)
	}
	return secret
}

// workspaceReady returns the readiness of the systems that workspaces depend on.
func (d *server) workspaceReady(ctx context.Context) rest.Check {
	r := d.workspaces.Ready(ctx)
	return rest.Check{OK: r.State != "down", Detail: r.Reason, State: r.State, Circuit: r.Circuit}
}
