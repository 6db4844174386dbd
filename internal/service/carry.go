package service

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
)

// Bounds of what the service does for a run beside its command.
const (
	reckoning   = 2 * time.Second // asking a sandbox what it used, or why it died
	captureTime = time.Minute     // bringing its files home
)

// errOverdue says that a command did not end when its agent should have ended it.
var errOverdue = errors.New("overdue")

// carry takes a run from its place in the queue to its answer, and its sandbox away behind that.
func (s *Service) carry(r *run) {
	defer s.work.Done()
	defer r.stop(nil)
	defer r.ticket.Leave()
	if !s.wait(r) {
		r.hush()
		return
	}
	p := r.plan
	begin := time.Now()
	e := ending{command: p.argv[0], limits: p.limits, workspaceExec: p.exec}
	out := &transcript{log: r.log, room: p.limits.LogBytes}
	var j *jar
	var files *captured
	var troubles []string
	e.err = context.Cause(r.ctx)
	if e.err == nil {
		j, e.err = s.provision(r, p, begin)
	}
	if e.err == nil {
		e.base(r.ctx, p, j)
		e.exit, e.started, e.err = s.execute(r, p, j, begin, out)
	}
	e.overdue = errors.Is(e.err, errOverdue)
	if r.ctx.Err() != nil {
		e.stopped = context.Cause(r.ctx)
	}
	if j != nil {
		e.reckon(r.ctx, p, j)
		if e.exit != nil && e.exit.Cause != wire.CauseEnded && e.exit.Cause != wire.CauseKillFailed {
			files, troubles = s.capture(r, p, j)
		}
	}

	o := judge(e)
	o.warnings = append(o.warnings, out.warnings(e, p.limits)...)
	if w := unenforced(p.caps); w != "" && e.started {
		o.warn("%s", w)
	}
	o.warnings = append(o.warnings, troubles...)
	usage := resourceUsage(e, r.ran(s.now()), out.kept, files.bytes())
	if out.cut {
		s.count(event.LogTruncated, p.host.Name(), out.reason, 1)
	}
	s.conclude(r, o, usage, files, out.cut)
	s.vacate(r, p, j, e)
}

// provision makes the run's sandbox and fills its workspace, within the startup timeout; in a session it is the
// session's. The sandbox is returned with an error too, if there is one.
func (s *Service) provision(r *run, p *plan, begin time.Time) (*jar, error) {
	ctx, cancel := startup(r, p, begin)
	defer cancel()
	if p.session != nil {
		j, err := p.session.acquire(ctx)
		if err != nil {
			return nil, err
		}
		return j, j.upload(ctx, p)
	}
	box, err := s.create(ctx, r, p)
	if err != nil {
		return nil, err
	}
	j, err := meet(ctx, box, p.caps)
	if err != nil {
		return j, err
	}
	return j, j.upload(ctx, p)
}

// vacate takes the run's sandbox away. A session's goes only if nothing in it can be trusted to end any more.
func (s *Service) vacate(r *run, p *plan, j *jar, e ending) {
	switch {
	case j == nil:
	case p.session == nil:
		s.destroy(r.id, j)
	default:
		defer p.session.release()
		if e.overdue || e.exit != nil && e.exit.Cause == wire.CauseKillFailed {
			s.destroy(r.id, j)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), reckoning)
		defer cancel()
		if err := j.agent.Forget(ctx, r.id); err != nil && !errors.Is(err, agent.ErrDisconnected) {
			s.log.Warn("command could not be forgotten", "run_id", r.id, "err", err)
		}
	}
}

// startup bounds everything that happens before the command runs.
func startup(r *run, p *plan, begin time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(r.ctx, begin.Add(seconds(p.limits.StartupTimeoutSec)), errStartupTimeout)
}

