package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/file"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/secret"
	"github.com/belljar/belljar/internal/service/session"
	"github.com/belljar/belljar/internal/service/snapshot"
	"github.com/belljar/belljar/internal/service/stdin"
	"github.com/belljar/belljar/internal/service/template"
)

// plan is an admitted request, with all decisions.
type plan struct {
	placement.Placement // in a session, a copy of the session's
	request             belljar.RunRequest
	argv                []string
	files               []belljar.InlineFile // for the workspace: the request's, and its code
	build               *build               // how argv is built before it runs; nil for an existing program
	patterns            []string             // of artifacts, relative to the workspace
	session             *session.Session     // the session that it runs in; nil for a sandbox of its own
	language            string               // of its context; "" for none
	git                 *placement.Placement // of the side sandbox that clones its repository; nil for none
	sealed              []byte               // the request's secrets, for its record
	used                secret.Used          // the stored ones
	snapshot            belljar.Snapshot     // mounted in its sandbox; zero for none
	template            belljar.Template     // that its sandbox is made from; zero for none
	warm                *wire.Warm           // the matching warm interpreter; nil to start a new one
	undoContext         func()               // reverts the use of its context, if it does not start; nil without one
}

// admitter decides whether and how a request may run.
type admitter struct {
	rules      *admission.Rules
	secrets    *secret.Secrets
	useSession func(caller belljar.Caller, id string) (*session.Session, error)
	snapshots  *snapshot.Snapshots
	templates  *template.Templates
	stdin      stdin.Limits // of an interactive run, unless its request sets others
	maxStdin   stdin.Limits
	warm       WarmOptions
}

// maxSeq is the largest seq at which a stream can begin: the largest integer that every JSON reader represents exactly.
const maxSeq uint64 = 1<<53 - 1

// admit makes all checks of a request that are possible before a sandbox exists.
func (s *admitter) admit(ctx context.Context, caller belljar.Caller, req belljar.RunRequest) (*plan, error) {
	return s.admitWith(ctx, caller, req, "")
}

// admitWith is admit for a request whose image is pinned to digest, unless that is "".
func (s *admitter) admitWith(ctx context.Context, caller belljar.Caller, req belljar.RunRequest, digest string) (*plan, error) {
	if err := s.rules.Version(req.SpecVersion); err != nil {
		return nil, err
	}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if req.ResumeFromSeq > maxSeq {
		return nil, fault.Refuse("resume_from_seq", req.ResumeFromSeq, fmt.Sprintf("resume_from_seq is limited to %d, got %d", maxSeq, req.ResumeFromSeq))
	}
	if err := s.rules.Enabled(); err != nil {
		return nil, err
	}
	spec, of, err := s.templates.Run(ctx, caller, req.RunSpec, digest != "")
	if err != nil {
		return nil, err
	}
	req.RunSpec = spec
	p := &plan{request: own(req), template: of}
	if p.patterns, err = patterns(req.CapturePatterns); err != nil {
		return nil, err
	}
	if err := s.admitStdin(p); err != nil {
		return nil, err
	}
	if req.SessionID != "" {
		err = s.join(caller, p)
	} else {
		ask := admission.RequestOfRun(req.RunSpec)
		ask.Digest = digest
		if p.Placement, err = s.rules.Place(ctx, caller, ask); err == nil {
			p.git, err = s.rules.PlaceGit(ctx, caller, &p.Placement, ask, req.Git)
		}
	}
	if err == nil {
		err = s.admitSnapshot(ctx, caller, p)
	}
	if err == nil {
		err = p.program()
	}
	if err == nil {
		p.request.Secrets, p.used, err = s.secrets.Resolve(ctx, caller, req.Secrets)
	}
	if err == nil && p.session == nil {
		if p.Broker, err = s.secrets.Broker(&p.Placement, p.request.Secrets, req.Git); err == nil {
			err = s.secrets.BrokerGit(p.git, req.Git, p.request.Secrets)
		}
	}
	if err != nil {
		return nil, err
	}
	s.admitWarm(p)
	return p, nil
}

