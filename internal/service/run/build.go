package run

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/outcome"
	"github.com/belljar/belljar/internal/service/placement"
)

// build describes how a plan's program is compiled in its sandbox, before it runs there.
type build struct {
	language belljar.Language
	file     string // of the source, relative to the program's working directory
	source   string // its text; "" if only the sandbox has it
	args     []string

	place     string     // of the program, relative to its working directory
	compilers [][]string // best first
}

// buildPrefix, before a run's id, is the id of the build at its agent.
const buildPrefix = "build-"

// maxBuildSource is how many bytes of a source are read to find the names in it.
const maxBuildSource = 1 << 20

// aim decides where the program of a run is built, and thus its command.
func (p *plan) aim(id string) {
	b := p.build
	b.place = path.Join(placement.TmpDir, "program-"+id)
	if dir := p.cwd(); dir == "" {
		b.place = "./" + b.place
	} else {
		b.place = path.Join(belljar.WorkspaceDir, b.place)
	}
	b.compilers, p.argv = b.language.Build(b.file, b.source, b.place, b.args)
}

// forBuild returns the plan of the build: a command without input, under the limits of builds.
func (p *plan) forBuild() *plan {
	own := *p
	own.build, own.request.Input, own.request.Stdin, own.request.Interactive = nil, nil, "", false
	own.Limits.TimeoutSec, own.Limits.LogBytes = p.Limits.BuildTimeoutSec, belljar.MaxBuildOutput
	own.Limits.CPUTimeSec = 0 // this limit applies to the program
	own.Limits.MemoryMB = p.buildMemory()
	return &own
}

// buildMemory returns the compiler's memory limit, in MiB.
func (p *plan) buildMemory() int { return cmp.Or(p.Limits.BuildMemoryMB, p.Limits.MemoryMB) }

// holdAt sets the memory limit of the sandbox from now on.
func (c *execution) holdAt(mb int) error {
	if c.plan.buildMemory() == c.plan.Limits.MemoryMB {
		return nil // the sandbox already has it
	}
	ctx, cancel := context.WithTimeout(c.run.ctx, usageTime)
	defer cancel()
	limiter, ok := c.box.Sandbox.(runtime.MemoryLimiter)
	if !ok {
		return errors.ErrUnsupported
	}
	return limiter.LimitMemory(ctx, mb)
}

// prepareTmp makes the folder for a build, and that for temporary files again, which a program of the session may have removed. If it cannot be
// made, the compiler or the program reports that.
func prepareTmp(c *execution) {
	p := c.plan
	if !p.Exec || p.Workspace.ReadOnly || p.build == nil && (p.session == nil || p.Caps.SharedTmp) {
		return
	}
	ctx, cancel := context.WithTimeout(c.run.ctx, usageTime)
	defer cancel()
	_ = c.box.PrepareWorkspace(ctx)
}

// compile builds the run's program. It reports whether it was built. If not, c.end has the reason. A build
// does not count towards the run's time, output and usage.
func (c *execution) compile(begin time.Time) bool {
	e := &c.end
	e.Building = true
	step := &execution{
		runner: c.runner, run: c.run, id: buildPrefix + c.run.id, plan: c.plan.forBuild(), box: c.box,
		out: &transcript{log: c.run.log, room: belljar.MaxBuildOutput, allowed: c.run.kept, step: belljar.StepBuild, onOutput: c.out.onOutput, hide: c.out.hide},
	}
	c.readSource()
	key, keep := c.buildKey()
	if keep && c.takeBuilt(key) {
		e.Building = false
		e.Err = c.holdAt(c.plan.Limits.MemoryMB)
		return e.Err == nil
	}
	if e.Err = c.holdAt(c.plan.buildMemory()); e.Err != nil {
		return false
	}
	if e.Err = step.startCompiler(begin, c.plan.build.compilers); e.Err != nil {
		var names []string
		for _, argv := range c.plan.build.compilers {
			names = append(names, argv[0])
		}
		e.Command = strings.Join(names, " or ")
		if step.end.Err = e.Err; c.plan.session != nil {
			step.forget() // it may have started
		}
		return false
	}
	argv, _ := outcome.TruncateCommand(step.plan.argv)
	built := &belljar.Build{Argv: slices.Clone(argv), OutputEncoding: "utf8"}
	c.run.built(built, belljar.EventBuildStart, map[string]any{"argv": built.Argv})
	step.follow()
	e.Build, e.Err = step.end.Exit, step.end.Err
	c.run.built(step.result(*built), belljar.EventBuildEnd, nil)
	if c.plan.session != nil {
		step.forget()
	}
	step.proc.Close()
	if e.Err == nil {
		c.measure(c.run.ctx)
	}
	if e.Err != nil || e.Build.Cause != wire.CauseExited || e.Build.Signal != 0 || e.Build.Code != 0 {
		return false
	}
	if e.Err = context.Cause(c.run.ctx); e.Err != nil {
		return false
	}
	if e.Err = c.holdAt(c.plan.Limits.MemoryMB); e.Err != nil {
		c.runner.log.Info("memory of a program cannot be limited after its build", "run_id", c.run.id, "err", e.Err)
		e.LeftBehind = errors.Is(e.Err, runtime.ErrMemoryHeld)
		return false
	}
	e.Building = false
	if keep {
		c.keepBuilt(key)
	}
	if e.Before, e.Usage = e.Usage, (runtime.Usage{}); c.plan.session != nil {
		c.countBefore(c.run.ctx)
	}
	c.runner.note(c.run)
	_ = c.runner.flush(c.run, false)
	return true
}

