package service

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
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
	"github.com/belljar/belljar/internal/service/placement"
)

// build is how a plan's program is compiled in its sandbox, before it runs there.
type build struct {
	language belljar.Language
	file     string // of the source, from where the program starts
	source   string // its text; "" if that is known in the sandbox only
	args     []string

	place     string     // of the program, from where it starts
	compilers [][]string // best first
}

// buildPrefix makes of a run's id what its agent knows the build by.
const buildPrefix = "build-"

// maxBuildSource is how much of a source is read for the names in it, in bytes.
const maxBuildSource = 1 << 20

// aim decides where the program of a run is built, and so what is executed.
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

// forBuild is the plan of the build: a command without input, under the limits of builds.
func (p *plan) forBuild() *plan {
	own := *p
	own.build, own.request.Stdin, own.request.RunSpec.Stdin, own.request.Interactive = nil, nil, "", false
	own.Limits.TimeoutSec, own.Limits.LogBytes = p.Limits.BuildTimeoutSec, belljar.MaxBuildOutput
	own.Limits.CPUTimeSec = 0 // that is the program's
	own.Limits.MemoryMB = p.buildMemory()
	return &own
}

// buildMemory is what the compiler may have, in MiB.
func (p *plan) buildMemory() int { return cmp.Or(p.Limits.BuildMemoryMB, p.Limits.MemoryMB) }

// holdAt has what runs in the sandbox from now on held at its own limit of memory.
func (c *passage) holdAt(mb int) error {
	if c.plan.buildMemory() == c.plan.Limits.MemoryMB {
		return nil // as the sandbox was made
	}
	ctx, cancel := context.WithTimeout(c.run.ctx, reckoning)
	defer cancel()
	limiter, ok := c.jar.Sandbox.(runtime.MemoryLimiter)
	if !ok {
		return errors.ErrUnsupported
	}
	return limiter.LimitMemory(ctx, mb)
}

// compile builds the run's program. It reports whether there is one now; the ending says why not. A build is no part of
// the run's time, output and usage.
func (c *passage) compile(begin time.Time) bool {
	e := &c.end
	e.building = true
	step := &passage{
		carrier: c.carrier, run: c.run, id: buildPrefix + c.run.id, plan: c.plan.forBuild(), jar: c.jar,
		out: &transcript{log: c.run.log, room: belljar.MaxBuildOutput, allowed: c.run.kept, step: belljar.StepBuild, heard: c.out.heard},
	}
	c.readSource()
	ctx, cancel := context.WithTimeout(c.run.ctx, captureTime)
	defer cancel()
	key, keep := c.buildKey()
	if keep && c.takeBuilt(ctx, key) {
		e.building = false
		e.err = c.holdAt(c.plan.Limits.MemoryMB)
		return e.err == nil
	}
	if e.err = c.holdAt(c.plan.buildMemory()); e.err != nil {
		return false
	}
	if e.err = step.startCompiler(begin, c.plan.build.compilers); e.err != nil {
		var names []string
		for _, argv := range c.plan.build.compilers {
			names = append(names, argv[0])
		}
		e.command = strings.Join(names, " or ")
		return false
	}
	built := &belljar.Build{Argv: brief(step.plan.argv), OutputEncoding: "utf8"}
	c.run.built(built, belljar.EventBuildStart, map[string]any{"argv": built.Argv})
	step.follow()
	e.build, e.err = step.end.exit, step.end.err
	c.run.built(step.result(*built), belljar.EventBuildEnd, nil)
	if c.plan.session != nil {
		step.forget()
	}
	step.proc.Close()
	if e.err == nil {
		e.reckon(c.run.ctx, c.plan, c.jar)
	}
	if e.err != nil || e.build.Cause != wire.CauseExited || e.build.Signal != 0 || e.build.Code != 0 {
		return false
	}
	if e.err = context.Cause(c.run.ctx); e.err != nil {
		return false
	}
	if e.err = c.holdAt(c.plan.Limits.MemoryMB); e.err != nil {
		c.log.Info("the memory of a program could not be limited after its build", "run_id", c.run.id, "err", e.err)
		e.leftBehind = true
		return false
	}
	e.building = false
	if keep {
		c.keepBuilt(ctx, key)
	}
	if e.before, e.usage = e.usage, (runtime.Usage{}); c.plan.session != nil {
		e.base(c.run.ctx, c.plan, c.jar)
	}
	c.note(c.run)
	c.write(c.run)
	return true
}

// startCompiler starts the first compiler that there is.
func (c *passage) startCompiler(begin time.Time, compilers [][]string) (err error) {
	ctx, cancel := startup(c.run, c.plan, begin)
	defer cancel()
	for _, argv := range compilers {
		c.plan.argv = argv
		c.proc, err = c.jar.Exec(ctx, c.plan.execution(c.id, c.jar), c.plan.Image.WorkingDir)
		var refused *wire.Error
		if !errors.As(err, &refused) || refused.Code != wire.CodeExecFailed || refused.Errno != wire.ENOENT || refused.Step == wire.StepChdir {
			return err
		}
	}
	c.plan.argv = compilers[0]
	return err
}

