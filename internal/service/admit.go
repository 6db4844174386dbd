package service

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// plan is a request that may run, with everything decided.
type plan struct {
	request  belljar.RunRequest
	argv     []string
	files    []belljar.InlineFile // for the workspace: the request's, and its code
	build    *build               // how argv is built before it runs; nil for a program that is there
	limits   belljar.Limits
	host     *host
	caps     runtime.Capabilities
	why      string       // it is this runtime
	image    runtime.Root // of a session under way see [session.image]
	fetch    string       // what the image is pulled as, when the sandbox is made; "" if it is here
	require  []string
	exec     bool     // programs in the workspace may be executed
	patterns []string // of artifacts, relative to the workspace
	session  *session // where it runs; nil for a sandbox of its own
}

// admit checks a request against everything that can be known before a sandbox exists.
func (s *Service) admit(ctx context.Context, caller belljar.Caller, req belljar.RunRequest) (*plan, error) {
	return s.admitAgain(ctx, caller, req, "")
}

// admitAgain is admit for a request whose image is settled: it is that of a digest, unless that is "".
func (s *Service) admitAgain(ctx context.Context, caller belljar.Caller, req belljar.RunRequest, digest string) (*plan, error) {
	if err := s.version(req.SpecVersion); err != nil {
		return nil, err
	}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if err := s.enabled(); err != nil {
		return nil, err
	}
	p := &plan{request: own(req), exec: req.WorkspaceExec}
	var err error
	if p.patterns, err = patterns(req.CapturePatterns); err != nil {
		return nil, err
	}
	if err := s.admitStdin(p); err != nil {
		return nil, err
	}
	if req.SessionID != "" {
		err = s.join(caller, p)
	} else {
		err = s.place(ctx, caller, p, digest)
	}
	if err != nil {
		return nil, err
	}
	p.bind()
	return p, p.program()
}

// version refuses a request in a version of the specification that the policy does not name.
func (s *Service) version(v string) error {
	versions := s.opts.Policy.SupportedSpecVersions
	if slices.Contains(versions, v) {
		return nil
	}
	e := &belljar.Error{
		Code:    belljar.CodeInvalidSpecVersion,
		Message: fmt.Sprintf("unsupported spec_version %q", v),
		Details: map[string]any{"supported": versions, "provided": v},
	}
	if v == "" {
		e.Message, e.Details["field"] = "spec_version is required", "spec_version"
	}
	return e
}

// enabled refuses everything on a node that executes nothing.
func (s *Service) enabled() error {
	if s.opts.Policy.EnableExecution {
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodePolicyDenied, Message: "this node executes nothing",
		Details: map[string]any{"rule": "SANDBOX_ENABLE_EXECUTION"},
	}
}

// place decides about the sandbox of a run that gets one of its own. digest is that of its image, if that is settled.
func (s *Service) place(ctx context.Context, caller belljar.Caller, p *plan, digest string) (err error) {
	req := p.request
	p.limits, err = s.opts.Limits.ResolveRun(&req.RunSpec, s.opts.MaxLimits)
	if err != nil {
		return err
	}
	if p.require, err = waive(caller, append(slices.Clone(s.opts.Require), asked(req.RunSpec)...), req.AllowWeak); err != nil {
		return err
	}
	if err = s.mayUse(ctx, req.BaseImage); err != nil {
		return err
	}
	// The runtime comes first: without it no image helps.
	found, err := s.choose(ctx, caller, wishOf(req, p.require))
	if err != nil {
		return err
	}
	p.host, p.caps, p.why = found.host, found.caps, found.why
	if err = s.settleImage(ctx, p, digest); err != nil {
		return err
	}
	if s.opts.GoCache != nil && p.caps.GoCache && p.exec && p.fetch == "" {
		p.image.GoCache = s.opts.GoCache(p.image, buildsGo(req))
	}
	return p.enforceable()
}

// join puts a run into a session, whose sandbox is what it is.
func (s *Service) join(caller belljar.Caller, p *plan) error {
	x, err := s.session(caller, p.request.SessionID)
	if err != nil {
		return err
	}
	req, of := p.request, x.plan
	for _, f := range []struct {
		name  string
		asked bool
	}{
		{"resources.cpu", req.Resources.CPU != 0},
		{"resources.memory_mb", req.Resources.MemoryMB != 0},
		{"resources.pids", req.Resources.Pids != 0},
		{"resources.workspace_mb", req.Resources.WorkspaceMB != 0},
		{"runtime", req.Runtime != "" && req.Runtime != of.host.Name()},
		{"isolation", req.Isolation != "" && !of.caps.Isolation.AtLeast(runtime.Isolation(req.Isolation))},
		{"trust_level", req.TrustLevel != "" && !of.caps.Isolation.AtLeast(s.opts.Policy.least(req.TrustLevel))},
		{"build_memory_mb", req.BuildMemoryMB != 0},
		{"workspace_exec", req.WorkspaceExec && !of.exec},
		{"allow_weak", len(req.AllowWeak) > 0},
	} {
		if f.asked {
			return &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: f.name + " belongs to the session's sandbox and cannot be asked for in a run",
				Details: map[string]any{"field": f.name, "session_id": req.SessionID},
				Hint:    "make a session with it, or a run without a session",
			}
		}
	}
	if err := s.strongEnough(caller, x, wishOf(req, nil)); err != nil {
		return err
	}
	p.why = "it is the session's"
	p.session, p.host, p.caps, p.image, p.require, p.exec = x, of.host, of.caps, x.image(), of.require, of.exec
	p.limits, err = of.limits.ResolveRun(&req.RunSpec, s.opts.MaxLimits)
	if req.Shell != nil {
		p.limits.CPUTimeSec = 0 // what others say of runs does not go for commands of a shell
	}
	return err
}

