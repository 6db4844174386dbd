package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/install"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/recovery"
	"github.com/belljar/belljar/internal/store"
)

// The reasons why a run of a previous process is lost, for its caller.
var (
	errLost      = errors.New("belljar ended during the run")
	errGone      = fmt.Errorf("%w, and its sandbox with it", errLost)
	errInputLost = fmt.Errorf("%w, and with it the command's input", errLost)
)

// reattach continues a run of a previous process whose command lives, or has ended meanwhile: its log continues at its end, and
// the run ends normally. A run that cannot continue, or whose end would be reported wrong, is [errLost]. If the sandbox does not respond in
// time, silent ends ctx, for all runs of the sandbox.
func (s Recovery) reattach(ctx context.Context, f *former, silent func()) error {
	row := f.row
	ctx, cancel := context.WithTimeout(ctx, recovery.Timeout)
	defer cancel()
	defer context.AfterFunc(ctx, silent)()
	p, err := s.recoveredPlan(ctx, row)
	if err != nil {
		return s.lostBecause(row, err)
	}
	b, err := s.reattachBox(ctx, row, p)
	if err != nil {
		return s.lostBecause(row, err)
	}
	proc, err := b.Agent.Attach(ctx, row.ID, f.past.kept)
	if err == nil {
		if err = s.resume(row, p, b, proc, f.log, f.past); err == nil {
			return nil
		}
		proc.Close()
	}
	if p.session != nil {
		p.session.Release()
	}
	return s.lostBecause(row, err)
}

// lostBecause logs why a run is lost, and returns the error for its caller.
func (s Recovery) lostBecause(row store.Run, err error) error {
	s.runs.runner.log.Warn("run of a former process cannot be reattached to", "run_id", row.ID, "session_id", row.SessionID, "err", err)
	switch {
	case errors.Is(err, errLost):
		return err
	case errors.Is(err, runtime.ErrNotFound), errors.Is(err, runtime.ErrGone):
		return errGone
	}
	return errLost
}

// recoveredPlan returns the plan of a run that a previous process admitted. It does not repeat the admission.
func (s Recovery) recoveredPlan(ctx context.Context, row store.Run) (*plan, error) {
	if row.Spec == nil {
		return nil, errors.New("its request is not on record")
	}
	p := &plan{request: belljar.RunRequest{RunSpec: *row.Spec}, sealed: row.Secrets}
	var err error
	if p.request.Secrets, p.Broker, err = s.runs.opts.Secrets.Open(row.ID, row.Secrets); err != nil {
		return nil, fmt.Errorf("its secrets on record, which its output must not show: %w", err)
	}
	p.Exec = row.Spec.WorkspaceExec
	base := s.runs.opts.Rules.Limits
	if row.SessionID != "" {
		x := s.runs.opts.Session(row.SessionID)
		if x == nil {
			return nil, errGone
		}
		p.session, p.Placement = x, x.Placement()
		p.Why, p.Fetch, base = "", "", p.Limits
	} else if p.Host = s.runs.opts.Rules.Hosts.Named(row.Runtime); p.Host == nil {
		return nil, fmt.Errorf("runtime %q is no longer configured", row.Runtime)
	}
	if p.session == nil {
		if p.Caps, err = p.Host.Capabilities(ctx); err != nil {
			return nil, err
		}
		p.Image = placement.RecoveredImage(row.BaseImage, row.ImageDigest, row.Image)
		var presets []belljar.NetworkPreset
		if row.Egress != nil {
			presets = row.Egress.Presets
		}
		p.Env = install.Environment(presets)
		network := belljar.NetworkSpec{NetworkPolicy: row.Spec.NetworkPolicy, Egress: row.Spec.Egress}
		caller := s.runs.opts.Rules.Recovered(recovery.Caller(row.UserID, row.Operator), admission.RequestOfRun(*row.Spec), row.Isolation, row.PolicyHash == s.runs.opts.PolicyHash)
		if p.Egress, err = s.runs.opts.Rules.Egress.Recovered(caller, row.Spec.TrustLevel, network, presets); err != nil {
			s.runs.runner.log.Warn("run of a former process has no network any longer", "run_id", row.ID, "err", err)
		}
	}
	if p.patterns, err = patterns(row.Spec.CapturePatterns); err != nil {
		return nil, err
	}
	if row.Limits != nil {
		p.Limits = *row.Limits
	} else if p.Limits, err = base.ResolveRun(row.Spec, placement.Unlimited()); err != nil { // recorded by an earlier version
		return nil, err
	}
	if p.session == nil {
		p.SetDisk(row.Workspace, row.Workspace.MB)
	}
	p.Bind()
	return p, p.program()
}