// readSource reads the source that came as a file, if what runs goes by its text.
func (c *passage) readSource() {
	p := c.plan
	b := p.build
	if b.source != "" || !b.language.GoesByText() {
		return
	}
	name := b.file
	if !path.IsAbs(name) {
		name = path.Join(belljar.WorkspaceDir, p.request.Cwd, name)
	}
	ctx, cancel := context.WithTimeout(c.run.ctx, reckoning)
	defer cancel()
	req := c.jar.File(name)
	req.Limit = maxBuildSource
	r, _, err := c.jar.Agent.ReadFile(ctx, req)
	if err != nil {
		return // the compiler says what is wrong with it
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxBuildSource))
	if err != nil {
		return
	}
	b.compilers, p.argv = b.language.Build(b.file, string(text), b.place, b.args)
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	c.run.state.Command, c.run.state.CommandTruncated = briefCommand(p.argv)
}

// result is what came of a build that has ended, or was lost.
func (c *passage) result(b belljar.Build) *belljar.Build {
	usage := belljar.ResourceUsage{Sources: map[string]string{}}
	if exit := c.end.exit; exit != nil {
		usage = resourceUsage(ending{exit: exit, limits: c.plan.Limits}, 0, c.out.kept, 0)
		b.DurationSec = usage.WallTimeSec
		b.ExitCode, _ = status(exit)
	}
	usage.Limits = nil // they are the run's
	b.Usage, b.OutputTruncated = &usage, c.out.cut
	b.Output = string(c.out.said)
	if !utf8.Valid(c.out.said) {
		b.Output, b.OutputEncoding = base64.StdEncoding.EncodeToString(c.out.said), "base64"
	}
	return &b
}

// built notes how the build of a run stands, and says so in its log.
func (r *run) built(b *belljar.Build, event string, data map[string]any) {
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
	r.say(belljar.Frame{Type: belljar.FrameEvent, Event: event, Data: data})
}

// unbuild removes what a session's run has built.
func (c *passage) unbuild() {
	if c.plan.build == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), reckoning)
	defer cancel()
	req := c.jar.File(c.plan.builtPath())
	req.Recursive = true
	if err := c.jar.Agent.Delete(ctx, req); err != nil && !box.IsNotFound(err) {
		c.log.Warn("built program could not be removed", "run_id", c.run.id, "err", err)
	}
}

// withoutBuild is what the program alone has used of a sandbox in which it was built. A peak that is not above that of the
// build is not known.
func withoutBuild(before, after runtime.Usage) runtime.Usage {
	own := since(before, after)
	if after.CPU != nil && before.CPU != nil {
		cpu := *after.CPU - *before.CPU
		own.CPU = &cpu
	}
	if after.PeakMemory != nil && *after.PeakMemory > value(before.PeakMemory) {
		own.PeakMemory = after.PeakMemory
	}
	if after.PeakPids != nil && *after.PeakPids > value(before.PeakPids) {
		own.PeakPids = after.PeakPids
	}
	return own
}

// brief is a copy of as much of a command as goes on record.
func brief(argv []string) []string {
	kept, _ := briefCommand(argv)
	return slices.Clone(kept)
}

// byBuild judges a program that was not built.
func (e ending) byBuild() outcome {
	var o outcome
	ooms, refused := value(e.usage.OOMKills), value(e.usage.PidsRefused)
	l, name := e.limits, "the compiler"
	failed := func(message, hint string) {
		o.set(belljar.PhaseFailed, belljar.ReasonCompileFailed, message)
		o.hint = hint
	}
	switch {
	case outlived(e.build):
		o.set(belljar.PhaseFailed, belljar.ReasonKillFailed, "processes outlived every kill; the sandbox was destroyed")
	case e.stopped != nil && (e.build == nil || e.build.Cause == wire.CauseEnded || e.build.Cause == wire.CauseExited && e.build.Code == 0 && e.build.Signal == 0):
		o.stopped(e.stopped)
	case e.overdue, e.build != nil && e.build.Cause == wire.CauseTimeout:
		failed(fmt.Sprintf("%s ran longer than %v seconds", name, l.BuildTimeoutSec), "allow it more time with build_timeout_sec (--build-timeout)")
	case ooms > 0, e.build == nil && e.sandbox.Reason == runtime.ExitOOM:
		failed(fmt.Sprintf("%s ran out of memory (limit %d MiB)", name, cmp.Or(l.BuildMemoryMB, l.MemoryMB)), "allow it more with build_memory_mb (--build-memory)")
	case refused > 0:
		failed(fmt.Sprintf("%s reached the limit of %d processes and threads", name, box.MaxProcesses(l)), "allow more with "+box.ProcessLimit(l))
	case e.leftBehind:
		failed(fmt.Sprintf("%s left more memory in use than the program may have (%d MiB)", name, l.MemoryMB), "allow the program more with memory_mb (--memory)")
	case e.build == nil:
		e.died(&o)
	case e.build.Cause == wire.CauseLost:
		o.set(belljar.PhaseFailed, belljar.ReasonSandboxDied, "the compiler's supervisor died; its exit status is lost")
	case e.build.Signal != 0:
		failed(name+" was killed by "+signalName(e.build.Signal), "")
	default:
		failed(fmt.Sprintf("%s exited with status %d", name, e.build.Code), "")
	}
	return o
}
