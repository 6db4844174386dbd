package session

import (
	"context"
	"errors"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

// A session that is being made is a draft: no caller knows its id. Most are usable within milliseconds, and are then recorded
// with one write. A session that takes longer, or appears in a list, is recorded as starting. If the process dies, a draft
// leaves an orphaned sandbox, which the next process removes. A session with an idempotency key is never a draft: a repeated
// request must find it.

// draftFor is how long a session may stay a draft.
const draftFor = 200 * time.Millisecond

// beginDraft makes a session a draft.
func (s *Sessions) beginDraft(x *Session) {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.draft = true
	x.cancelInsert = s.opts.Clock.AfterFunc(draftFor, func() { s.insertDraft(x) })
}

// insertDraft records a draft in its current state. If that fails, it is retried when the sandbox is ready. If making the
// sandbox fails as well, the session is never recorded.
func (s *Sessions) insertDraft(x *Session) {
	x.writing.Lock()
	defer x.writing.Unlock()
	if !x.draft {
		return
	}
	row := x.row()
	if row.State.Ended() {
		row.State = belljar.SessionStarting // its end follows
	}
	if err := s.insert(x, row); err != nil {
		s.opts.Log.Warn("session cannot be recorded yet", "session_id", x.id, "err", err)
	}
}

// insertDrafts records all drafts, for a list.
func (s *Sessions) insertDrafts() {
	for _, x := range s.table.all() {
		select {
		case <-x.ready:
		default:
			s.insertDraft(x)
		}
	}
}

// insert records a draft as row. The caller holds x.writing.
func (s *Sessions) insert(x *Session, row store.Session) error {
	x.cancelInsert()
	_, err := s.opts.Store.Insert(context.Background(), row, nil)
	switch {
	case errors.Is(err, store.ErrExists):
		return s.taken(context.Background(), x)
	case err != nil:
		return fault.Record("put the session on record", err)
	}
	x.draft = false
	x.mu.Lock()
	x.life.recorded = row.ExpiresAt
	x.mu.Unlock()
	return nil
}
