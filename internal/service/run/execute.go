package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/built"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/git"
	"github.com/belljar/belljar/internal/service/install"
	"github.com/belljar/belljar/internal/service/outcome"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/secret"
	"github.com/belljar/belljar/internal/service/snapshot"
	"github.com/belljar/belljar/internal/service/template"
)

// runner executes runs from the queue to the response.
type runner struct {
	*recorder
	boxes     *box.Maker
	cloner    *git.Cloner
	installer *install.Installer
	snapshots *snapshot.Snapshots
	templates *template.Templates
	closed    context.Context // ends when the service has closed
	memory    *admission.Memory
	accounts  *admission.Accounts
	blobs     blob.Store
	rules     *admission.Rules
	built     built.Programs

	slack    time.Duration // how much longer than its agent's deadline a command may last
	lease    time.Duration // lease of a sandbox
	queueTTL time.Duration
	queues   bool // runs without a session may wait for a slot

	recordsSurvive, sessionsSurvive bool // see [Options]
}

// captureTime bounds the capture of a run's artifacts.
const captureTime = time.Minute

// execution is a run in its sandbox. It makes the sandbox and starts the command ([execution.start]), follows the command to its
// end ([execution.follow]), and records the end ([execution.settle]). After a restart it begins with a running command.
type execution struct {
	runner *runner
	run    *Run
	id     string // of the command at its agent
	plan   *plan
	box    *box.Box // nil until there is a sandbox
	out    *transcript
	end    outcome.Ending
	cpu    *time.Duration // of its own sandbox, as the host counts it; nil if unknown
	net    network
	tree   *git.Tree // of its repository, removed once the command runs; nil for none

	mu   sync.Mutex     // guards the following fields while the command is followed
	proc *agent.Process // nil until there is a command; replaced when the stream to its agent breaks
}

// execution returns the execution of a run that has not begun.
func (s *runner) execution(r *Run) *execution {
	p := r.plan
	c := &execution{
		runner: s, run: r, id: r.id, plan: p,
		out: &transcript{log: r.log, room: p.Limits.LogBytes, allowed: r.kept},
		end: outcome.Ending{Command: p.called(), Cwd: p.request.Cwd, Limits: p.InForce(), Workspace: p.Workspace, WorkspaceExec: p.Exec, InSession: p.session != nil},
	}
	if p.session != nil {
		c.out.onOutput = p.session.KeepAlive
	}
	c.out.onCut = func(reason string) {
		r.muted.Store(true)
		s.record(event.Event{Name: event.LogTruncated, Runtime: p.Host.Name(), Component: "ws", Reason: reason, Count: 1})
	}
	return c
}

// carry executes a run from the queue to the response, and removes its sandbox afterwards.
func (s *runner) carry(r *Run) {
	defer s.work.Done()
	defer r.stop(nil)
	defer r.ticket.Leave()
	defer s.memory.Drop(r.id)
	defer r.releaseRequest()
	if !r.waiting() {
		s.happened(event.RunStarting, r, 0)
	} else if !s.wait(r) {
		if err := s.flush(r, true); err != nil {
			s.log.Error("queued run cannot be recorded", "run_id", r.id, "err", err)
		}
		r.stopUpdates()
		return
	}
	c := s.execution(r)
	if c.start() {
		c.attend()
	} else {
		c.settle()
	}
}

// attend follows the run's command to its end and settles the run, unless the command is left to the next process.
func (c *execution) attend() {
	if c.follow(); errors.Is(c.end.Err, fault.ErrDetached) {
		c.detach()
		return
	}
	c.settle()
}

// start makes the run's sandbox and starts its command. It reports whether the command runs. If not, c.end has the reason.
func (c *execution) start() bool {
	e := &c.end
	if e.Err = context.Cause(c.run.ctx); e.Err != nil {
		return false
	}
	if c.tree, e.Err = c.clone(); e.Err != nil {
		return false
	}
	defer c.tree.Close()
	packages, err := c.install()
	if c.plan.session == nil {
		c.runner.memory.Settle(c.id, c.plan.Placement)
	}
	if err == nil {
		packages, err = c.unpackSnapshot(packages)
	}
	var from *snapshot.Source
	if err == nil {
		from, packages, err = c.layTemplate(packages)
	}
	if e.Err = err; err != nil {
		return false
	}
	begin := time.Now()
	if c.box, e.Err = c.runner.provision(c.run, c.plan, begin, c.tree, packages, from); e.Err != nil {
		return false
	}
	c.hideSecrets()
	c.watchNetwork()
	c.countBefore(c.run.ctx)
	prepareTmp(c)
	if c.plan.build != nil {
		if !c.compile(begin) {
			return false
		}
		begin = time.Now()
	}
	ctx, cancel := startup(c.run, c.plan, begin)
	defer cancel()
	if e.Err = c.box.Network.Pin(ctx); e.Err != nil {
		return false
	}
	if c.plan.session == nil { // after the build, whose programs must not see them
		if e.Err = c.box.WriteSecrets(ctx, c.plan.request.Secrets); e.Err != nil {
			return false
		}
	}
	if e.Err = from.Start(ctx, c.box, c.plan.command(c.id, c.box)); e.Err != nil {
		return false
	}
	if e.Err = c.replay(ctx); e.Err != nil {
		return false
	}
	started := c.runner.now()
	if c.proc, e.Err = c.box.Exec(ctx, c.plan.command(c.id, c.box), c.plan.Image.WorkingDir); e.Err != nil {
		return false
	}
	e.Started = true
	c.run.writing.Lock()
	c.plan.files, c.plan.request.Files = nil, nil // a command that has begun is not begun again: its record needs them no longer
	c.run.writing.Unlock()
	c.noteWarm()
	e.Err = c.begun(started)
	return e.Err == nil
}

