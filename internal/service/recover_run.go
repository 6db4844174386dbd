package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/store"
)

// reattachTime bounds finding a sandbox of a former process, or a command in it, again: long enough for a machine that has
// much to do, since whoever does not answer by then is given up.
const reattachTime = time.Minute

// Why a run of a former process is lost, in words for its caller.
var (
	errLost  = errors.New("belljar ended while the run was under way")
	errGone  = fmt.Errorf("%w, and its sandbox with it", errLost)
	errUnfed = fmt.Errorf("%w, and with it the command's input", errLost)
)

// reattachRun goes on with a run of a former process whose command lives, or has ended since: its log goes on where it stops,
// and the run comes to its own end. A run that cannot be gone on with, or whose end would be a lie, is [errLost].
func (s *Service) reattachRun(ctx context.Context, row store.Run, log logbook.Log, a telling) error {
	ctx, cancel := context.WithTimeout(ctx, reattachTime)
	defer cancel()
	p, err := s.recoveredPlan(ctx, row)
	if err != nil {
		return s.lostBecause(row, err)
	}
	j, err := s.reattachBox(ctx, row, p)
	if err != nil {
		return s.lostBecause(row, err)
	}
	proc, err := j.Agent.Attach(ctx, row.ID, a.kept)
	if err == nil {
		if err = s.carryReattached(row, p, j, proc, log, a); err == nil {
			return nil
		}
		proc.Close()
	}
	if p.session != nil {
		p.session.release()
	}
	return s.lostBecause(row, err)
}

// lostBecause says in the log why a run is lost, and returns what its caller may know.
func (s *Service) lostBecause(row store.Run, err error) error {
	s.log.Warn("run of a former process cannot be gone on with", "run_id", row.ID, "session_id", row.SessionID, "err", err)
	switch {
	case errors.Is(err, errLost):
		return err
	case errors.Is(err, runtime.ErrNotFound), errors.Is(err, runtime.ErrGone):
		return errGone
	}
	return errLost
}

// recoveredPlan is the plan of a run that was admitted by a former process. What it was given then is not judged again.
func (s *Service) recoveredPlan(ctx context.Context, row store.Run) (*plan, error) {
	if row.Spec == nil {
		return nil, errors.New("its request is not on record")
	}
	p := &plan{request: belljar.RunRequest{RunSpec: *row.Spec}}
	p.Exec = row.Spec.WorkspaceExec
	base := s.opts.Limits
	if row.SessionID != "" {
		x := s.sessions.get(row.SessionID)
		if x == nil {
			return nil, errGone
		}
		p.session, p.Placement = x, x.placement()
		p.Why, p.Fetch, base = "", "", p.Limits
	} else if p.Host = s.hosts.Named(row.Runtime); p.Host == nil {
		return nil, fmt.Errorf("runtime %q is not there any more", row.Runtime)
	}
	var err error
	if p.session == nil {
		if p.Caps, err = p.Host.Capabilities(ctx); err != nil {
			return nil, err
		}
		p.Image = placement.RecoveredImage(row.BaseImage, row.ImageDigest, row.Image)
	}
	if p.patterns, err = patterns(row.Spec.CapturePatterns); err != nil {
		return nil, err
	}
	p.Limits, err = base.ResolveRun(row.Spec, boundless())
	if err != nil {
		return nil, err
	}
	p.Bind()
	return p, p.program()
}

// boundless are limits for what need not be judged.
func boundless() belljar.Limits {
	return belljar.Limits{
		CPU: math.MaxFloat64, MemoryMB: math.MaxInt, Pids: math.MaxInt, NoFile: math.MaxInt, NProc: math.MaxInt,
		WorkspaceMB: math.MaxInt, TmpMB: math.MaxInt, Inodes: math.MaxInt, LogBytes: math.MaxInt64, ArtifactMB: math.MaxInt,
		StartupTimeoutSec: math.MaxFloat64, TimeoutSec: math.MaxFloat64, BuildTimeoutSec: math.MaxFloat64, CPUTimeSec: math.MaxFloat64, GraceSec: math.MaxFloat64,
	}
}

// reattachBox is the sandbox of a run of a former process. That of a session is given back with release.
func (s *Service) reattachBox(ctx context.Context, row store.Run, p *plan) (*box.Box, error) {
	if p.session != nil {
		return p.session.acquire(ctx)
	}
	return box.Reattach(ctx, row.ID, &p.Placement)
}

// carryReattached sets a run going again whose command has been found.
func (s *Service) carryReattached(row store.Run, p *plan, j *box.Box, proc *agent.Process, log logbook.Log, a telling) error {
	told := proc.Started()
	if told.StdinLimit > 0 && !told.StdinClosed && row.Spec.Stdin == "" && !row.Spec.Interactive {
		return errUnfed // to end it here would pass for the end of what it was given
	}
	quota, err := s.accounts.Quota(context.Background(), row.UserID)
	if err != nil {
		return err
	}
	r := s.newRun(belljar.Caller{ID: row.UserID, Role: belljar.RoleUser, Source: "recovery"}, p, row.ID, row.CreatedAt)
	if r.kept, err = s.accounts.AllowLog(context.Background(), r.owner, quota); err != nil {
		return err
	}
	r.kept.Hold(log.Size())
	r.log, r.ticket = log, s.queueOf(p).Take(r.owner, quota.ConcurrentRuns)
	r.unexpire = func() bool { return false }
	since := s.now().Add(-time.Duration(told.AgeMS) * time.Millisecond)
	if row.StartedAt != nil {
		since = *row.StartedAt
	}
	r.state = row.Run
	r.state.EstimatedStartTime, r.state.Phase, r.state.StartedAt = nil, belljar.PhaseRunning, &since
	if err := s.register(r); err != nil {
		r.kept.Close()
		r.ticket.Leave()
		return err
	}
	if a.phase != belljar.PhaseRunning {
		r.say(phaseFrame(belljar.PhaseRunning))
	}
	if !a.begun {
		r.say(belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventStart})
	}
	if p.session == nil {
		s.node.Reclaim(r.id, r.owner, &p.Placement, j, func(why error) { r.stop(why) })
	}
	c := s.carrier.passage(r)
	c.jar, c.proc, c.end.started = j, proc, true
	c.out = a.transcript(log, p.Limits.LogBytes, c.out.heard)
	c.out.allowed = r.kept
	if told.From > a.kept && !c.out.cut {
		c.out.lose(cutDamaged)
	}
	ctx, cancel := context.WithTimeout(context.Background(), reckoning)
	c.end.base(ctx, p, j)
	cancel()
	s.carrier.note(r)
	s.carrier.beat(r)
	go s.carrier.attendReattached(c)
	return nil
}

// attendReattached carries a run from its living command to its answer.
func (s *carrier) attendReattached(c *passage) {
	defer s.done()
	defer c.run.stop(nil)
	defer c.run.ticket.Leave()
	defer s.memory.Drop(c.run.id)
	c.attend()
}