// program decides what is executed, and which files it needs.
func (p *plan) program() error {
	req := p.request
	p.argv, p.files = req.Command, req.Files
	if req.Shell != nil {
		p.argv = []string{req.Shell.Cmd} // as it goes on record
		return nil
	}
	if req.Language == "" {
		return nil
	}
	l, _ := belljar.LanguageOf(req.Language) // known, or the request would not be valid
	if l.Executed() && !p.exec {
		e := &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: l.Name + " is compiled, which needs workspace_exec",
			Details: map[string]any{"field": "workspace_exec", "language": req.Language},
			Hint:    "ask for workspace_exec, so that programs in the workspace may be executed",
		}
		return e
	}
	file, args := l.FileOf(req.Code), []string(nil)
	if req.Code != "" {
		p.files = append(slices.Clone(req.Files), belljar.InlineFile{Path: file, Content: []byte(req.Code)})
		if req.Cwd != "" {
			file = path.Join(belljar.WorkspaceDir, file)
		}
	} else {
		file, args = req.Command[0], req.Command[1:]
	}
	if req.BuildCache && req.Upload != nil {
		return &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "build_cache does not go with an upload",
			Details: map[string]any{"field": "build_cache"}, Hint: "send the files in the request, or leave build_cache out",
		}
	}
	if l.Compiled() {
		p.build = &build{language: l, file: file, source: req.Code, args: args}
		return p.buildMemoryAvailable()
	}
	p.argv = l.Command("", file, args)
	return nil
}

// buildMemoryAvailable refuses a build with other memory than its program where a sandbox's limit stays what it is.
func (p *plan) buildMemoryAvailable() error {
	if p.buildMemory() == p.limits.MemoryMB || p.caps.LimitMemory {
		return nil
	}
	return &belljar.Error{
		Code:    belljar.CodeRuntimeUnavailable,
		Message: fmt.Sprintf("build_memory_mb cannot be enforced here: runtime %s cannot change the memory of a sandbox", p.host.Name()),
		Details: map[string]any{"field": "build_memory_mb", "runtime": p.host.Name(), "available": true, "suggested": []string{}},
		Hint:    "leave it out: the compiler has the memory_mb of the program; or ask for another runtime",
	}
}

// limitFields are the fields of a request that ask for a limit, by the protection that keeps it. The
// workspace is not among them: it is a file system of its size on every runtime.
var limitFields = []struct {
	protection, field string
	asked             func(belljar.RunSpec) bool
}{
	{runtime.ProtectMemory, "resources.memory_mb", func(r belljar.RunSpec) bool { return r.Resources.MemoryMB != 0 }},
	{runtime.ProtectMemory, "build_memory_mb", func(r belljar.RunSpec) bool { return r.BuildMemoryMB != 0 }},
	{runtime.ProtectCPU, "resources.cpu", func(r belljar.RunSpec) bool { return r.Resources.CPU != 0 }},
	{runtime.ProtectPids, "resources.pids", func(r belljar.RunSpec) bool { return r.Resources.Pids != 0 }},
}

// asked lists the protections that keep the limits a request asks for. It gets them or is refused, also where the server does
// without: only its own allow_weak lets it go on.
func asked(r belljar.RunSpec) (names []string) {
	for _, l := range limitFields {
		if l.asked(r) {
			names = append(names, l.protection)
		}
	}
	return names
}

// notLimited refuses a limit that was asked for and cannot be enforced by the runtime here; nil for other protections.
func (p *plan) notLimited(got runtime.Protection) error {
	for _, l := range limitFields {
		if l.protection != got.Name || !l.asked(p.request.RunSpec) {
			continue
		}
		message := fmt.Sprintf("%s cannot be enforced here: runtime %s has no way to limit %s on this host", l.field, p.host.Name(), got.Name)
		if got.By != "" {
			message = fmt.Sprintf("%s cannot be enforced here: runtime %s limits %s only by %s", l.field, p.host.Name(), got.Name, got.By)
		}
		hint := "allow_weak " + got.Name + " (--allow-weak " + got.Name + ", operators only) goes on without the limit"
		if got.Hint != "" {
			hint = got.Hint + "; or " + hint
		}
		return &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: message, Hint: hint,
			Details: map[string]any{"field": l.field, "runtime": p.host.Name(), "available": true, "protection": got.Name, "suggested": []string{}},
		}
	}
	return nil
}

// enforceable refuses a plan with a protection that the runtime cannot give here, before anything is built.
func (p *plan) enforceable() error {
	names := p.require
	if p.limits.CPUTimeSec > 0 {
		names = append(slices.Clone(names), runtime.ProtectCPUTime)
	}
	for _, name := range names {
		if got := p.caps.Protection(name); !got.Enforced {
			if err := p.notLimited(got); err != nil {
				return err
			}
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
	limits := p.limits
	limits.MemoryMB = p.mostMemory()
	return runtime.Spec{
		ID:     id,
		Root:   p.image,
		Limits: limits,
		Workspace: runtime.Workspace{
			Bytes:  int64(p.limits.WorkspaceMB) << 20,
			Inodes: int64(p.limits.Inodes),
			Exec:   p.exec,
			Medium: runtime.MediumMemory,
		},
		Network:   runtime.Network{Mode: runtime.NetworkNone},
		Lifetime:  life,
		Isolation: p.caps.Isolation,
		Require:   p.require,
	}
}
