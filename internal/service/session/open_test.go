package session

import (
	"errors"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/queue"
)

// Open tries again after a refusal by a live session, which may be gone by the time that Open looks. Another server's session stays.
func TestScopeInUse(t *testing.T) {
	s := New(Options{Terms: Terms{MaxPerUser: -1, MaxPerNode: -1}, Queue: queue.New(queue.Options{}), Clock: &stopped{time.Unix(1e9, 0)}})
	bare := func(id string) *Session {
		x := s.bare(id, belljar.Caller{ID: "ann"}, belljar.SessionSpec{}, &placement.Placement{}, terms{})
		x.scope, x.state.State = "a:b:c", belljar.SessionStarting
		return x
	}
	s.table.adopt(bare("1"))
	x := bare("2")
	if err := s.enter(t.Context(), x); !errors.Is(err, errScopeInUse) || belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("%v", err)
	}
	if err := scopeTaken(x.scope, "1", errScopeTaken); errors.Is(err, errScopeInUse) {
		t.Errorf("one on record: %v", err)
	}
}
