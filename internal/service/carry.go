package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
)

// carrier carries runs from their places in the queue to their answers.
type carrier struct {
	*recorder
	boxes         *box.Maker
	memory        *admission.Memory
	accounts      *admission.Accounts
	blobs         blob.Store
	builtPrograms builtPrograms
	done          func() // ends a run's part of the work under way

	slack    time.Duration // that a command may take longer than its agent allows
	lease    time.Duration // of a sandbox
	queueTTL time.Duration

	outlives func() bool // what is on record outlives the process
	stays    func() bool // sessions and what runs in them outlive the process
	drains   func() bool // nothing new begins
}

// captureTime bounds bringing a run's files home.
const captureTime = time.Minute

// passage is a run on its way: it waits for its turn, gets a sandbox and starts its command there ([passage.start]), is
// followed until the command ends ([passage.follow]), and comes to its end on record ([passage.settle]). After a restart
// it begins in the middle, with a command that runs.
type passage struct {
	*carrier
	run  *run
	id   string // of the command at its agent
	plan *plan
	jar  *box.Box // nil until there is a sandbox
	out  *transcript
	end  ending

	mu   sync.Mutex     // guards what follows while the command is followed
	proc *agent.Process // nil until there is a command; another when the stream to its agent broke
}

// passage returns a run's way, from its beginning.
func (s *carrier) passage(r *run) *passage {
	p := r.plan
	c := &passage{
		carrier: s, run: r, id: r.id, plan: p,
		out: &transcript{log: r.log, room: p.Limits.LogBytes, allowed: r.kept},
		end: ending{command: p.called(), cwd: p.request.Cwd, limits: p.InForce(), workspaceExec: p.Exec},
	}
	if p.session != nil {
		c.out.heard = p.session.stir
	}
	return c
}

// carry takes a run from its place in the queue to its answer, and its sandbox away behind that.
func (s *carrier) carry(r *run) {
	defer s.done()
	defer r.stop(nil)
	defer r.ticket.Leave()
	defer s.memory.Drop(r.id)
	defer r.discharge()
	if !s.wait(r) {
		if err := s.enlist(r); err != nil {
			s.log.Error("run that waits could not be put on record", "run_id", r.id, "err", err)
		}
		r.hush()
		return
	}
	c := s.passage(r)
	if c.start() {
		c.attend()
	} else {
		c.settle()
	}
}

// attend follows the run's command to its end, and concludes; unless the command is left to the next process.
func (c *passage) attend() {
	if c.follow(); errors.Is(c.end.err, fault.ErrDetached) {
		c.detach()
		return
	}
	c.settle()
}

// start makes the run's sandbox and starts its command. It reports whether the command runs; the ending says why not.
func (c *passage) start() bool {
	e := &c.end
	if e.err = context.Cause(c.run.ctx); e.err != nil {
		return false
	}
	if e.err = c.awaitMemory(c.run); e.err != nil {
		return false
	}
	begin := time.Now()
	if c.jar, e.err = c.provision(c.run, c.plan, begin); e.err != nil {
		return false
	}
	e.base(c.run.ctx, c.plan, c.jar)
	if c.plan.build != nil {
		if !c.compile(begin) {
			return false
		}
		begin = time.Now()
	}
	ctx, cancel := startup(c.run, c.plan, begin)
	defer cancel()
	told := c.now()
	if c.proc, e.err = c.jar.Exec(ctx, c.plan.execution(c.id, c.jar), c.plan.Image.WorkingDir); e.err != nil {
		return false
	}
	e.started = true
	e.err = c.begun(told)
	return e.err == nil
}

// begun says in the log and on record that the command runs, since a time.
func (c *passage) begun(told time.Time) error {
	if err := c.begin(c.run, told); err != nil {
		return err
	}
	c.note(c.run)
	if !c.run.resumable() {
		c.write(c.run) // what was asked goes on record only now
	}
	if c.stays() && c.run.settled() && c.drains() {
		c.run.stop(fault.ErrDetached)
	}
	c.happened(event.RunRunning, c.run, c.now().Sub(c.run.state.CreatedAt))
	return nil
}

// settle decides what became of the run, brings its files home, answers, and takes its sandbox away behind the answer.
func (c *passage) settle() {
	r, p, e := c.run, c.plan, &c.end
	e.overdue = errors.Is(e.err, errOverdue)
	if r.ctx.Err() != nil && !errors.Is(context.Cause(r.ctx), fault.ErrDetached) {
		e.stopped = context.Cause(r.ctx)
	}
	var files *captured
	var troubles []string
	if c.jar != nil {
		e.reckon(r.ctx, p, c.jar)
		if e.exit != nil && e.exit.Cause != wire.CauseEnded && e.exit.Cause != wire.CauseKillFailed {
			files, troubles = c.capture(r, p, c.jar)
		}
	}
	o := judge(*e)
	p.session.remember(o.shell)
	o.warnings = append(o.warnings, c.out.warnings(*e, p.Limits)...)
	if w := unenforced(p.Caps); w != "" && e.started {
		o.warn("%s", w)
	}
	o.warnings = append(o.warnings, troubles...)
	if e.building {
		e.usage = runtime.Usage{} // the build's alone
	}
	usage := resourceUsage(*e, r.ran(c.now()), c.out.kept, files.bytes())
	if c.out.cut {
		c.count(event.LogTruncated, p.Host.Name(), c.out.reason, 1)
	}
	c.conclude(r, o, usage, files, c.out.cut)
	c.vacate()
}

// vacate takes the run's sandbox away. A session's goes only if nothing in it can be trusted to end any more.
func (c *passage) vacate() {
	if c.proc != nil {
		defer c.proc.Close()
	}
	switch {
	case c.jar == nil:
	case c.plan.session == nil:
		c.boxes.Destroy(c.run.id, c.jar)
	default:
		defer c.plan.session.release()
		if c.end.overdue || outlived(c.end.exit) || outlived(c.end.build) {
			c.boxes.Destroy(c.run.id, c.jar)
			return
		}
		c.forget()
		c.unbuild()
	}
}

// outlived reports whether a command ended without its processes.
func outlived(exit *wire.Exit) bool { return exit != nil && exit.Cause == wire.CauseKillFailed }

// forget has the agent of a session forget the run's command. One that may have been started all the same, although
// nobody followed it, is ended first.
func (c *passage) forget() {
	var err error
	var refused *wire.Error
	switch {
	case c.end.exit != nil:
		err = c.proc.Forget()
		if errors.Is(err, errors.ErrUnsupported) {
			ctx, cancel := context.WithTimeout(context.Background(), reckoning)
			defer cancel()
			err = c.jar.Agent.Forget(ctx, c.id)
		}
	case c.end.sandbox == nil && !errors.As(c.end.err, &refused):
		err = c.jar.End(c.id, seconds(c.plan.Limits.GraceSec)+c.slack)
	}
	if err != nil && !errors.Is(err, agent.ErrDisconnected) && !errors.Is(err, runtime.ErrGone) {
		c.log.Warn("command could not be forgotten", "run_id", c.run.id, "err", err)
	}
}
