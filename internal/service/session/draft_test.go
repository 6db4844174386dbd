package session

import (
	"context"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/store"
)

// inserted is a store of sessions that counts new records.
type inserted struct {
	store.Sessions
	n int
}

func (i *inserted) Insert(context.Context, store.Session, *store.Key) (*store.Key, error) {
	i.n++
	return nil, nil
}

// A draft whose end came first is never on record: not even if its insert was already due, and waited for the end.
func TestDraftEndsFirst(t *testing.T) {
	records := &inserted{}
	s := New(Options{
		Store: records, Queue: queue.New(queue.Options{}), Clock: &stopped{time.Unix(1e9, 0)}, Memory: &admission.Memory{},
		Record: func(event.Event) {},
	})
	x := s.bare("1", belljar.Caller{}, belljar.SessionSpec{}, &placement.Placement{}, terms{ttl: time.Hour})
	s.table.adopt(x)
	s.beginDraft(x)
	x.end(belljar.SessionCrashed, "it could not be made", nil)
	x.recordEnd()
	s.insertDraft(x)
	if records.n > 0 {
		t.Error("it is on record as starting, for ever")
	}
}
