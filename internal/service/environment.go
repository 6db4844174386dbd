package service

import (
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
)

// execution is the plan's command as the agent takes it.
func (p *plan) execution(id string, j *box.Box) wire.Exec {
	return p.forShell(wire.Exec{
		ID:        id,
		Argv:      p.argv,
		Env:       p.environment(),
		Cwd:       p.cwd(),
		UID:       j.UID,
		GID:       j.GID,
		Rlimits:   p.rlimits(),
		Stdin:     p.request.Stdin != nil || p.request.RunSpec.Stdin != "" || p.request.Interactive,
		TimeoutMS: int64(math.Ceil(p.limits.TimeoutSec * 1000)),
		CPUTimeMS: int64(math.Ceil(p.limits.CPUTimeSec * 1000)),
		GraceMS:   int64(math.Ceil(p.limits.GraceSec * 1000)),
		// One byte more than is kept tells, when it comes, that the log is cut there.
		OutputLimit: p.limits.LogBytes + 1,
		KillAll:     p.session == nil, // in a session survivors live on
	})
}

// cwd is the directory in which the command starts: the request's, else the image's, else the workspace, which is the agent's
// own choice. A run that brings files starts where they are.
func (p *plan) cwd() string {
	if clean, err := belljar.CleanPath(p.request.Cwd); err == nil {
		return path.Join(belljar.WorkspaceDir, clean)
	}
	if len(p.files) > 0 || p.request.Upload != nil || p.build != nil {
		return ""
	}
	return p.image.WorkingDir
}

// environment is the whole environment of the command: Belljar's, over it the image's, the session's and the request's.
func (p *plan) environment() []string {
	env := map[string]string{
		"HOME":    belljar.WorkspaceDir,
		"PWD":     belljar.WorkspaceDir,
		"USER":    box.User,
		"LOGNAME": box.User,
		"LANG":    "C.UTF-8",
		"PATH":    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin",
		"TMPDIR":  "/tmp",
		"TERM":    "dumb",
	}
	if p.exec && !p.caps.SharedTmp {
		env["TMPDIR"] = path.Join(belljar.WorkspaceDir, box.TmpDir)
	}
	if p.image.GoCache != "" {
		env["GOCACHE"] = runtime.GoCacheDir
	}
	if dir := p.cwd(); dir != "" {
		env["PWD"] = dir
	}
	for _, pair := range p.image.Env {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	if p.session != nil {
		maps.Copy(env, p.session.plan.request.Env)
	}
	maps.Copy(env, p.request.Env)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// dataFactor is RLIMIT_DATA as a multiple of the memory limit. It counts what a process maps, not what it touches: a thread's
// stack is 8 MiB, and Java maps its heap ahead. With the limit itself, a Java program of a dozen threads fails at 512 MiB.
const dataFactor = 2

// rlimits are S0 §12's. A process with several threads uses CPU time faster than the clock runs, so the cap on that
// grows with the cores; it only has to catch what outlives the clock's.
func (p *plan) rlimits() map[string]uint64 {
	l := p.limits
	limits := map[string]uint64{
		"nofile": uint64(l.NoFile),
		"nproc":  uint64(l.NProc),
		"core":   0,
		"cpu":    uint64(math.Ceil(l.TimeoutSec*max(1, l.CPU))) + 2,
		"fsize":  uint64(max(l.WorkspaceMB, l.TmpMB)) << 20,
	}
	if p.caps.Protection(runtime.ProtectMemory).By == runtime.ByRlimitData {
		limits["data"] = dataFactor * uint64(l.MemoryMB) << 20
	}
	return limits
}

// bind makes the limits those in force. Where a sandbox has ids of its own, nproc is also what holds its programs to the
// limit on processes, and leaves its agent out of that.
func (p *plan) bind() {
	if p.caps.Protection(runtime.ProtectPids).Enforced {
		p.limits.NProc = min(p.limits.NProc, p.limits.Pids)
	}
}

// inForce is the limits as they are reported: one that nothing holds the sandbox to is 0.
func (p *plan) inForce() belljar.Limits {
	l := p.limits
	for name, clear := range map[string]func(){
		runtime.ProtectCPU: func() { l.CPU = 0 }, runtime.ProtectMemory: func() { l.MemoryMB, l.BuildMemoryMB = 0, 0 }, runtime.ProtectPids: func() { l.Pids = 0 },
	} {
		if !p.caps.Protection(name).Enforced {
			clear()
		}
	}
	return l
}

// buildsGo reports whether a request is likely to build Go programs.
func buildsGo(r belljar.RunRequest) bool {
	l, _ := belljar.LanguageOf(r.Language)
	return l.Name == "Go" || len(r.Command) > 0 && path.Base(r.Command[0]) == "go"
}