// reattachBox returns the sandbox of a run of a previous process. A session's sandbox is in use until it is released.
func (s Recovery) reattachBox(ctx context.Context, row store.Run, p *plan) (*box.Box, error) {
	if p.session != nil {
		return p.session.Acquire(ctx)
	}
	return s.runs.runner.boxes.Reattach(ctx, box.Order{ID: row.ID, Caller: recovery.Caller(row.UserID, row.Operator), Placement: &p.Placement})
}

// resume continues a run whose command was found.
func (s Recovery) resume(row store.Run, p *plan, b *box.Box, proc *agent.Process, log logbook.Log, past history) error {
	started := proc.Started()
	if started.StdinLimit > 0 && !started.StdinClosed && row.Spec.Stdin == "" && !row.Spec.Interactive {
		return errInputLost // closing it here would look like the end of the input
	}
	quota, err := s.runs.runner.accounts.Quota(context.Background(), row.UserID)
	if err != nil {
		return err
	}
	r := s.runs.create(recovery.Caller(row.UserID, row.Operator), p, row.ID, row.CreatedAt)
	if r.kept, err = s.runs.runner.accounts.AllowLog(context.Background(), r.owner, quota); err != nil {
		return err
	}
	r.kept.SetTo(log.Size())
	r.log, r.ticket = log, s.runs.queueOf(p).Take(r.owner, quota.ConcurrentRuns)
	r.cancelQueueTTL = func() bool { return false }
	since := s.runs.runner.now().Add(-time.Duration(started.AgeMS) * time.Millisecond)
	if row.StartedAt != nil {
		since = *row.StartedAt
	}
	r.state = row.Run
	r.state.Approval = s.runs.opts.Desk.Lost(context.Background(), row.Approval) // its command began: only the record lags
	r.state.EstimatedStartTime, r.state.Phase, r.state.StartedAt = nil, belljar.PhaseRunning, &since
	if err := s.runs.register(r); err != nil {
		r.kept.Close()
		r.ticket.Leave()
		return err
	}
	r.releaseBudget = s.runs.opts.Budget.Recharge(r.owner, &p.request.RunSpec)
	if past.phase != belljar.PhaseRunning {
		r.appendLog(phaseFrame(belljar.PhaseRunning))
	}
	if !past.begun {
		r.appendLog(belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventStart})
	}
	if p.session == nil {
		r.below = row.Below
		dirs := []string{row.Below}
		for _, l := range p.Image.Layers {
			dirs = append(dirs, l.Dir)
		}
		s.runs.runner.installer.Hold(p.Image.Layers).Holding(s.runs.runner.snapshots.Hold(dirs...)...).Until(s.runs.runner.closed, b)
		s.runs.runner.memory.Reclaim(r.id, r.owner, &p.Placement, b, func(why error) { r.stop(why) })
	}
	c := s.runs.runner.execution(r)
	c.box, c.proc, c.end.Started = b, proc, true
	c.hideSecrets()
	c.out = past.transcript(c.out, p.Limits.LogBytes)
	r.muted.Store(c.out.cut)
	c.watchNetwork()
	if started.From > past.kept && !c.out.cut {
		c.out.truncate(cutDamaged)
	}
	ctx, cancel := context.WithTimeout(context.Background(), usageTime)
	c.countBefore(ctx)
	cancel()
	s.runs.runner.note(r)
	s.runs.runner.startHeartbeat(r)
	s.runs.runner.happened(event.RunReattached, r, 0)
	go s.runs.runner.carryReattached(c)
	return nil
}

// carryReattached carries a run from its live command to the response.
func (s *runner) carryReattached(c *execution) {
	defer s.work.Done()
	defer c.run.stop(nil)
	defer c.run.ticket.Leave()
	defer s.memory.Drop(c.run.id)
	c.attend()
}