// join puts a run into a session. It refuses a request that the session's sandbox cannot meet.
func (s *admitter) join(caller belljar.Caller, p *plan) error {
	x, err := s.useSession(caller, p.request.SessionID)
	if err != nil {
		return err
	}
	req, of := p.request, x.Placement()
	if len(req.Secrets) > 0 {
		return &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "secrets cannot be given to a run in a session: the runs of a session share a user, so that each could read them",
			Details: map[string]any{"field": "secrets", "session_id": req.SessionID},
			Hint:    "give them to the session when it is made, or make a run without a session",
		}
	}
	kept := req.Shell != nil || req.Context != "" // its process has the limits that it started with
	for _, f := range []struct {
		name  string
		asked bool
	}{
		{"resources.cpu", req.Resources.CPU != 0},
		{"resources.memory_mb", req.Resources.MemoryMB != 0},
		{"resources.pids", req.Resources.Pids != 0},
		{"resources.workspace_mb", req.Resources.WorkspaceMB != 0},
		{"runtime", req.Runtime != "" && req.Runtime != of.Host.Name()},
		{"isolation", req.Isolation != "" && !of.Caps.Isolation.AtLeast(runtime.Isolation(req.Isolation))},
		{"trust_level", req.TrustLevel != "" && !of.Caps.Isolation.AtLeast(s.rules.Policy.WeakestIsolation(req.TrustLevel))},
		{"build_memory_mb", req.BuildMemoryMB != 0},
		{"files", len(req.Files) > 0 && of.Workspace.ReadOnly},
		{"code", req.Code != "" && req.Context == "" && of.Workspace.ReadOnly},
		{"workspace_exec", req.WorkspaceExec && !of.Exec},
		{"allow_weak", len(req.AllowWeak) > 0},
		{"network_policy", req.NetworkPolicy != "" && req.NetworkPolicy != x.Network.Spec().NetworkPolicy},
		{"egress", req.Egress.Len() > 0},
		{"packages", !req.Packages.IsZero()},
		{"resources.nofile", req.Resources.NoFile != 0 && kept},
		{"resources.nproc", req.Resources.NProc != 0 && kept},
	} {
		if f.asked && (f.name == "network_policy" || f.name == "egress") {
			return &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: f.name + " cannot be set for a run in a session: the session has the network",
				Details: map[string]any{"field": f.name, "session_id": req.SessionID},
				Hint:    "PUT /sessions/{id}/network (belljar session network) changes it",
			}
		}
		if f.asked && (f.name == "resources.nofile" || f.name == "resources.nproc") {
			return &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: f.name + " cannot be set for a command of a shell or a context: one process executes all of its commands",
				Details: map[string]any{"field": f.name, "session_id": req.SessionID}, Hint: "set it when the session is made, or start a run in the session without a shell or context",
			}
		}
		if f.asked && (f.name == "files" || f.name == "code") {
			return &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: f.name + " cannot be put into the session's workspace: it is read-only",
				Details: map[string]any{"field": f.name, "session_id": req.SessionID}, Hint: "make a session that writes to the volume",
			}
		}
		if f.asked {
			return &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: f.name + " belongs to the session's sandbox and cannot be set for a run in it",
				Details: map[string]any{"field": f.name, "session_id": req.SessionID},
				Hint:    "make a session with it, or a run without a session",
			}
		}
	}
	if err := x.CheckIsolation(caller, admission.RequestOfRun(req.RunSpec)); err != nil {
		return err
	}
	p.session, p.Placement = x, of
	p.Why, p.Fetch = "it is the session's", ""
	p.Limits, err = of.Limits.ResolveRun(&req.RunSpec, s.rules.MaxLimits)
	if req.Context != "" && err == nil {
		p.language, err = x.Contexts.Check(req.Context, req.Language)
	}
	if req.Shell != nil || req.Context != "" {
		p.Limits.CPUTimeSec = 0 // commands of a shell have no limit of CPU time
	}
	p.Bind()
	return err
}

// program decides which program is executed, and which files it needs.
func (p *plan) program() error {
	req := p.request
	p.argv, p.files = req.Command, req.Files
	if req.Context != "" {
		p.argv = []string{req.Code}
		return nil
	}
	if req.Shell != nil {
		p.argv = []string{req.Shell.Cmd} // in the form that is recorded
		return nil
	}
	if req.Language == "" {
		return nil
	}
	l, _ := belljar.LanguageOf(req.Language) // the language is known: the request is valid
	if l.Executed() && !p.Exec {
		e := &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: l.Name + " is compiled, which needs workspace_exec",
			Details: map[string]any{"field": "workspace_exec", "language": req.Language},
			Hint:    "set workspace_exec, so that programs in the workspace may be executed",
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
			Code: belljar.CodeInvalidRequest, Message: "build_cache cannot be used with an upload",
			Details: map[string]any{"field": "build_cache"}, Hint: "send the files in the request, or leave build_cache out",
		}
	}
	if l.Compiled() {
		p.build = &build{language: l, file: file, source: req.Code, args: args}
		p.CompilerMB = p.buildMemory()
		return p.buildMemoryAvailable()
	}
	p.argv = l.Command("", file, args)
	return nil
}

// buildMemoryAvailable refuses a build with a different memory limit from its program's if a sandbox's limit cannot be changed.
func (p *plan) buildMemoryAvailable() error {
	if p.buildMemory() == p.Limits.MemoryMB || p.Caps.LimitMemory {
		return nil
	}
	return &belljar.Error{
		Code:    belljar.CodeRuntimeUnavailable,
		Message: fmt.Sprintf("build_memory_mb cannot be enforced here: runtime %s cannot change the memory of a sandbox", p.Host.Name()),
		Details: map[string]any{"field": "build_memory_mb", "runtime": p.Host.Name(), "available": true, "suggested": []string{}},
		Hint:    "leave it out, and the compiler has the memory_mb of the program; or choose another runtime",
	}
}

// own copies the parts of a request that the caller could modify.
func own(req belljar.RunRequest) belljar.RunRequest {
	req.Command = slices.Clone(req.Command)
	req.Env = maps.Clone(req.Env)
	req.Labels = maps.Clone(req.Labels)
	req.Secrets = maps.Clone(req.Secrets)
	req.Files = slices.Clone(req.Files)
	for i := range req.Files {
		req.Files[i].Content = slices.Clone(req.Files[i].Content)
	}
	return req
}

// patterns returns capture patterns relative to the workspace.
func patterns(list []string) ([]string, error) {
	var clean []string
	for i, p := range list {
		c, err := belljar.CleanPath(p)
		switch {
		case err != nil:
		case !doublestar.ValidatePattern(c):
			err = errors.New("is not a valid pattern")
		case file.Alternatives(c) > file.MaxAlternatives:
			err = fmt.Errorf("has more than %d alternatives in braces", file.MaxAlternatives)
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
