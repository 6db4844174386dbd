package snapshot

import (
	"context"
	"fmt"
	"sync"

	"github.com/belljar/belljar"
)

// archivesAtOnce is how many archives of one user may be on the disk at the same time, each as large as a snapshot may be.
const archivesAtOnce = 4

// turns counts the archives of each user on the disk. The zero value is ready.
type turns struct {
	mu    sync.Mutex
	taken map[string]int
}

// take takes one turn, and returns a function that releases it; [belljar.CodeRateLimited] if a user has all.
func (t *turns) take(user string) (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken[user] == archivesAtOnce {
		return nil, &belljar.Error{
			Code: belljar.CodeRateLimited, Message: fmt.Sprintf("%d snapshots of yours are being made", archivesAtOnce),
			Details: map[string]any{"limit": archivesAtOnce, "retry_after_sec": 1}, Hint: "send the same request again later",
		}
	}
	if t.taken == nil {
		t.taken = map[string]int{}
	}
	t.taken[user]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.taken[user]--; t.taken[user] == 0 {
			delete(t.taken, user)
		}
	}, nil
}

// lock locks the bytes of a user's digest, and returns a function that unlocks them: none are removed while a record of them is
// made.
func (s *Snapshots) lock(user, digest string) (unlock func()) {
	unlock, _ = s.locks.Lock(context.Background(), [2]string{user, digest}) // fails only with its context
	return unlock
}