// hideSecrets redacts the secrets of the run, or of its session, in its log.
func (c *execution) hideSecrets() {
	if c.plan.session == nil {
		c.box.Hidden = secret.Patterns(c.plan.request.Secrets)
	}
	c.out.hide = c.box.Hidden
}

// begun logs and records since when the command has been running.
func (c *execution) begun(since time.Time) error {
	if err := c.runner.begin(c.run, since); err != nil {
		return err
	}
	if !c.run.resumable() {
		_ = c.runner.flush(c.run, false) // its request is only recorded now
	}
	if c.runner.sessionsSurvive && c.run.inSession() && c.runner.work.Refused() {
		c.run.stop(fault.ErrDetached)
	}
	c.runner.happened(event.RunRunning, c.run, c.runner.now().Sub(c.run.queuedAt()))
	return nil
}

// settle derives the run's outcome, captures its artifacts, publishes the end, and then removes the sandbox.
func (c *execution) settle() {
	r, p, e := c.run, c.plan, &c.end
	e.Overdue = errors.Is(e.Err, fault.ErrOverdue)
	if r.ctx.Err() != nil && !errors.Is(context.Cause(r.ctx), fault.ErrDetached) {
		e.Stopped = context.Cause(r.ctx)
	}
	var files *captured
	var troubles []string
	if c.box != nil {
		c.measure(r.ctx)
		if e.Exit != nil && e.Exit.Cause != wire.CauseEnded && e.Exit.Cause != wire.CauseKillFailed {
			files, troubles = c.runner.capture(r, p, c.box)
			if len(p.patterns) > 0 && errors.Is(context.Cause(r.ctx), fault.ErrDetached) {
				files.recorded()
				c.detach() // the next process copies the rest
				return
			}
		}
	}
	o := outcome.Decide(*e)
	if p.session != nil && o.Shell != nil && p.request.Context == "" {
		p.session.SetCwd(o.Shell.Cwd)
	}
	if p.request.Context != "" && o.Shell != nil && p.session.Contexts.Lost(p.request.Context) && o.Shell.State == belljar.ShellKept {
		o.Shell.State = belljar.ContextNew // unless the run also ended its interpreter
	}
	renewContext(c)
	o.Warnings = append(o.Warnings, c.out.warnings(*e, p.Limits)...)
	if w := placement.Unenforced(p.Caps); w != "" && e.Started {
		o.Warn("%s", w)
	}
	o.Warnings = append(append(append(o.Warnings, c.tree.Warnings()...), troubles...), c.endNetwork()...)
	if e.Building {
		e.Usage = runtime.Usage{} // only the build's
	}
	o.Failure = c.failure(o)
	usage := outcome.ResourceUsage(*e, r.ran(c.runner.now()), c.out.kept, files.bytes())
	scarce := !c.runner.queues || p.Workspace.OnDisk() || c.runner.memory.Mode == admission.AdmitCaps || c.runner.memory.Quoted(r.id)
	if p.session == nil && scarce { // the response makes its resources available: the next request could be refused for them
		c.releaseBox()
		c.runner.memory.Drop(r.id)
		r.ticket.Leave()
		c.conclude(o, usage, files)
		return
	}
	if p.session != nil { // the caller may use the shell once it has the response
		r.ticket.Leave()
	}
	c.conclude(o, usage, files)
	c.releaseBox()
}

// releaseBox removes the run's sandbox. It removes a session's sandbox only if processes in it cannot be killed.
func (c *execution) releaseBox() {
	if c.proc != nil {
		defer c.proc.Close()
	}
	switch {
	case c.box == nil:
	case c.plan.session == nil:
		c.runner.boxes.Destroy(c.run.id, c.box)
	default:
		defer c.plan.session.Release()
		if c.end.Overdue || outcome.LeftProcesses(c.end.Exit) || outcome.LeftProcesses(c.end.Build) {
			c.runner.boxes.Destroy(c.run.id, c.box)
			return
		}
		c.forget()
		c.removeBuilt()
	}
}

// forget makes a session's agent forget the run's command. If the command may have started although its start failed here, it is
// ended first.
func (c *execution) forget() {
	var err error
	var refused *wire.Error
	switch {
	case c.end.Exit != nil:
		err = c.proc.Forget()
		if errors.Is(err, errors.ErrUnsupported) {
			ctx, cancel := context.WithTimeout(context.Background(), usageTime)
			defer cancel()
			err = c.box.Agent.Forget(ctx, c.id)
		}
	case c.end.Sandbox == nil && !errors.As(c.end.Err, &refused):
		grace := time.Duration(0)
		if c.plan.request.Context != "" || c.plan.request.Shell != nil { // killing it could cost the variables
			grace = clock.Seconds(c.plan.Limits.GraceSec)
		}
		err = c.box.End(c.id, grace, c.runner.slack)
	}
	if err != nil && !errors.Is(err, agent.ErrDisconnected) && !errors.Is(err, runtime.ErrGone) {
		c.runner.log.Warn("agent cannot forget a command", "run_id", c.run.id, "err", err)
	}
}
