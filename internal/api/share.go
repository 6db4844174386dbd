package api

import (
	"context"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// Shares bound how many bytes of bodies the requests of one user may have in hand at once, in memory or in a spool. One
// who has more on the way waits until some are done; the bytes wait at his end.
type Shares struct {
	most     int64         // of one user, bytes
	patience time.Duration // how long a request waits

	mu    sync.Mutex
	used  map[string]int64 // by user
	freed chan struct{}    // closed when something is given back
}

// JSONShares is what one user's JSON bodies may take up until they are understood: 32 MiB. A request for which there is no
// room waits for 20 s.
func JSONShares() *Shares { return NewShares(32<<20, 20*time.Second) }

// NewShares gives every user a share of most bytes. A request for which there is no room waits for patience.
func NewShares(most int64, patience time.Duration) *Shares {
	return &Shares{most: most, patience: patience, used: map[string]int64{}, freed: make(chan struct{})}
}

// Take takes n bytes of a user's share, and give gives them back; it may be called again. The error is
// [belljar.CodeRateLimited], or that of ctx.
func (s *Shares) Take(ctx context.Context, user string, n int64) (give func(), err error) {
	n = min(max(n, 0), s.most)
	var late <-chan time.Time
	for {
		freed, ok := s.try(user, n)
		if ok {
			return sync.OnceFunc(func() { s.give(user, n) }), nil
		}
		if late == nil {
			timer := time.NewTimer(s.patience)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late:
			return nil, &belljar.Error{
				Code: belljar.CodeRateLimited, Message: "too much is being sent at once",
				Details: map[string]any{"maximum": s.most, "scope": "bodies"},
				Hint:    "let some of your requests end, then send this one again",
			}
		}
	}
}

// try takes n bytes if they are there; else it returns what is closed when it is worth another try.
func (s *Shares) try(user string, n int64) (freed <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[user]+n > s.most {
		return s.freed, false
	}
	s.used[user] += n
	return nil, true
}

func (s *Shares) give(user string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[user] -= n; s.used[user] == 0 {
		delete(s.used, user)
	}
	close(s.freed)
	s.freed = make(chan struct{})
}

// Announced is how many bytes a body will have: as it says, else as many as it may.
func Announced(length, limit int64) int64 {
	if length < 0 {
		return limit
	}
	return min(length, limit)
}
