package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

type sessions struct{ s *Store }

func keptSession(s store.Session) (store.Session, error) {
	s.CreatedAt, s.ExpiresAt, s.EndedAt = instant(s.CreatedAt), instant(s.ExpiresAt), instantOrNil(s.EndedAt)
	return deepCopy(s)
}

// Insert stores a session.
func (q sessions) Insert(ctx context.Context, s store.Session, key *store.Key) (prior *store.Key, err error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	s, err = keptSession(s)
	if err != nil {
		return nil, err
	}
	err = q.s.write(ctx, func() error {
		if prior = q.s.activeKey(key); prior != nil {
			return nil
		}
		if q.s.sessions[s.ID] != nil || q.taken(&s) {
			return fmt.Errorf("session %s: %w", s.ID, store.ErrExists)
		}
		q.s.keep(key)
		q.s.sessions[s.ID] = &entry[store.Session]{arrival: q.s.next(), value: s}
		q.s.countEnded(s, 1)
		return nil
	})
	return prior, err
}

// taken reports whether another open session of the owner has the scope key.
func (q sessions) taken(s *store.Session) bool {
	if s.Key == "" || s.EndedAt != nil {
		return false
	}
	for _, e := range q.s.sessions {
		if e.value.ID != s.ID && e.value.EndedAt == nil && e.value.UserID == s.UserID && e.value.Key == s.Key {
			return true
		}
	}
	return false
}

// Update replaces a session.
func (q sessions) Update(ctx context.Context, s store.Session) error {
	if err := s.Check(); err != nil {
		return err
	}
	s, err := keptSession(s)
	if err != nil {
		return err
	}
	return q.s.write(ctx, func() error {
		e := q.s.sessions[s.ID]
		if e == nil {
			return fmt.Errorf("session %s: %w", s.ID, store.ErrNotFound)
		}
		s.UserID, s.CreatedAt = e.value.UserID, e.value.CreatedAt
		if s.Key != "" {
			s.Key = e.value.Key
		}
		if q.taken(&s) {
			return fmt.Errorf("session %s: scope key: %w", s.ID, store.ErrExists)
		}
		q.s.countEnded(e.value, -1)
		e.value = s
		q.s.countEnded(s, 1)
		return nil
	})
}

// countEnded adds the size of a session's record to its owner's records, or subtracts it. An open session counts nothing.
func (s *Store) countEnded(x store.Session, sign int64) {
	if x.EndedAt != nil {
		raw, _ := json.Marshal(x.Session) // it has been encoded before
		s.records[x.UserID] += sign * int64(len(raw))
		s.bytes[x.UserID] += 0 // Kept finds the user there
	}
}

// Get returns a session.
func (q sessions) Get(ctx context.Context, id string) (s store.Session, err error) {
	err = q.s.read(ctx, func() (err error) {
		e := q.s.sessions[id]
		if e == nil {
			return store.ErrNotFound
		}
		s, err = deepCopy(e.value)
		return err
	})
	return s, err
}

// List returns one page of an owner's sessions.
func (q sessions) List(ctx context.Context, userID string, query belljar.SessionQuery) (page []store.Session, total int, err error) {
	err = q.s.read(ctx, func() (err error) {
		var all []*entry[store.Session]
		for _, e := range q.s.sessions {
			if matches(userID, e.value.UserID) && (query.All || e.value.EndedAt == nil) && strings.HasPrefix(e.value.Key, query.KeyPrefix) {
				all = append(all, e)
			}
		}
		sortEntries(all, true, func(s *store.Session) time.Time { return s.CreatedAt })
		total = len(all)
		page, err = copyPage(pageOf(all, query.Limit, query.Offset), func(s *store.Session) { s.Spec = belljar.SessionSpec{} })
		return err
	})
	return page, total, err
}

// Unfinished returns every session that has not ended.
func (q sessions) Unfinished(ctx context.Context) (out []store.Session, err error) {
	err = q.s.read(ctx, func() (err error) {
		var all []*entry[store.Session]
		for _, e := range q.s.sessions {
			if e.value.EndedAt == nil {
				all = append(all, e)
			}
		}
		sortEntries(all, false, func(s *store.Session) time.Time { return s.CreatedAt })
		out, err = copyPage(all, nil)
		return err
	})
	return out, err
}

// DeleteEnded deletes the sessions that ended before t.
func (q sessions) DeleteEnded(ctx context.Context, t time.Time) (n int, err error) {
	err = q.s.write(ctx, func() error {
		for id, e := range q.s.sessions {
			if e.value.EndedAt != nil && e.value.EndedAt.Before(instant(t)) {
				q.s.countEnded(e.value, -1)
				delete(q.s.sessions, id)
				n++
			}
		}
		return nil
	})
	return n, err
}
