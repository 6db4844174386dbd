// Package memory is a store that forgets when the process ends: for tests, and for servers that are to leave nothing
// behind. It keeps the rest of the contract.
package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// Store is a store in memory. Make it with [New].
type Store struct {
	mu       sync.RWMutex
	closed   bool
	arrivals uint64 // rows of one instant keep the order in which they came
	runs     map[string]*entry[store.Run]
	sessions map[string]*entry[store.Session]
	keys     map[keyName]*entry[store.Key]
	tokens   map[string]*entry[store.Token]
	bytes    map[string]int64 // artifacts kept, by user
	logs     map[string]int64 // log bytes kept, by user
	cpu      map[userDay]float64
	quotas   map[string]belljar.Quota
}

// entry is something on record. Nobody outside ever holds it: values are copied in and out.
type entry[T any] struct {
	arrival uint64
	value   T
}

type keyName struct{ endpoint, userKey, key string }

type userDay struct{ user, day string }

// New returns an empty store.
func New() *Store {
	return &Store{
		runs:     map[string]*entry[store.Run]{},
		sessions: map[string]*entry[store.Session]{},
		keys:     map[keyName]*entry[store.Key]{},
		tokens:   map[string]*entry[store.Token]{},
		bytes:    map[string]int64{},
		logs:     map[string]int64{},
		cpu:      map[userDay]float64{},
		quotas:   map[string]belljar.Quota{},
	}
}

// Mode returns memory.
func (s *Store) Mode() string { return "memory" }

// Runs returns the runs on record.
func (s *Store) Runs() store.Runs { return runs{s} }

// Sessions returns the sessions on record.
func (s *Store) Sessions() store.Sessions { return sessions{s} }

// Keys returns the idempotency keys.
func (s *Store) Keys() store.Keys { return keys{s} }

// Users returns what users use and may use.
func (s *Store) Users() store.Users { return users{s} }

// Tokens returns the API keys on record.
func (s *Store) Tokens() store.Tokens { return tokens{s} }

// Ping works until the store is closed.
func (s *Store) Ping(ctx context.Context) error { return s.read(ctx, func() error { return nil }) }

// Close forgets everything.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.runs, s.sessions, s.keys, s.tokens, s.bytes, s.logs, s.cpu, s.quotas = nil, nil, nil, nil, nil, nil, nil, nil
	return nil
}

// write makes a change that nobody sees half of. do must check before it changes anything.
func (s *Store) write(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	return do()
}

func (s *Store) read(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	return do()
}

func (s *Store) next() uint64 {
	s.arrivals++
	return s.arrivals
}

// copied returns a value that shares nothing with v. It goes through JSON, as it does in the stores that last.
func copied[T any](v T) (out T, err error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return out, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return out, nil
}

// copies returns the values of one page of entries, whole or as cut leaves them.
func copies[T any](entries []*entry[T], cut func(*T)) ([]T, error) {
	var out []T
	for _, e := range entries {
		v := e.value
		if cut != nil {
			cut(&v)
		}
		v, err := copied(v)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// sorted sorts entries by a time, and those of one instant by arrival.
func sorted[T any](entries []*entry[T], newest bool, at func(*T) time.Time) {
	slices.SortFunc(entries, func(a, b *entry[T]) int {
		order := at(&a.value).Compare(at(&b.value))
		if order == 0 {
			order = 1
			if a.arrival < b.arrival {
				order = -1
			}
		}
		if newest {
			return -order
		}
		return order
	})
}

func pageOf[T any](all []T, limit, offset int) []T {
	limit, offset = store.Page(limit, offset)
	if offset >= len(all) {
		return nil
	}
	return all[offset:min(len(all), offset+limit)]
}

// instant is a time as stores keep it.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func instantOrNil(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(instant(*t))
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
