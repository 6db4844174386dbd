package session

import (
	"context"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// listed is a store of sessions that end while they are listed.
type listed struct {
	store.Sessions
	rows map[string]store.Session // how they ended
}

func (l listed) List(context.Context, string, belljar.SessionQuery) ([]store.Session, int, error) {
	return []store.Session{live("1"), live("swept"), live("stopped")}, 3, nil
}

func (l listed) Get(_ context.Context, id string) (store.Session, error) {
	row, ok := l.rows[id]
	if !ok {
		return row, store.ErrNotFound
	}
	return row, nil
}

func live(id string) store.Session {
	return store.Session{Session: belljar.Session{ID: id, State: belljar.SessionActive}}
}

// A session that ends after the list has read its record is not lost: the list has its end.
func TestListOfEndingSessions(t *testing.T) {
	closed := store.Session{Session: belljar.Session{ID: "1", State: belljar.SessionClosed, Message: "deleted by its caller"}}
	s := New(Options{Store: listed{rows: map[string]store.Session{"1": closed, "stopped": live("stopped")}}})
	page, err := s.List(t.Context(), "ann", belljar.SessionQuery{Limit: 10})
	if err != nil || len(page.Items) != 2 {
		t.Fatalf("%+v, %v", page.Items, err)
	}
	if got := page.Items[0]; got.State != belljar.SessionClosed || got.Message != closed.Message {
		t.Errorf("one that its caller deleted: %+v", got)
	}
	if got := page.Items[1]; got.State != belljar.SessionLost {
		t.Errorf("one of a former process: %+v", got)
	}
}
