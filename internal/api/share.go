package api

import (
	"context"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// Shares limit the bytes of request bodies and of large responses that the server holds for one user, in memory or in a spool.
// Further requests wait, unread, until others release theirs.
type Shares struct {
	limit   int64         // of one user, bytes or lists
	maxWait time.Duration // how long a request waits

	scope, refusal string // of the error

	mu    sync.Mutex
	used  map[string]int64 // by user
	freed chan struct{}    // closed and replaced by every release
}

// What answers reserve: the bytes of JSON for one byte of text, and for one of JSON that is read, where an invalid byte becomes U+FFFD; for an
// entry of a list of files, whose path and target have at most 256 bytes on average, and for a match of a search, with 512 of its path and 500
// of its line.
const (
	Escaped    = 6
	reread     = 3
	EntryBytes = Escaped*256 + 128
	MatchBytes = Escaped*(512+500) + 128
)

// JSONShares returns the shares for JSON bodies: 32 MiB per user, and a wait of at most 20 s.
func JSONShares() *Shares { return NewShares(32<<20, 20*time.Second) }

// ListShares returns the shares for lists whose size is unknown before they are read, and which can take hundreds of MiB as records and as text:
// two of a user at the same time, and a wait of at most 20 s.
func ListShares() *Shares {
	s := NewShares(2, 20*time.Second)
	s.scope, s.refusal = "lists", "too many large lists are being read at once"
	return s
}

// NewShares gives every user a share of limit bytes. A request that exceeds it waits for at most maxWait.
func NewShares(limit int64, maxWait time.Duration) *Shares {
	return &Shares{
		limit: limit, maxWait: maxWait, used: map[string]int64{}, freed: make(chan struct{}),
		scope: "bodies", refusal: "too much is being sent or read at once",
	}
}

// Take reserves n bytes of a user's share. give releases them; calling it again does nothing. The error is
// [belljar.CodeRateLimited], or that of ctx.
func (s *Shares) Take(ctx context.Context, user string, n int64) (give func(), err error) {
	n = min(max(n, 0), s.limit)
	if err := s.reserve(ctx, user, n); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { s.release(user, n) }), nil
}

// reserve is [Shares.Take] without a function that releases.
func (s *Shares) reserve(ctx context.Context, user string, n int64) error {
	var timeout <-chan time.Time
	for {
		freed, ok := s.try(user, n)
		if ok {
			return nil
		}
		if timeout == nil {
			timeout = time.After(s.maxWait)
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			return &belljar.Error{
				Code: belljar.CodeRateLimited, Message: s.refusal,
				Details: map[string]any{"maximum": s.limit, "scope": s.scope},
				Hint:    "let some of your requests end, then send this one again",
			}
		}
	}
}

// try reserves n bytes if they are free. Otherwise it returns a channel that is closed at the next release.
func (s *Shares) try(user string, n int64) (freed <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[user]+n > s.limit {
		return s.freed, false
	}
	s.used[user] += n
	return nil, true
}

// release gives n bytes back. A nil Shares has none.
func (s *Shares) release(user string, n int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[user] -= n; s.used[user] == 0 {
		delete(s.used, user)
	}
	close(s.freed)
	s.freed = make(chan struct{})
}

// OutputSize returns what an answer with the output of a run reserves: for what its log has, and at most for 1 MiB of each stream and 4 MiB of
// results.
func OutputSize(run belljar.Run) int64 { return sizeOf(run, Escaped, (2*Escaped+4*reread)<<20) }

// ResultsSize returns what an answer with all results of a run up to its LastSeq reserves: for what its log has, or its frames at most while it
// runs, and at most 16 MiB, which is what they can have as text, so that two fit into a user's share.
func ResultsSize(run belljar.Run) int64 {
	const most = 16 << 20
	if run.ResourceUsage == nil && run.LastSeq > 0 {
		return min(reread*belljar.MaxFrameBytes*int64(min(run.LastSeq, most)), most)
	}
	return sizeOf(run, reread, most)
}

func sizeOf(run belljar.Run, times, most int64) int64 {
	if run.ResourceUsage == nil {
		return most
	}
	return min(times*run.ResourceUsage.LogBytes, most)
}

// BodySize returns the size that a body reserves: its length if it is known, at most limit.
func BodySize(length, limit int64) int64 {
	if length < 0 {
		return limit
	}
	return min(length, limit)
}
