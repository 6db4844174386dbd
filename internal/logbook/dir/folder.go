package dir

import (
	"errors"
	"io/fs"
	"sync"
)

// folder is one hour's folder. Concurrent calls of sync share one fsync.
type folder struct {
	path    string
	parents []string // nearest first, up to the book's own

	turn   sync.Mutex // held by the round that is syncing
	rooted bool       // the parents are synced too; owned by the round that is syncing

	mu   sync.Mutex
	next *round // collects callers until its sync begins; nil for none
}

// round is one sync of a folder.
type round struct {
	done chan struct{}
	err  error
}

// sync waits until every name that is in the folder at the time of the call is durable against a
// power failure.
func (f *folder) sync() error {
	f.mu.Lock()
	if r := f.next; r != nil {
		f.mu.Unlock()
		<-r.done
		return r.err
	}
	r := &round{done: make(chan struct{})}
	f.next = r
	f.mu.Unlock()

	f.turn.Lock()
	f.mu.Lock()
	f.next = nil
	f.mu.Unlock()
	r.err = f.flush()
	f.turn.Unlock()
	close(r.done)
	return r.err
}

func (f *folder) flush() error {
	if err := ignoreMissing(syncFolder(f.path)); err != nil {
		return err
	}
	if f.rooted {
		return nil
	}
	for _, parent := range f.parents {
		if err := ignoreMissing(syncFolder(parent)); err != nil {
			return err
		}
	}
	f.rooted = true
	return nil
}

// ignoreMissing drops the error of a folder that was removed: all of its logs were removed first.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
