package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/runtime"
)

// plan is a request that may run, with everything decided.
type plan struct {
	request  belljar.RunRequest
	limits   belljar.Limits
	host     *host
	caps     runtime.Capabilities
	image    image.Root
	require  []string
	patterns []string // of artifacts, relative to the workspace
}

// admit checks a request against everything that can be known before a sandbox exists.
func (s *Service) admit(ctx context.Context, caller belljar.Caller, req belljar.RunRequest) (*plan, error) {
	if req.SpecVersion == "" {
		req.SpecVersion = "1.0"
	}
	if versions := s.opts.Policy.SupportedSpecVersions; !slices.Contains(versions, req.SpecVersion) {
		return nil, &belljar.Error{
			Code:    belljar.CodeInvalidSpecVersion,
			Message: fmt.Sprintf("unsupported spec_version %q", req.SpecVersion),
			Details: map[string]any{"supported": versions, "provided": req.SpecVersion},
		}
	}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if req.SessionID != "" {
		return nil, &belljar.Error{
			Code: belljar.CodeNotFound, Message: fmt.Sprintf("session %q does not exist", req.SessionID),
			Details: map[string]any{"session_id": req.SessionID},
		}
	}
	if req.Interactive && req.Stdin == nil {
		return nil, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "an interactive run needs a stream for its standard input",
			Details: map[string]any{"field": "interactive"},
		}
	}
	if !s.opts.Policy.EnableExecution {
		return nil, &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: "this node executes nothing",
			Details: map[string]any{"rule": "SANDBOX_ENABLE_EXECUTION"},
		}
	}
	p := &plan{request: own(req)}
	var err error
	if p.patterns, err = patterns(req.CapturePatterns); err != nil {
		return nil, err
	}
	p.limits, err = s.opts.Limits.Resolve(req.Resources, req.StartupTimeoutSec, req.TimeoutSec, s.opts.MaxLimits)
	if err != nil {
		return nil, err
	}
	if p.require, err = waive(caller, s.opts.Require, req.AllowWeak); err != nil {
		return nil, err
	}
	if p.image, err = s.opts.Images.Resolve(ctx, req.BaseImage); err != nil {
		return nil, err
	}
	if p.host, p.caps, err = s.pick(ctx, req.Runtime); err != nil {
		return nil, err
	}
	return p, p.enforceable()
}

// enforceable refuses a plan with a protection that the runtime cannot give here, before anything is built.
func (p *plan) enforceable() error {
	for _, name := range p.require {
		if got := p.caps.Protection(name); !got.Enforced {
			hint := got.Hint
			if hint == "" {
				hint = "an operator can do without it: allow_weak (--allow-weak " + name + ")"
			}
			return &belljar.Error{
				Code:    belljar.CodeRuntimeUnavailable,
				Message: fmt.Sprintf("runtime %s cannot enforce protection %s on this host", p.host.Name(), name),
				Details: map[string]any{"runtime": p.host.Name(), "available": true, "protection": name, "suggested": []string{}},
				Hint:    hint,
			}
		}
	}
	return nil
}

// own makes a request independent of what its caller does with it afterwards.
func own(req belljar.RunRequest) belljar.RunRequest {
	req.Command = slices.Clone(req.Command)
	req.Env = maps.Clone(req.Env)
	req.Labels = maps.Clone(req.Labels)
	req.Files = slices.Clone(req.Files)
	for i := range req.Files {
		req.Files[i].Content = slices.Clone(req.Files[i].Content)
	}
	return req
}

// maxAlternatives bounds what the braces of one pattern multiply to: matching tries each.
const maxAlternatives = 64

// patterns returns capture patterns relative to the workspace.
func patterns(list []string) ([]string, error) {
	var clean []string
	for i, p := range list {
		c, err := belljar.CleanPath(p)
		switch {
		case err != nil:
		case !doublestar.ValidatePattern(c):
			err = fmt.Errorf("not a pattern")
		case alternatives(c) > maxAlternatives:
			err = fmt.Errorf("more than %d alternatives in braces", maxAlternatives)
		}
		if err != nil {
			return nil, &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("capture pattern %q: %v", p, err),
				Details: map[string]any{"field": fmt.Sprintf("capture_patterns[%d]", i), "provided": p},
				Hint:    "patterns look like out/*.csv or dist/**",
			}
		}
		clean = append(clean, c)
	}
	return clean, nil
}

// alternatives is an upper bound of how many plain patterns the braces of p stand for.
func alternatives(p string) int {
	n := 1
	for _, group := range strings.Split(p, "{")[1:] {
		n = min(n*(1+strings.Count(group, ",")), maxAlternatives+1)
	}
	return n
}

// spec is the sandbox that the plan wants.
func (p *plan) spec(id string, life runtime.Lifetime) runtime.Spec {
	return runtime.Spec{
		ID:     id,
		Root:   p.image.Runtime(),
		Limits: p.limits,
		Workspace: runtime.Workspace{
			Bytes:  int64(p.limits.WorkspaceMB) << 20,
			Inodes: int64(p.limits.Inodes),
			Exec:   p.request.WorkspaceExec,
			Medium: runtime.MediumMemory,
		},
		Network:  runtime.Network{Mode: runtime.NetworkNone},
		Lifetime: life,
		Require:  p.require,
	}
}
