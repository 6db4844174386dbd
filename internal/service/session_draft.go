package service

import (
	"context"
	"errors"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

// A session that is being made begins as a draft: nobody has been told its id. Most can be used in a moment, and go on
// record then, with one write. One that takes longer, or is looked for, goes on record as what it is, starting. Of a draft that the process
// takes with it, a sandbox is left that is nobody's, and is removed as such by the next process. A session with an
// idempotency key is never a draft: who sends the key again must find it.

// drawSession makes a session a draft.
func (s *Service) drawSession(x *session) {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.draft = true
	x.undraw = s.clock.AfterFunc(draftFor, func() { s.keepSession(x) })
}

// keepSession puts a draft on record as it stands. What keeps it from that is found again when its sandbox is ready; and
// of one that is not made, its end is then not on record either.
func (s *Service) keepSession(x *session) {
	x.writing.Lock()
	defer x.writing.Unlock()
	if !x.draft {
		return
	}
	row := x.row()
	if row.State.Ended() {
		row.State = belljar.SessionStarting // its end follows
	}
	if err := s.enlistSession(x, row); err != nil {
		s.log.Warn("session could not be put on record yet", "session_id", x.id, "err", err)
	}
}

// keepSessions puts all drafts on record, for somebody who lists them.
func (s *Service) keepSessions() {
	for _, x := range s.sessions.all() {
		select {
		case <-x.ready:
		default:
			s.keepSession(x)
		}
	}
}

// enlistSession puts a draft on record as row says. The caller holds x.writing.
func (s *Service) enlistSession(x *session, row store.Session) error {
	x.undraw()
	_, err := s.opts.Store.Sessions().Insert(context.Background(), row, nil)
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
