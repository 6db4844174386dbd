// Package memory is a store that ends with the process: for tests, and for servers that must leave no data. It meets
// the rest of the contract.
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
	arrivals uint64 // sequence number that orders rows with equal times
	runs     map[string]*entry[store.Run]
	sessions map[string]*entry[store.Session]
	keys     map[keyName]*entry[store.Key]
	tokens   map[string]*entry[store.Token]
	asked    map[string]*entry[belljar.Approval]
	bytes    map[string]int64 // artifacts kept, by user
	logs     map[string]int64 // log bytes kept, by user
	records  map[string]int64 // bytes of the records of ended runs and sessions, by user
	recent   map[string]int64 // the part of records whose logs are not swept
	cpu      map[userDay]float64
	egress   map[userDay]int64
	quotas   map[string]belljar.Quota
	secrets  map[secretName]store.Secret
	saved    map[string]*entry[belljar.Snapshot]
	built    map[secretName]store.Template
}

// entry is a stored value. It never leaves the package: values are copied in and out.
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
		asked:    map[string]*entry[belljar.Approval]{},
		bytes:    map[string]int64{},
		logs:     map[string]int64{},
		records:  map[string]int64{},
		recent:   map[string]int64{},
		cpu:      map[userDay]float64{},
		egress:   map[userDay]int64{},
		quotas:   map[string]belljar.Quota{},
		secrets:  map[secretName]store.Secret{},
		saved:    map[string]*entry[belljar.Snapshot]{},
		built:    map[secretName]store.Template{},
	}
}

// Mode returns memory.
func (s *Store) Mode() string { return "memory" }

// Runs returns the stored runs.
func (s *Store) Runs() store.Runs { return runs{s} }

// Sessions returns the stored sessions.
func (s *Store) Sessions() store.Sessions { return sessions{s} }

// Keys returns the idempotency keys.
func (s *Store) Keys() store.Keys { return keys{s} }

// Users returns the usage and the quotas of users.
func (s *Store) Users() store.Users { return users{s} }

// Tokens returns the stored API keys.
func (s *Store) Tokens() store.Tokens { return tokens{s} }

// Secrets returns the secrets that users store.
func (s *Store) Secrets() store.Secrets { return secrets{s} }

// Approvals returns the stored approvals.
func (s *Store) Approvals() store.Approvals { return approvals{s} }

// Templates returns the records of templates.
func (s *Store) Templates() store.Templates { return templates{s} }

// Snapshots returns the records of saved workspaces.
func (s *Store) Snapshots() store.Snapshots { return snapshots{s} }

// Ping succeeds until the store is closed.
func (s *Store) Ping(ctx context.Context) error { return s.read(ctx, func() error { return nil }) }

// Close drops all data.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.runs, s.sessions, s.keys, s.tokens, s.bytes, s.logs, s.records, s.recent, s.cpu, s.egress, s.quotas, s.secrets, s.asked, s.saved, s.built = nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil
	return nil
}

// write runs do under the write lock. do must finish its checks before it changes anything: there is no rollback.
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

// deepCopy returns a copy that shares no memory with v. It encodes v as JSON, as the persistent stores do.
func deepCopy[T any](v T) (out T, err error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return out, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return out, nil
}

// copyPage returns copies of the entries of a page. cut, if set, drops fields before the copy.
func copyPage[T any](entries []*entry[T], cut func(*T)) ([]T, error) {
	var out []T
	for _, e := range entries {
		v := e.value
		if cut != nil {
			cut(&v)
		}
		v, err := deepCopy(v)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// sortEntries sorts entries by a time, and those with equal times by arrival.
func sortEntries[T any](entries []*entry[T], newest bool, at func(*T) time.Time) {
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

// instant returns a time in the precision of stores: in UTC, to the microsecond.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func instantOrNil(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(instant(*t))
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
