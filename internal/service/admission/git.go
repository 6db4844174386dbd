package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

// PlaceGit decides about the side sandbox that clones the repository of a request, before the sandbox of placement p is made.
// It has the same limits, so that one reservation covers both. It uses the host image if the runtime supports that, and
// reaches only the repository's host. It returns nil for a request without a repository.
func (r *Rules) PlaceGit(ctx context.Context, caller belljar.Caller, p *placement.Placement, request Request, g *belljar.GitSpec) (*placement.Placement, error) {
	if g == nil {
		return nil, nil
	}
	if !p.Caps.Relay {
		return nil, &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: fmt.Sprintf("runtime %s has no network, which a clone needs", p.Host.Name()),
			Details: map[string]any{"field": "git", "runtime": p.Host.Name(), "available": true, "suggested": []string{}},
			Hint:    "name a runtime whose egress_allowlist_supported is true, or upload the files",
		}
	}
	policy, err := r.Egress.gitHost(caller, request, g)
	if err != nil {
		return nil, err
	}
	side := *p
	if p.Workspace.OnDisk() {
		side.InMemory(r.MaxLimits.WorkspaceMB)
		p.InstallMB = max(p.InstallMB, p.MemoryMB()+side.Limits.WorkspaceMB)
	}
	side.Broker, side.Egress, side.Exec, side.CompilerMB, side.Image.GoCache = nil, policy, false, 0, ""
	if p.Caps.HostImage && r.MayUse(ctx, runtime.HostRef) == nil {
		side.Image, side.Fetch = runtime.Root{Ref: runtime.HostRef}, ""
	}
	return &side, nil
}

// gitHost returns the policy of a sandbox that reaches only a repository's host. As always, a non-public address needs a rule
// for it, here of the request or of the server: a request may have no network otherwise.
func (e *Egress) gitHost(caller belljar.Caller, request Request, g *belljar.GitSpec) (*egress.Policy, error) {
	host, port, err := g.Host()
	if err != nil {
		return nil, err
	}
	_, p, err := e.Network(caller, request.Trust, belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist, Egress: belljar.Egress{Hosts: []string{host}}})
	if err != nil {
		return nil, aboutURL(err)
	}
	switch _, reason := p.Decide(host, port); reason {
	case "":
	case egress.PortDenied:
		return nil, aboutURL(&belljar.Error{
			Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("git.url has port %d, which sandboxes may not connect to here", port),
			Details: map[string]any{"provided": port, "supported": p.Ports, "rule": "SANDBOX_EGRESS_PORTS"},
			Hint:    "an operator lists the ports in SANDBOX_EGRESS_PORTS",
		})
	default:
		return nil, aboutURL(&belljar.Error{
			Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("the host of git.url, %s, is not among those that sandboxes may reach here", host),
			Details: map[string]any{"provided": host, "rule": "SANDBOX_EGRESS_ALLOW"},
			Hint:    "an operator lists the host in SANDBOX_EGRESS_ALLOW",
		})
	}
	own, err := egress.ParseRules(belljar.Egress{CIDRs: request.Network.Egress.CIDRs, IPs: request.Network.Egress.IPs})
	p.Open = []egress.Rules{p.Server, own}
	return p, err
}

// aboutURL marks an error as one of the repository's URL.
func aboutURL(err error) error {
	var e *belljar.Error
	if !errors.As(err, &e) {
		return err
	}
	about := *e
	if about.Details = maps.Clone(e.Details); about.Details == nil {
		about.Details = map[string]any{}
	}
	if field, _ := about.Details["field"].(string); field == "network_policy" {
		about.Message = "this server lets sandboxes reach nothing, so that no repository can be cloned"
		delete(about.Details, "provided")
	} else if field != "" {
		about.Message = strings.ReplaceAll(e.Message, field, "git.url")
	}
	about.Details["field"] = "git.url"
	return &about
}
