package service

import (
	"context"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
)

// closeScope ends every session of a caller whose scope begins with a prefix, also one that is being made, and waits
// until nothing is left of them. Those to be retained stay, without their scope and without what runs in them.
func (s *Service) closeScope(ctx context.Context, caller belljar.Caller, req belljar.CloseRequest) ([]string, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if most := s.opts.MaxSessionTTL.Seconds(); req.RetainSec > most {
		return nil, &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("retain_seconds is limited to %v here, got %v", most, req.RetainSec),
			Details: map[string]any{"field": "retain_seconds", "provided": req.RetainSec, "maximum": most},
		}
	}
	closed := []string{}
	var ending []*session
	for _, x := range s.sessions.all() {
		if x.caller.ID != caller.ID || x.gone() || !req.Covers(x.snapshot().ScopeKey) {
			continue
		}
		if req.RetainSec > 0 {
			kept, err := x.retain(seconds(req.RetainSec))
			if err != nil {
				return nil, err
			}
			if kept {
				closed = append(closed, x.id)
				continue
			}
		}
		if x.end(belljar.SessionClosed, "its scope was closed by its caller", fault.ErrCanceled) {
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

// retain keeps a session for a time, whether it is used or not, and gives up its scope. What runs in it is cancelled.
// false if there is nothing to keep, or it was retained before.
func (x *session) retain(d time.Duration) (bool, error) {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	if x.jar == nil || x.state.State.Ended() || x.life.retained {
		x.mu.Unlock()
		return false, nil
	}
	now := x.service.now()
	before, until := x.life, earlier(x.life.ends, now.Add(d))
	x.state.ScopeKey, x.state.Message = "", "closed by its caller, and kept for a while"
	x.life.retained, x.life.ends = true, until
	x.mu.Unlock()
	// On record first: a new session can have the scope from then on.
	if err := x.record(); err != nil {
		x.mu.Lock()
		x.state.ScopeKey, x.state.Message = x.scope, ""
		x.life.retained, x.life.ends = before.retained, before.ends
		x.mu.Unlock()
		return false, fault.Record("put the session on record", err)
	}
	x.service.sessions.release(x)
	x.mu.Lock()
	if !x.state.State.Ended() {
		x.wind(now)
	}
	x.mu.Unlock()
	x.service.stopRuns(x, fault.ErrCanceled)
	x.service.recordSession(event.SessionRetained, x.caller, x.snapshot(), d)
	return true, nil
}

// record puts the session on record as it stands. The caller holds x.writing, which keeps what is older from being written
// over what is newer.
func (x *session) record() error {
	row := x.row()
	if row.State.Ended() {
		return nil // the last word is about to be written, or was
	}
	err := x.service.opts.Store.Sessions().Update(context.Background(), row)
	if err == nil {
		x.mu.Lock()
		x.life.recorded = row.ExpiresAt
		x.mu.Unlock()
	}
	return err
}
