package client

import (
	"context"

	"github.com/belljar/belljar"
)

// OpenToolset opens the session of a toolset, as sandbox_open does: the active one of its scope, or a new one with the
// toolset's limits. created reports whether it is new. End it with [belljar.Sessions].Delete, or with CloseAll and the
// scope's prefix when the workflow has ended:
//
//	c.Sessions().CloseAll(ctx, belljar.CloseRequest{KeyPrefix: tools.Scope().Prefix()})
func OpenToolset(ctx context.Context, s belljar.Service, tools belljar.Toolset) (session belljar.Session, created bool, err error) {
	if tools.InMode() != belljar.ToolsCode {
		return session, false, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "mode " + string(tools.InMode()) + " has no session",
			Details: map[string]any{"field": "mode"}, Hint: "start runs, or set mode code",
		}
	}
	spec := belljar.SessionSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: tools.Image, Template: tools.Template,
		Runtime: tools.Runtime, Isolation: tools.Isolation, TrustLevel: tools.TrustLevel,
		Resources: tools.Resources, TimeoutSec: tools.TimeoutSec,
		// Runs extend the TTL but not the idle time. Neither may end the session before the toolset's idle time.
		IdleTimeoutSec: tools.IdleTimeoutSec, TTLSec: tools.IdleTimeoutSec,
		Scope: tools.Scope(), WorkspaceExec: true, Secrets: tools.Secrets, Packages: tools.Packages, Git: tools.Git,
	}
	if tools.Network {
		spec.NetworkPolicy, spec.Egress = belljar.NetworkAllowlist, tools.Egress
	}
	return s.Sessions().Open(ctx, belljar.SessionRequest{SessionSpec: spec})
}
