package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/install"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/recovery"
	"github.com/belljar/belljar/internal/service/secret"
	"github.com/belljar/belljar/internal/service/terminal"
	"github.com/belljar/belljar/internal/store"
)

// Recovery recovers sessions.
type Recovery struct {
	sessions *Sessions
	found    commands
	busy     map[string]bool // ids of sessions with unfinished runs
}

var (
	_ recovery.Part    = (*Recovery)(nil)
	_ recovery.Cleaner = (*Recovery)(nil)
)

// Recovery returns the recovery of the sessions.
func (s *Sessions) Recovery() *Recovery { return &Recovery{sessions: s} }

// commands are the commands that the agents of sessions know.
type commands map[*Session][]wire.ExecInfo

// Recover continues the sessions of a previous process of this node. Sessions with live sandboxes continue unchanged, with their terminals. It
// records the end of the others, and cleans up after them.
func (s *Recovery) Recover(ctx context.Context) error {
	rows, err := s.sessions.opts.Store.Unfinished(ctx)
	if err != nil {
		return fault.Record("look for unfinished sessions", err)
	}
	if s.busy, err = s.sessions.opts.Runs.Busy(ctx); err != nil {
		return err
	}
	var mu sync.Mutex
	s.found = commands{}
	recovery.ForEachAgent(rows, func(row store.Session) {
		if row.NodeID != s.sessions.opts.NodeID || s.sessions.table.get(row.ID) != nil {
			return
		}
		x, known, ended := s.reattach(ctx, row)
		if ended != nil {
			s.recordLost(ctx, row, ended)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		s.found[x] = known
	})
	return nil
}

// ending is why a session of a previous process does not continue.
type ending struct {
	state   belljar.SessionState
	message string
}

// reattach continues one session, or returns why not. known is the commands that its agent knows.
func (s *Recovery) reattach(ctx context.Context, row store.Session) (x *Session, known []wire.ExecInfo, ended *ending) {
	if row.State == belljar.SessionStarting && row.Approval != nil {
		if x, err := s.reviveAsked(ctx, row); err == nil {
			return x, nil, nil
		} else {
			return nil, nil, &ending{belljar.SessionLost, "belljar was restarted, and it can no longer be made: " + err.Error()}
		}
	}
	if row.State == belljar.SessionStarting {
		return nil, nil, &ending{belljar.SessionLost, "belljar was restarted while it was made"}
	}
	ctx, cancel := context.WithTimeout(ctx, recovery.Timeout)
	defer cancel()
	if row.State == belljar.SessionHibernated {
		x, ended := s.reviveHibernated(ctx, row)
		return x, nil, ended
	}
	b, p, err := s.reattachBox(ctx, row)
	if err == nil {
		known, err = b.Agent.List(ctx)
	}
	used := s.used(row.ID, known)
	switch {
	case errors.Is(err, runtime.ErrNotFound), errors.Is(err, runtime.ErrGone):
		return nil, nil, &ending{belljar.SessionLost, "its sandbox ended while belljar was not running"}
	case err == nil && s.lapsed(row) && !used:
		return nil, nil, &ending{belljar.SessionExpired, "its time was over before belljar was started again"}
	case err == nil:
		if x, err = s.revive(ctx, row, p); err == nil {
			s.sessions.opts.Boxes.Open(ctx, b, box.Order{ID: x.id, Caller: x.caller, Placement: p, Egress: x.Network.recordEgress})
		}
	}
	if err != nil {
		s.sessions.opts.Log.Error("session of a former process cannot be reattached to", "session_id", row.ID, "err", err)
		return nil, nil, &ending{belljar.SessionLost, "belljar was restarted and could not reattach to it"}
	}
	s.sessions.opts.Packages.Hold(p.Image.Layers).Holding(s.sessions.opts.Snapshots.Hold(row.Below)...).Until(s.sessions.opts.Closed, b)
	s.sessions.opts.Memory.Reclaim(x.id, x.caller.ID, p, b, x.endForMemory)
	shells, err := agent.Shells(ctx, b.Agent)
	if err != nil {
		s.sessions.opts.Log.Warn("agent of a session of a former process does not report its contexts: those on record continue", "session_id", row.ID, "err", err)
	}
	x.Contexts.Recover(shells, err, cmp.Or(row.Hibernation, &store.Hibernation{}).Contexts, s.sessions.now())
	x.below = row.Below
	b.Shared.Now(ctx, b)
	b.Shared.Charge(b.Network, 0) // the previous process has charged for it
	if used {
		x.Touch() // the runs are recovered later
	}
	b.Hidden = secret.Patterns(x.spec.Secrets)
	x.begin(b)
	go x.watch(b)
	s.sessions.opts.RecoverTerminals(ctx, Use{b, x, x.inside}, known)
	return x, known, nil
}

// used reports whether a run uses a session: its agent knows the run's command. A command may also be a leftover of a run whose end is on
// record.
func (s *Recovery) used(id string, known []wire.ExecInfo) bool {
	return s.busy[id] && slices.ContainsFunc(known, func(e wire.ExecInfo) bool { return !terminal.IsTerminal(e.ID) })
}

// reattachBox returns the live sandbox of a session of a previous process, and its placement. It does not repeat the admission.
func (s *Recovery) reattachBox(ctx context.Context, row store.Session) (*box.Box, *placement.Placement, error) {
	host := s.sessions.opts.Rules.Hosts.Named(row.Runtime)
	if host == nil {
		return nil, nil, fmt.Errorf("runtime %q is no longer configured", row.Runtime)
	}
	sandbox, err := host.Attach(ctx, row.ID)
	if err != nil {
		return nil, nil, err
	}
	p, err := s.recoveredPlacement(ctx, row)
	if err != nil {
		return nil, nil, err
	}
	p.Caps.Isolation = cmp.Or(runtime.Isolation(row.Isolation), p.Caps.Isolation) // independent of the runtime's current isolation
	b, err := box.Connect(ctx, sandbox, p.Caps, p.Image)
	return b, p, err
}

// recoveredPlacement returns the placement of a session of a previous process. It has no host if the session's runtime is no longer
// configured.
func (s *Recovery) recoveredPlacement(ctx context.Context, row store.Session) (p *placement.Placement, err error) {
	p = &placement.Placement{Exec: row.Spec.WorkspaceExec}
	if p.Host = s.sessions.opts.Rules.Hosts.Named(row.Runtime); p.Host != nil {
		switch p.Caps, err = p.Host.Capabilities(ctx); {
		case err == nil:
		case row.State != belljar.SessionHibernated:
			return nil, err
		default: // they are not needed before it wakes
			s.sessions.opts.Log.Error("runtime of a hibernated session cannot be probed", "session_id", row.ID, "err", err)
			p.Caps.Isolation = runtime.Isolation(row.Isolation)
		}
	}
	p.Image = placement.RecoveredImage(row.BaseImage, row.ImageDigest, row.Image)
	asked, err := s.sessions.opts.Rules.Limits.Resolve(row.Spec.Resources, row.Spec.StartupTimeoutSec, row.Spec.TimeoutSec, placement.Unlimited())
	if err != nil {
		return nil, err
	}
	p.Limits = placement.WithDefaults(row.Limits, asked) // the record has 0 for limits that were not enforced
	p.Limits.CPUTimeSec = row.Limits.CPUTimeSec          // 0 is no limit
	p.SetDisk(row.Workspace, row.Workspace.MB)
	p.Env = install.Environment(row.Presets)
	network := belljar.NetworkSpec{NetworkPolicy: row.Spec.NetworkPolicy, Egress: row.Spec.Egress}
	caller := s.sessions.opts.Rules.Recovered(recovery.Caller(row.UserID, row.Operator), admission.RequestOfSession(row.Spec), row.Isolation, row.PolicyHash == s.sessions.opts.PolicyHash)
	if p.Egress, err = s.sessions.opts.Rules.Egress.Recovered(caller, row.Spec.TrustLevel, network, row.Presets); err != nil {
		s.sessions.opts.Log.Warn("session of a former process has no network any longer", "session_id", row.ID, "err", err)
	}
	return p, nil
}

// recordLost cleans up after a session of a previous process, and records how it ended.
func (s *Recovery) recordLost(ctx context.Context, row store.Session, end *ending) {
	s.sessions.opts.Boxes.Remove(ctx, row.Runtime, row.ID)
	made := row.State != belljar.SessionStarting
	if !made { // the same request may make it now
		if err := s.sessions.opts.Keys.ReleaseOf(ctx, row.UserID, row.ID); err != nil {
			s.sessions.opts.Log.Error("idempotency key cannot be released", "session_id", row.ID, "err", err)
		}
	}
	now := s.sessions.now()
	row.State, row.Message, row.EndedAt, row.Secrets, row.Hibernation, row.Hibernated = end.state, end.message, &now, nil, nil, nil
	row.Runs = s.runsOf(ctx, row)
	row.Approval = s.sessions.opts.Desk.Lost(ctx, row.Approval)
	row.Spec = belljar.SessionSpec{}
	if err := s.sessions.opts.Store.Update(ctx, row); err != nil {
		// Lists already show it as lost, but its scope stays taken until this write succeeds.
		s.sessions.opts.Log.Error("end of a session cannot be recorded; retrying", "session_id", row.ID, "err", err)
		s.sessions.opts.Work.Go(func() {
			s.sessions.opts.Retry.Do(func() error { return s.sessions.opts.Store.Update(context.Background(), row) }, "session_id", row.ID)
		})
	}
	if made {
		s.sessions.record(event.SessionEnded, recovery.Caller(row.UserID, row.Operator), row.Session, now.Sub(row.CreatedAt))
	}
}

// RemoveOrphans ends the orphaned commands of the recovered sessions: those of runs that were not recorded, or whose end was.
func (s *Recovery) RemoveOrphans(ctx context.Context) {
	s.dropOrphans(ctx)
	s.sessions.opts.Packages.Sweep()
	for x, known := range s.found {
		known = slices.DeleteFunc(known, func(e wire.ExecInfo) bool { return !s.sessions.opts.Runs.Orphaned(e.ID) })
		if len(known) > 0 {
			s.endCommands(x, known)
		}
	}
}

// endCommands ends orphaned commands in the background, one after the other, and makes the agent forget them. It stops at one that it cannot
// end: a program that has taken over its agent can name thousands.
func (s *Recovery) endCommands(x *Session, orphans []wire.ExecInfo) {
	b, err := x.Acquire(context.Background())
	if err != nil {
		return // they ended with their session
	}
	s.sessions.opts.Work.Go(func() {
		defer x.Release()
		for _, e := range orphans {
			if x.ctx.Err() != nil {
				return
			}
			if err := b.End(e.ID, 0, s.sessions.opts.Slack); err != nil {
				s.sessions.opts.Log.Warn("orphaned command cannot be ended", "run_id", e.ID, "session_id", x.id, "err", err)
				return
			}
		}
	})
}
