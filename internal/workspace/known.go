package workspace

import (
	"context"
	"sync"

	"github.com/belljar/belljar"
)

// Known remembers which session the own workspace of a caller is, so that a request does not open it anew: front ends ask every few
// seconds, and the audit trail has each opening. The zero value knows none.
type Known struct{ byCaller sync.Map }

// Open is the function [Open] for the own workspace of a caller.
func (k *Known) Open(ctx context.Context, s belljar.Service, caller string, spec belljar.SessionSpec) (Workspace, error) {
	if id, ok := k.byCaller.Load(caller); ok {
		found, err := s.Sessions().Get(ctx, id.(string))
		switch {
		case err == nil && !found.State.Ended() && found.ScopeKey == spec.Scope.String():
			return Workspace{Engine: s, Session: found.ID, Root: belljar.WorkspaceDir}, nil
		case err != nil && belljar.CodeOf(err) != belljar.CodeNotFound:
			return Workspace{}, err
		}
	}
	w, err := Open(ctx, s, "", spec)
	if err == nil {
		k.byCaller.Store(caller, w.Session)
	}
	return w, err
}