// startCompiler starts the first compiler that exists.
func (c *execution) startCompiler(begin time.Time, compilers [][]string) (err error) {
	ctx, cancel := startup(c.run, c.plan, begin)
	defer cancel()
	for _, argv := range compilers {
		c.plan.argv = argv
		c.proc, err = c.box.Exec(ctx, c.plan.command(c.id, c.box), c.plan.Image.WorkingDir)
		var refused *wire.Error
		if !errors.As(err, &refused) || refused.Code != wire.CodeExecFailed || refused.Errno != wire.ENOENT || refused.Step == wire.StepChdir {
			return err
		}
	}
	c.plan.argv = compilers[0]
	return err
}

// readSource reads a source that is a file, if the language needs its text.
func (c *execution) readSource() {
	p := c.plan
	b := p.build
	if b.source != "" || !b.language.GoesByText() {
		return
	}
	name := b.file
	if !path.IsAbs(name) {
		name = path.Join(belljar.WorkspaceDir, p.request.Cwd, name)
	}
	ctx, cancel := context.WithTimeout(c.run.ctx, usageTime)
	defer cancel()
	req := c.box.File(name)
	req.Limit = maxBuildSource
	r, _, err := c.box.Agent.ReadFile(ctx, req)
	if err != nil {
		return // the compiler reports the error
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxBuildSource))
	if err != nil {
		return
	}
	b.compilers, p.argv = b.language.Build(b.file, string(text), b.place, b.args)
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	c.run.state.Command, c.run.state.CommandTruncated = outcome.TruncateCommand(p.argv)
}

// result returns the finished or lost build.
func (c *execution) result(b belljar.Build) *belljar.Build {
	usage := belljar.ResourceUsage{Sources: map[string]string{}}
	if exit := c.end.Exit; exit != nil {
		usage = outcome.ResourceUsage(outcome.Ending{Exit: exit, Limits: c.plan.Limits}, 0, c.out.kept, 0)
		b.DurationSec = usage.WallTimeSec
		b.ExitCode, _ = outcome.Status(exit)
	}
	usage.Limits = nil // they describe the run
	b.Usage, b.OutputTruncated = &usage, c.out.cut
	b.Output = string(c.out.output)
	if !utf8.Valid(c.out.output) {
		b.Output, b.OutputEncoding = base64.StdEncoding.EncodeToString(c.out.output), "base64"
	}
	return &b
}

// built updates the state of a run's build, and adds it to the log.
func (r *Run) built(b *belljar.Build, event string, data map[string]any) {
	r.mu.Lock()
	r.state.Build = b
	r.mu.Unlock()
	if data == nil {
		data = map[string]any{"exit_code": nil, "duration_sec": b.DurationSec, "output_truncated": b.OutputTruncated}
		if b.ExitCode != nil {
			data["exit_code"] = *b.ExitCode
		}
	}
	data["step"] = belljar.StepBuild
	r.appendLog(belljar.Frame{Type: belljar.FrameEvent, Event: event, Data: data})
}

// removeBuilt removes the compiled program of a session's run.
func (c *execution) removeBuilt() {
	if c.plan.build == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), usageTime)
	defer cancel()
	req := c.box.File(c.plan.builtPath())
	req.Recursive = true
	if err := c.box.Agent.Delete(ctx, req); err != nil && !box.IsNotFound(err) {
		c.runner.log.Warn("built program cannot be removed", "run_id", c.run.id, "err", err)
	}
}
