package run

import (
	"math"
	"path"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/box"
)

// command returns the plan's command for the agent.
func (p *plan) command(id string, b *box.Box) wire.Exec {
	limits := p.Rlimits()
	if p.session != nil {
		delete(limits, "cpu") // surviving processes have it as well, and may use more CPU time than the run
	}
	return p.forShell(wire.Exec{
		ID:        id,
		Argv:      p.argv,
		Env:       p.environment(),
		Cwd:       p.cwd(),
		UID:       b.UID,
		GID:       b.GID,
		Rlimits:   limits,
		Stdin:     p.request.Input != nil || p.request.Stdin != "" || p.request.Interactive,
		TimeoutMS: int64(math.Ceil(p.Limits.TimeoutSec * 1000)),
		CPUTimeMS: int64(math.Ceil(p.Limits.CPUTimeSec * 1000)),
		GraceMS:   int64(math.Ceil(p.Limits.GraceSec * 1000)),
		// One byte more than is kept: that byte truncates the log.
		OutputLimit: p.Limits.LogBytes + 1,
		KillAll:     p.session == nil, // in a session, surviving processes continue
		Warm:        p.warm,
	})
}

// cwd returns the working directory of the command: the request's, else the image's, else the workspace, which is the agent's default. A
// run with files or a volume starts in the workspace, and so do a file in a language, a session's shell and contexts.
func (p *plan) cwd() string {
	clean, err := belljar.CleanPath(p.request.Cwd)
	if err == nil && clean != "." {
		return path.Join(belljar.WorkspaceDir, clean)
	}
	r := p.request
	if err == nil || r.Shell != nil || r.Context != "" || r.Language != "" || len(p.files) > 0 || r.Upload != nil || r.Git != nil || r.Template != "" || r.Workspace.Volume != "" {
		return ""
	}
	return p.Image.WorkingDir
}

// environment returns the whole environment of the command: Belljar's variables, overridden by the image's, the session's and the request's.
func (p *plan) environment() []string {
	if p.session != nil {
		return p.Environment(p.cwd(), p.session.Env(), p.request.Env)
	}
	return p.Environment(p.cwd(), p.request.Env)
}
