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

// Programs are built programs. The least recently used is evicted. The zero value is empty.
type Programs struct {
	mu    sync.Mutex
	byKey map[Key]*list.Element
	order list.List // of *Program, the most recently used first
	size  int64
}

// Program is one built program.
type Program struct {
	Key   Key
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
		b.byKey = map[Key]*list.Element{}
	}
	b.byKey[p.Key] = b.order.PushFront(p)
	for b.size += int64(len(p.Bytes)); b.size > maxAll; {
		last := b.order.Remove(b.order.Back()).(*Program)
		delete(b.byKey, last.Key)
		b.size -= int64(len(last.Bytes))
	}
}
