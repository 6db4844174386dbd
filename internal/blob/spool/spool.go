// Package spool stores the artifacts of each run in one unnamed file, so that nothing is left however the process ends.
// It is for the command line.
package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/belljar/belljar/internal/blob"
)

// Store is a [blob.Store] that ends with its process. The zero value stores its files in the system's temporary folder.
type Store struct {
	Dir string // folder of the unnamed files; "" is the system's temporary folder

	mu     sync.Mutex
	closed bool
	tapes  map[owner]*tape
}

// owner is a run and its user.
type owner struct{ userID, runID string }

// Put stores the bytes of r. Puts of one run are serialised.
func (s *Store) Put(ctx context.Context, k blob.Key, r io.Reader) (blob.Info, error) {
	if err := k.Check(); err != nil {
		return blob.Info{}, err
	}
	t, err := s.tape(owner{k.UserID, k.RunID})
	if err == nil {
		defer t.release()
		var info blob.Info
		if info, err = t.put(ctx, s.Dir, k.Path, r); err == nil {
			return info, nil
		}
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = fmt.Errorf("%w: %w", blob.ErrFull, err)
	}
	return blob.Info{}, fmt.Errorf("keep artifact %q: %w", k.Path, err)
}

// tape returns a run's tape. The caller must release it.
func (s *Store) tape(o owner) (*tape, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, os.ErrClosed
	}
	t, ok := s.tapes[o]
	if !ok {
		t = &tape{users: 1, parts: map[string]part{}} // the store's own reference
		if s.tapes == nil {
			s.tapes = map[owner]*tape{}
		}
		s.tapes[o] = t
	}
	t.hold()
	return t, nil
}

// Sync does nothing: the files end with the process.
func (s *Store) Sync(context.Context, string, string) error { return nil }

// Open returns an artifact's bytes from offset on; none after the end.
func (s *Store) Open(_ context.Context, k blob.Key, offset int64) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tapes[owner{k.UserID, k.RunID}]
	if !ok {
		return nil, blob.ErrNotFound
	}
	return t.open(k.Path, offset)
}

// Delete removes all artifacts of a run. Its file is freed when the last reader closes.
func (s *Store) Delete(_ context.Context, userID, runID string) error {
	s.mu.Lock()
	t := s.tapes[owner{userID, runID}]
	delete(s.tapes, owner{userID, runID})
	s.mu.Unlock()
	if t != nil {
		t.release()
	}
	return nil
}

// Orphans returns the runs whose last Put was before t and for which known returns false.
func (s *Store) Orphans(_ context.Context, t time.Time, known func(runID string) bool) ([]blob.Key, error) {
	s.mu.Lock()
	var keys []blob.Key
	for o, tape := range s.tapes {
		if tape.since().Before(t) {
			keys = append(keys, blob.Key{UserID: o.userID, RunID: o.runID})
		}
	}
	s.mu.Unlock()
	orphans := keys[:0]
	for _, k := range keys {
		if !known(k.RunID) {
			orphans = append(orphans, k)
		}
	}
	return orphans, nil
}

// Close removes all artifacts. Open readers stay valid. It may be called twice.
func (s *Store) Close() error {
	s.mu.Lock()
	tapes := s.tapes
	s.tapes, s.closed = nil, true
	s.mu.Unlock()
	for _, t := range tapes {
		t.release()
	}
	return nil
}
