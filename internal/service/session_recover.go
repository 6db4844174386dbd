package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/terminal"
	"github.com/belljar/belljar/internal/store"
)

// recoverAtOnce is how many sandboxes are looked at, or removed, at a time.
const recoverAtOnce = 8

// commands are what the agents of living sessions know, by session.
type commands map[*session][]wire.ExecInfo

// recoverSessions takes up the sessions that a former process of this node left. Those whose sandboxes live go on as they
// are, with their terminals; what their agents know otherwise is returned. Of the others it is put on record what became of
// them, and what is left is removed.
func (s *Service) recoverSessions(ctx context.Context) (commands, error) {
	rows, err := s.opts.Store.Sessions().Unfinished(ctx)
	if err != nil {
		return nil, fault.Record("look for unfinished sessions", err)
	}
	var mu sync.Mutex
	living := commands{}
	inTurn(recoverAtOnce, rows, func(row store.Session) {
		if row.NodeID != s.opts.Node.ID || s.sessions.get(row.ID) != nil {
			return
		}
		x, known, ended := s.reattachSession(ctx, row)
		if ended != nil {
			s.recordLostSession(ctx, row, ended)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		living[x] = known
	})
	return living, ctx.Err()
}

// inTurn does something with each of a list, most at once, and returns when all is done.
func inTurn[T any](most int, list []T, do func(T)) {
	var all sync.WaitGroup
	free := make(chan struct{}, most)
	for _, each := range list {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			do(each)
		})
	}
	all.Wait()
}

// sessionEnd is why a session of a former process does not go on.
type sessionEnd struct {
	state   belljar.SessionState
	message string
}

// reattachSession takes up one session, or says why not. known is what its agent knows.
func (s *Service) reattachSession(ctx context.Context, row store.Session) (x *session, known []wire.ExecInfo, ended *sessionEnd) {
	if row.State == belljar.SessionStarting {
		return nil, nil, &sessionEnd{belljar.SessionLost, "belljar was restarted while it was made"}
	}
	ctx, cancel := context.WithTimeout(ctx, reattachTime)
	defer cancel()
	j, p, err := s.reattachedBox(ctx, row)
	if err == nil {
		known, err = j.Agent.List(ctx)
	}
	switch {
	case errors.Is(err, runtime.ErrNotFound), errors.Is(err, runtime.ErrGone):
		return nil, nil, &sessionEnd{belljar.SessionLost, "its sandbox ended while belljar was not running"}
	case err == nil && s.lapsed(row) && !anyRuns(known):
		return nil, nil, &sessionEnd{belljar.SessionExpired, "its time was over before belljar was started again"}
	case err == nil:
		x, err = s.revive(ctx, row, p)
	}
	if err != nil {
		s.log.Error("session of a former process cannot be gone on with", "session_id", row.ID, "err", err)
		return nil, nil, &sessionEnd{belljar.SessionLost, "belljar was restarted, and could not find its way back to it"}
	}
	s.node.Reclaim(x.id, x.caller.ID, p, j, x.starved)
	x.begin(j)
	go x.watch(j)
	s.terminals.Recover(ctx, sessionUse{j, x}, known)
	return x, known, nil
}

// anyRuns reports whether one of those commands runs, terminals apart.
func anyRuns(known []wire.ExecInfo) bool {
	for _, e := range known {
		if e.Running && !terminal.IsTerminal(e.ID) {
			return true
		}
	}
	return false
}

// reattachedBox is the living sandbox of a session of a former process, and what it was made of. What was allowed then is not
// judged again.
func (s *Service) reattachedBox(ctx context.Context, row store.Session) (*box.Box, *placement.Placement, error) {
	p := &placement.Placement{Exec: row.Spec.WorkspaceExec}
	if p.Host = s.hosts.Named(row.Runtime); p.Host == nil {
		return nil, nil, fmt.Errorf("runtime %q is not there any more", row.Runtime)
	}
	sandbox, err := p.Host.Attach(ctx, row.ID)
	if err != nil {
		return nil, nil, err
	}
	if p.Caps, err = p.Host.Capabilities(ctx); err != nil {
		return nil, nil, err
	}
	p.Image = placement.RecoveredImage(row.BaseImage, row.ImageDigest, row.Image)
	asked, err := s.opts.Limits.Resolve(row.Spec.Resources, row.Spec.StartupTimeoutSec, row.Spec.TimeoutSec, boundless())
	if err != nil {
		return nil, nil, err
	}
	p.Limits = orElse(row.Limits, asked) // the record has 0 for those that nothing enforced
	j, err := box.Meet(ctx, sandbox, p.Caps, p.Image)
	return j, p, err
}

// recordLostSession puts on record how a session of a former process ended, when nothing is left of it.
func (s *Service) recordLostSession(ctx context.Context, row store.Session, end *sessionEnd) {
	s.boxes.Remove(ctx, row.Runtime, row.ID)
	if row.State == belljar.SessionStarting {
		s.giveUpKey(ctx, row)
	}
	now := s.now()
	row.State, row.Message, row.EndedAt = end.state, end.message, &now
	if err := s.opts.Store.Sessions().Update(ctx, row); err != nil {
		// Whoever asks is told so all the same, but its scope is not free before.
		s.log.Error("end of a session could not be put on record, trying on", "session_id", row.ID, "err", err)
		s.work.Go(func() {
			s.carrier.tryOn(func() error { return s.opts.Store.Sessions().Update(context.Background(), row) }, "session_id", row.ID)
		})
	}
	s.recordSession(event.SessionEnded, belljar.Caller{ID: row.UserID, Source: "recovery"}, row.Session, now.Sub(row.CreatedAt))
}

// giveUpKey gives up the idempotency key of a session that was never made: whoever sends it again tries again.
func (s *Service) giveUpKey(ctx context.Context, row store.Session) {
	q := belljar.KeyQuery{Endpoint: endpointSessions, UserID: row.UserID, Limit: belljar.MaxPage}
	for ; ; q.Offset += q.Limit {
		keys, err := s.opts.Store.Keys().List(ctx, q)
		if err != nil {
			s.log.Error("idempotency keys cannot be read", "session_id", row.ID, "err", err)
			return
		}
		for _, k := range keys {
			if k.ObjectID != row.ID {
				continue
			}
			if err := s.opts.Store.Keys().Delete(ctx, k.Endpoint, k.UserKey, k.Key, row.ID); err != nil {
				s.log.Error("idempotency key could not be given up", "session_id", row.ID, "err", err)
			}
			return
		}
		if len(keys) < q.Limit {
			return
		}
	}
}

// endOrphanedCommands ends the commands of sessions that nobody knows: those of runs that did not get on record, or whose end did.
func (s *Service) endOrphanedCommands(living commands) {
	for x, known := range living {
		for _, e := range known {
			if id := strings.TrimPrefix(e.ID, buildPrefix); belljar.ValidID(id) && (id != e.ID || s.under(id) == nil) {
				s.endOrphanedCommand(x, e.ID)
			}
		}
	}
}

// endOrphanedCommand ends a session's command that nobody follows, and has it forgotten; later.
func (s *Service) endOrphanedCommand(x *session, id string) {
	j, err := x.acquire(context.Background())
	if err != nil {
		return // it went with its session
	}
	s.work.Go(func() {
		defer x.release()
		if err := j.End(id, s.opts.Slack); err != nil {
			s.log.Warn("command that is nobody's could not be ended", "run_id", id, "session_id", x.id, "err", err)
		}
	})
}
