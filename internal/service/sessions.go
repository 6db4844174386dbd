package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// sessions is the sessions of the service as one caller sees them.
type sessions struct{ view }

var _ belljar.Sessions = sessions{}

// Create makes a session and its sandbox.
func (v sessions) Create(ctx context.Context, req belljar.SessionRequest) (belljar.Session, error) {
	made, err := v.service.createSession(ctx, v.caller, req)
	if err != nil {
		v.service.denied(v.caller, err)
		return belljar.Session{}, fault.As("make a session", err)
	}
	return made, nil
}

// Get returns a session as it stands.
func (v sessions) Get(ctx context.Context, id string) (belljar.Session, error) {
	x, row, err := v.service.findSession(ctx, v.caller, id)
	switch {
	case err != nil:
		return belljar.Session{}, err
	case x != nil:
		return x.snapshot(), nil
	}
	return row.Session, nil
}

// List returns the caller's sessions. Living ones are as they stand now.
func (v sessions) List(ctx context.Context, q belljar.SessionQuery) (belljar.SessionPage, error) {
	page := belljar.SessionPage{Items: []belljar.Session{}}
	if err := checkPage(&q.Limit, q.Offset); err != nil {
		return page, err
	}
	if err := belljar.CheckKeyPrefix(q.KeyPrefix); err != nil {
		return page, err
	}
	v.service.keepSessions()
	rows, total, err := v.service.opts.Store.Sessions().List(ctx, v.caller.ID, q)
	if err != nil {
		return page, fault.Record("list sessions", err)
	}
	for _, row := range rows {
		var state belljar.Session
		if x := v.service.sessions.get(row.ID); x != nil {
			state = x.snapshot()
		} else {
			v.service.asLost(&row)
			state = row.Session
		}
		page.Items = append(page.Items, state)
	}
	page.Total, page.Limit, page.Offset = total, q.Limit, q.Offset
	page.HasMore = q.Offset+len(rows) < total
	return page, nil
}

// Upload puts files into a session's workspace.
func (v sessions) Upload(ctx context.Context, id string, u belljar.Upload) (belljar.UploadResult, error) {
	result, err := v.service.files.Upload(ctx, v.caller, id, u)
	if err != nil {
		return belljar.UploadResult{}, fault.As("upload", err)
	}
	return result, nil
}

// Delete ends a session and waits until its sandbox is gone.
func (v sessions) Delete(ctx context.Context, id string) error {
	x, _, err := v.service.findSession(ctx, v.caller, id)
	if x == nil {
		return err
	}
	x.end(belljar.SessionClosed, "deleted by its caller", fault.ErrCanceled)
	return x.wait(ctx)
}

// Open returns the living session of a scope, or makes one.
func (v sessions) Open(ctx context.Context, req belljar.SessionRequest) (belljar.Session, bool, error) {
	opened, created, err := v.service.openSession(ctx, v.caller, req)
	if err != nil {
		v.service.denied(v.caller, err)
		return belljar.Session{}, false, fault.As("open a session", err)
	}
	return opened, created, nil
}

// CloseAll ends the caller's sessions by their scope.
func (v sessions) CloseAll(ctx context.Context, req belljar.CloseRequest) ([]string, error) {
	closed, err := v.service.closeScope(ctx, v.caller, req)
	if err != nil {
		v.service.denied(v.caller, err)
		return nil, fault.As("close sessions", err)
	}
	return closed, nil
}
