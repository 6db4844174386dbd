package snapshot

import (
	"fmt"
	"sync"

	"github.com/belljar/belljar"
)

// archivesAtOnce is how many archives of one user may lie on the disk at once, each as large as a snapshot may be.
const archivesAtOnce = 4

// turns counts the archives of each user on the disk. The zero value is ready.
type turns struct {
	mu    sync.Mutex
	taken map[string]int
}

// take takes one, and returns what gives it back; [belljar.CodeRateLimited] if a user has all.
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

// locks are one lock for the bytes of each digest of a user: none are removed while a record of them is made. The zero value is ready.
type locks struct {
	mu   sync.Mutex
	held map[[2]string]*lock
}

type lock struct {
	sync.Mutex
	users int // guarded by the mu of all
}

// lock waits for the bytes, and returns what unlocks them.
func (l *locks) lock(user, digest string) (unlock func()) {
	key := [2]string{user, digest}
	l.mu.Lock()
	if l.held == nil {
		l.held = map[[2]string]*lock{}
	}
	one := l.held[key]
	if one == nil {
		one = &lock{}
		l.held[key] = one
	}
	one.users++
	l.mu.Unlock()
	one.Lock()
	return func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.held, key)
		}
	}
}
