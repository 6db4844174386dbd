// Package memory stores logs in memory. They end with the process.
//
// A log costs little more than its output, however small its frames are: a program that writes single bytes makes millions
// of frames. Output is therefore stored in large segments, each frame with a head of a few bytes. Events are few and are
// stored as they are.
package memory

import (
	"sync"

	"github.com/belljar/belljar/internal/logbook"
)

// Book is a [logbook.Book] in memory. The zero value is ready.
type Book struct {
	mu   sync.Mutex
	logs map[string]*Log
}

// New returns an empty book.
func New() *Book { return &Book{} }

// Create creates the log of id.
func (b *Book) Create(id string) (logbook.Log, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.logs[id]; ok {
		return nil, logbook.ErrExists
	}
	if b.logs == nil {
		b.logs = map[string]*Log{}
	}
	log := &Log{}
	b.logs[id] = log
	return log, nil
}

// Open finds the log of id.
func (b *Book) Open(id string) (logbook.Log, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	log, ok := b.logs[id]
	if !ok {
		return nil, logbook.ErrNotFound
	}
	return log, nil
}

// Remove removes the log of id.
func (b *Book) Remove(id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	log := b.logs[id]
	if log == nil {
		return nil
	}
	delete(b.logs, id)
	return log.Seal()
}
