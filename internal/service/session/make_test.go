package session

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/store"
)

// asked is a clock that calls a function whenever it is read.
type asked struct {
	stopped
	do func()
}

func (c asked) Now() time.Time {
	c.do()
	return c.at
}

// last is a store of sessions that remembers the last record.
type last struct {
	store.Sessions
	row store.Session
}

func (l *last) Update(_ context.Context, row store.Session) error {
	l.row = row
	return nil
}

// No record is written between the record of a resumed session and its activation: it would say that the session is hibernated, whose files are then
// removed.
func TestActivate(t *testing.T) {
	records, between := &last{}, 0
	var x *Session
	s := New(Options{Store: records, Queue: queue.New(queue.Options{}), Clock: asked{stopped{time.Unix(1e9, 0)}, func() {
		if records.row.State == belljar.SessionActive && x.writing.TryLock() {
			x.writing.Unlock()
			between++
		}
	}}})
	x = s.bare("1", belljar.Caller{}, belljar.SessionSpec{}, &placement.Placement{}, terms{ttl: time.Hour})
	x.state.State, x.asleep.saved, x.asleep.release = belljar.SessionHibernated, &store.Hibernation{}, func() {}
	if err := s.activate(x, &box.Box{}); err != nil || between > 0 {
		t.Errorf("%v; it could be written %d times", err, between)
	}
	if records.row.State != belljar.SessionActive || records.row.Hibernation != nil || x.state.State != belljar.SessionActive || x.asleep.saved != nil {
		t.Errorf("on record as %+v; it is %s", records.row, x.state.State)
	}
}

// A repository that does not fit into a volume refuses the session with a hint about volumes.
func TestMakeErrorWithoutRoom(t *testing.T) {
	x := &Session{id: "1", spec: belljar.SessionSpec{Workspace: belljar.Workspace{Volume: "v"}}}
	e, _ := makeError(x, fmt.Errorf("upload: %w", &wire.Error{Code: wire.CodeNoSpace})).(*belljar.Error)
	const hint = "delete something in the volume, or use another volume with a larger workspace.mb (--disk)"
	if e == nil || e.Code != belljar.CodeTooLarge || e.Hint != hint || e.Details["field"] != "workspace.volume" || e.Details["session_id"] != "1" {
		t.Errorf("%+v", e)
	}
}

// A host without room refuses the session for now, so that clients retry.
func TestMakeErrorOfAFullHost(t *testing.T) {
	x := &Session{id: "1", place: &placement.Placement{Host: &placement.Host{Runtime: fake.New(fake.Options{})}}}
	for cause, retry := range map[error]any{runtime.ErrFull: box.FullRetrySec, io.ErrUnexpectedEOF: nil} {
		e, _ := makeError(x, &runtime.StepError{Step: "cgroup", Err: fmt.Errorf("make: %w", cause), Hint: "later"}).(*belljar.Error)
		if e == nil || e.Code != belljar.CodeRuntimeUnavailable || e.Details["retry_after_sec"] != retry || e.Hint != "later" {
			t.Errorf("%v: %+v", cause, e)
		}
	}
}

// The record of an ended session has no request, which may have megabytes.
func TestEndedRow(t *testing.T) {
	s := New(Options{Queue: queue.New(queue.Options{}), Clock: stopped{time.Unix(1e9, 0)}})
	x := s.bare("1", belljar.Caller{}, belljar.SessionSpec{Env: map[string]string{"A": "1"}}, &placement.Placement{}, terms{ttl: time.Hour})
	for state, want := range map[belljar.SessionState]int{belljar.SessionActive: 1, belljar.SessionClosed: 0} {
		x.state.State = state
		if row := x.row(); len(row.Spec.Env) != want {
			t.Errorf("%s: %+v", state, row.Spec)
		}
	}
}
