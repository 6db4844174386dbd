// Package built caches built programs of requests with build_cache.
package built

import (
	"container/list"
	"crypto/sha256"
	"sync"

	"github.com/belljar/belljar"
)

// Bounds of the cache, in bytes of memory.
const (
	MaxProgram = 16 << 20
	maxAll     = 64 << 20
)

// Key is the hash of everything that determines a compiler's output, and of the user: users share nothing.
type Key [sha256.Size]byte

// Programs are built programs. Those of the user who holds the most are evicted, the least recently used first, so that a user cannot
// evict those of all others. The zero value is empty.
type Programs struct {
	mu    sync.Mutex
	byKey map[Key]*list.Element
	order list.List // of *Program, the most recently used first
	size  int64
	held  map[string]int64 // bytes by user
}

// Program is one built program.
type Program struct {
	Key   Key
	User  string
	Bytes []byte // the file, or a tar stream of the folder
	Build belljar.Build
}

// Get returns the program with a key; nil if there is none.
func (b *Programs) Get(key Key) *Program {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.byKey[key]
	if e == nil {
		return nil
	}
	b.order.MoveToFront(e)
	return e.Value.(*Program)
}

// Put adds a program, unless there is one with its key.
func (b *Programs) Put(p *Program) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byKey[p.Key] != nil {
		return // a concurrent run was faster
	}
	if b.byKey == nil {
		b.byKey, b.held = map[Key]*list.Element{}, map[string]int64{}
	}
	b.byKey[p.Key] = b.order.PushFront(p)
	for b.add(p.User, len(p.Bytes)); b.size > maxAll; {
		most := p.User
		for user, bytes := range b.held {
			if bytes > b.held[most] {
				most = user
			}
		}
		last := b.order.Back()
		for last.Value.(*Program).User != most {
			last = last.Prev()
		}
		if last == b.order.Front() { // the new one: users who each hold less must not keep it out for ever
			last = b.order.Back()
		}
		old := b.order.Remove(last).(*Program)
		delete(b.byKey, old.Key)
		b.add(old.User, -len(old.Bytes))
	}
}

// add counts n more bytes of a user.
func (b *Programs) add(user string, n int) {
	b.size += int64(n)
	if b.held[user] += int64(n); b.held[user] == 0 {
		delete(b.held, user)
	}
}
