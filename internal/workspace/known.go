package workspace

import (
	"context"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// Known caches the session that is a caller's own workspace, so that a request does not open it again: front ends send requests
// every few seconds, and the audit trail records each opening. The zero value is empty.
type Known struct {
	// Trust is how long a session counts as alive without a check; 0 checks for each request.
	Trust time.Duration

	byCaller sync.Map // of sightings
}

// sighting is a session that was alive.
type sighting struct {
	id string
	at time.Time
}

// Open is the function [Open] for the own workspace of a caller.
func (k *Known) Open(ctx context.Context, s belljar.Service, caller string, spec belljar.SessionSpec) (Workspace, error) {
	if v, ok := k.byCaller.Load(caller); ok {
		seen := v.(sighting)
		if time.Since(seen.at) < k.Trust {
			return Workspace{Engine: s, Session: seen.id, Root: belljar.WorkspaceDir}, nil
		}
		found, err := s.Sessions().Get(ctx, seen.id)
		switch {
		case err == nil && !found.State.Ended() && found.ScopeKey == spec.Scope.String():
			k.byCaller.Store(caller, sighting{found.ID, time.Now()})
			return Workspace{Engine: s, Session: found.ID, Root: belljar.WorkspaceDir}, nil
		case err != nil && belljar.CodeOf(err) != belljar.CodeNotFound:
			return Workspace{}, err
		}
	}
	w, err := Open(ctx, s, "", spec)
	if err == nil {
		k.byCaller.Store(caller, sighting{w.Session, time.Now()})
	}
	return w, err
}
