package session

import (
	"context"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
)

// CloseScope ends every session of a caller whose scope has a prefix, including those being made, and waits until they have
// ended. Retained sessions stay, without their scope and without their runs.
func (s *Sessions) CloseScope(ctx context.Context, caller belljar.Caller, req belljar.CloseRequest) ([]string, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if most := s.opts.MaxTTL.Seconds(); req.RetainSec > most {
		return nil, fault.Above("retain_seconds", most, req.RetainSec)
	}
	closed := []string{}
	var ending []*Session
	for _, x := range s.table.all() {
		if x.caller.ID != caller.ID || x.gone() || !req.Covers(x.Snapshot().ScopeKey) {
			continue
		}
		if req.RetainSec > 0 {
			kept, err := x.retain(caller, clock.Seconds(req.RetainSec))
			if err != nil {
				return nil, err
			}
			if kept {
				closed = append(closed, x.id)
				continue
			}
		}
		if x.end(belljar.SessionClosed, "its scope was closed by its caller", fault.Canceled(caller)) {
			closed = append(closed, x.id)
		}
		ending = append(ending, x)
	}
	for _, x := range ending {
		if err := x.wait(ctx); err != nil {
			return nil, err
		}
	}
	return closed, nil
}

// retain keeps a session for a time, used or not, cancels its runs and frees its scope. It returns false for a session that has
// no sandbox, or was already retained.
func (x *Session) retain(caller belljar.Caller, d time.Duration) (bool, error) {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	if x.box == nil && x.asleep.saved == nil || x.state.State.Ended() || x.life.retained {
		x.mu.Unlock()
		return false, nil
	}
	now := x.all.now()
	before, until := x.life, earlier(x.life.ends, now.Add(d))
	x.state.ScopeKey, x.state.Message = "", "closed by its caller, and retained for a while"
	x.life.retained, x.life.ends = true, until
	x.mu.Unlock()
	// Record it first: a new session can take the scope from then on.
	if err := x.update(); err != nil {
		x.mu.Lock()
		x.state.ScopeKey, x.state.Message = x.scope, ""
		x.life.retained, x.life.ends = before.retained, before.ends
		x.mu.Unlock()
		return false, fault.Record("put the session on record", err)
	}
	x.all.table.releaseScope(x)
	x.mu.Lock()
	if !x.state.State.Ended() {
		x.setTimer(now)
	}
	x.mu.Unlock()
	x.stopRuns(fault.Canceled(caller))
	x.all.record(event.SessionRetained, caller, x.Snapshot(), d)
	return true, nil
}
