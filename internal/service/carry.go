package service

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// Bounds of what the service does for a run beside its command.
const (
	reckoning   = 2 * time.Second // asking a sandbox what it used, or why it died
	captureTime = time.Minute     // bringing its files home
)

// errOverdue says that a command did not end when its agent should have ended it.
var errOverdue = errors.New("overdue")

// carry takes a run from its admission to its answer, and its sandbox away behind that.
func (s *Service) carry(r *run) {
	p := r.plan
	defer r.stop(nil)
	begin := time.Now()
	e := ending{
		command: p.request.Command[0], limits: p.limits, workspaceExec: p.request.WorkspaceExec,
	}
	out := &transcript{log: r.log, room: p.limits.LogBytes}
	j, err := s.provision(r, p, begin)
	var files *captured
	var troubles []string
	if err == nil {
		e.exit, e.started, err = s.execute(r, p, j, begin, out)
	}
	e.err = err
	e.overdue = errors.Is(err, errOverdue)
	if r.ctx.Err() != nil {
		e.stopped = context.Cause(r.ctx)
	}
	if j != nil {
		e.reckon(r.ctx, j)
		if e.exit != nil && e.exit.Cause != wire.CauseEnded && e.exit.Cause != wire.CauseKillFailed {
			files, troubles = s.capture(r.ctx, p, j)
		}
	}

	o := judge(e)
	if out.cut && (e.exit == nil || e.exit.Dropped == 0) {
		o.warn("output beyond %d bytes was dropped", p.limits.LogBytes)
	}
	if w := unenforced(p.caps); w != "" && e.started {
		o.warn("%s", w)
	}
	o.warnings = append(o.warnings, troubles...)
	usage := resourceUsage(e, r.ran(), out.kept, files.bytes())
	s.answer(r, o, usage, files, out.cut)
	if j != nil {
		s.destroy(r.id, j)
	}
}

// answer puts on record what became of a run, then tells those who follow it.
func (s *Service) answer(r *run, o outcome, usage belljar.ResourceUsage, files *captured, truncated bool) {
	err := r.finish(o, usage, files, truncated)
	if err == nil {
		s.retire(r)
		err = r.conclude(o)
	}
	if err != nil {
		s.log.Error("run could not be finished", "run_id", r.id, "err", err)
	}
}

// provision makes the run's sandbox and fills its workspace, within the startup timeout. The sandbox is returned with
// an error too, if there is one.
func (s *Service) provision(r *run, p *plan, begin time.Time) (*jar, error) {
	ctx, cancel := startup(r, p, begin)
	defer cancel()
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
	proc, err := j.agent.Exec(ctx, p.execution(r.id, j))
	cancel()
	if err != nil {
		return nil, false, err
	}
	defer proc.Close()
	if err := r.begin(); err != nil {
		return nil, true, err
	}
	if p.request.Stdin != nil {
		go feed(proc, p.request.Stdin)
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
	if endErr := out.end(); err == nil {
		err = endErr
	}
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

// reckon asks what the sandbox used, and why it died if the command's end did not come from its agent.
func (e *ending) reckon(ctx context.Context, box runtime.Sandbox) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reckoning)
	defer cancel()
	if e.exit == nil && !e.overdue && (e.started || errors.Is(e.err, agent.ErrDisconnected) || errors.Is(e.err, runtime.ErrGone)) {
		if exit, err := box.Wait(ctx); err == nil {
			e.sandbox = &exit
		}
	}
	if usage, err := box.Usage(ctx); err == nil {
		e.usage = usage
	}
}

// seconds is a duration as limits have it; one too long for a duration is the longest.
func seconds(s float64) time.Duration {
	if s > math.MaxInt64/float64(time.Second)/4 {
		return math.MaxInt64 / 4
	}
	return time.Duration(s * float64(time.Second))
}
