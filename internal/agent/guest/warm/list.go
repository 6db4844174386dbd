//go:build linux

package warm

import (
	"slices"
	"sync"
)

const (
	mostWaiting = 2  // interpreters of one agent
	mostKeys    = 16 // keys to remember
)

// List holds the parked interpreters, by their keys. The zero value is empty.
type List[P comparable] struct {
	mu       sync.Mutex
	waiting  []entry[P]          // the most recently used last
	starting map[string]struct{} // keys
	threaded map[string]struct{} // keys of interpreters with threads, which cannot fork
	unfit    map[string]struct{} // keys of interpreters that failed to park
}

type entry[P comparable] struct {
	key   string
	p     P
	forks bool
}

// Begin reports whether to start an interpreter with a key, and whether it may fork. If first is true, the caller must
// call [List.Began] afterwards.
func (l *List[P]) Begin(key string) (forks, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.starting == nil {
		l.starting, l.threaded, l.unfit = make(map[string]struct{}), make(map[string]struct{}), make(map[string]struct{})
	}
	_, starting := l.starting[key]
	if _, unfit := l.unfit[key]; unfit || starting || l.index(key) >= 0 {
		return false, false
	}
	l.starting[key] = struct{}{}
	_, threaded := l.threaded[key]
	return !threaded, true
}

// Began ends the start that Begin has recorded.
func (l *List[P]) Began(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.starting, key)
}

// Threaded records that an interpreter with a key cannot fork.
func (l *List[P]) Threaded(key string) { l.note(l.threaded, key) }

// Unfit records that no interpreter with a key can be parked.
func (l *List[P]) Unfit(key string) { l.note(l.unfit, key) }

func (l *List[P]) note(keys map[string]struct{}, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(keys) == mostKeys {
		clear(keys)
	}
	keys[key] = struct{}{}
}

// Take returns the interpreter with a key, and removes it unless it forks.
func (l *List[P]) Take(key string) (p P, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.index(key)
	if i < 0 {
		return p, false
	}
	e := l.waiting[i]
	l.waiting = slices.Delete(l.waiting, i, i+1)
	if e.forks {
		l.waiting = append(l.waiting, e)
	}
	return e.p, true
}

// Add adds an interpreter. If there are too many, it returns the least recently used one.
func (l *List[P]) Add(key string, forks bool, p P) (old P, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, entry[P]{key, p, forks})
	if len(l.waiting) > mostWaiting {
		old, full = l.waiting[0].p, true
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
	return old, full
}

// Remove removes an interpreter; false if it was removed already.
func (l *List[P]) Remove(p P) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.waiting)
	l.waiting = slices.DeleteFunc(l.waiting, func(e entry[P]) bool { return e.p == p })
	return len(l.waiting) < n
}

// Clear removes all interpreters and returns them.
func (l *List[P]) Clear() (all []P) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.waiting {
		all = append(all, e.p)
	}
	l.waiting = nil
	return all
}

func (l *List[P]) index(key string) int {
	return slices.IndexFunc(l.waiting, func(e entry[P]) bool { return e.key == key })
}