// create makes the sandbox, but does not wait for a runtime that is slow to give up: what it still returns is
// destroyed behind the answer.
func (s *Service) create(ctx context.Context, r *run, p *plan) (runtime.Sandbox, error) {
	type creation struct {
		box runtime.Sandbox
		err error
	}
	made := make(chan creation, 1)
	go func() {
		box, err := p.host.Create(ctx, p.spec(r.id, s.opts.Lifetime))
		made <- creation{box, err}
	}()
	select {
	case c := <-made:
		if c.err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return c.box, c.err
	case <-ctx.Done():
		s.work.Go(func() {
			if c := <-made; c.err == nil {
				s.destroy(r.id, c.box)
			}
		})
		return nil, context.Cause(ctx)
	}
}

// execute runs the command to its end. The command is told to end by its agent when its time is over, by r.ctx when
// the run is stopped; if it then outlives its grace, execute gives it up with errOverdue.
func (s *Service) execute(
	r *run, p *plan, j *jar, begin time.Time, out *transcript,
) (exit *wire.Exit, started bool, err error) {
	ctx, cancel := startup(r, p, begin)
	told := s.now()
	proc, err := j.agent.Exec(ctx, p.execution(r.id, j))
	cancel()
	if err != nil {
		return nil, false, err
	}
	defer proc.Close()
	if err := s.begin(r, told); err != nil {
		return nil, true, err
	}
	s.note(r)
	s.happened(event.RunRunning, r, s.now().Sub(r.state.CreatedAt))
	switch {
	case p.request.Stdin != nil:
		go feed(proc, p.request.Stdin)
	case p.request.Stdin == nil && p.request.RunSpec.Stdin != "":
		go feed(proc, strings.NewReader(p.request.RunSpec.Stdin))
	case p.request.Interactive:
		r.attachStdin(proc)
		defer r.detachStdin(stdinRunEnded)
	}
	watched, giveUp := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	guarded := make(chan struct{})
	go func() {
		defer close(guarded)
		guard(r.ctx, p.limits, s.opts.Slack, proc, ended, giveUp)
	}()
	result, err := proc.Output(watched, out.write)
	close(ended)
	<-guarded
	giveUp(nil)
	out.end()
	if err != nil {
		return nil, true, err
	}
	return &result, true, nil
}

// guard ends a command that is to stop, and gives up one that does not end when it should.
func guard(
	stop context.Context, l belljar.Limits, slack time.Duration, proc *agent.Process, ended <-chan struct{},
	giveUp context.CancelCauseFunc,
) {
	grace := seconds(l.GraceSec)
	limit := time.NewTimer(seconds(l.TimeoutSec) + grace + slack)
	defer limit.Stop()
	select {
	case <-ended:
		return
	case <-limit.C:
	case <-stop.Done():
		_ = proc.End(grace) // if it cannot be told, the limit ends it
		limit.Reset(grace + slack)
		select {
		case <-ended:
			return
		case <-limit.C:
		}
	}
	giveUp(errOverdue)
}

// base notes what a session's sandbox has counted before the command, so that the run is not blamed for others.
func (e *ending) base(ctx context.Context, p *plan, box runtime.Sandbox) {
	if p.session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reckoning)
	defer cancel()
	if usage, err := box.Usage(ctx); err == nil {
		e.before = usage
	}
}

// reckon asks what the sandbox used, and why it died if the command's end did not come from its agent.
func (e *ending) reckon(ctx context.Context, p *plan, box runtime.Sandbox) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reckoning)
	defer cancel()
	if e.exit == nil && !e.overdue && (e.started || errors.Is(e.err, agent.ErrDisconnected) || errors.Is(e.err, runtime.ErrGone)) {
		if exit, err := box.Wait(ctx); err == nil {
			e.sandbox = &exit
		}
	}
	if usage, err := box.Usage(ctx); err == nil {
		e.usage = usage
		if p.session != nil {
			e.usage = since(e.before, usage)
		}
	}
}

// seconds is a duration as limits have it; one too long for a duration is the longest.
func seconds(s float64) time.Duration {
	if s > math.MaxInt64/float64(time.Second)/4 {
		return math.MaxInt64 / 4
	}
	return time.Duration(s * float64(time.Second))
}
