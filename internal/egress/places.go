package egress

import (
	"cmp"
	"sync"
)

// Places limits the connections that the gates of a server have open at the same time. The zero value is ready for use.
type Places struct {
	OfUser int // of the gates of one user: 2,048
	OfAll  int // of all gates: 8,192

	mu    sync.Mutex
	users map[string]int // the open connections of each user that has any
	all   int
}

// take takes a place for a connection of a user. It reports whether one was free. A nil Places has no limit.
func (p *Places) take(user string) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users[user] >= cmp.Or(p.OfUser, 2048) || p.all >= cmp.Or(p.OfAll, 8192) {
		return false
	}
	if p.users == nil {
		p.users = map[string]int{}
	}
	p.users[user]++
	p.all++
	return true
}

// release releases a place that take has taken.
func (p *Places) release(user string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.users[user]--; p.users[user] == 0 {
		delete(p.users, user)
	}
}
