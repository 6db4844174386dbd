package dir

import (
	"errors"
	"io/fs"
	"sync"
)

// folder is one hour's folder. Callers that want its names made durable at the same moment share one sync.
type folder struct {
	path    string
	parents []string // nearest first, down to the book's own

	turn   sync.Mutex // held by the round that is syncing
	rooted bool       // the parents are durable too; belongs to the round that is syncing

	mu   sync.Mutex
	next *round // takes callers that come before its sync begins; nil for none
}

// round is one sync of a folder.
type round struct {
	done chan struct{}
	err  error
}

// sync returns when every name that was in the folder survives the loss of power.
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
	if err := present(syncFolder(f.path)); err != nil {
		return err
	}
	if f.rooted {
		return nil
	}
	for _, parent := range f.parents {
		if err := present(syncFolder(parent)); err != nil {
			return err
		}
	}
	f.rooted = true
	return nil
}

// present forgives a folder that is gone: then so is every log that was in it.
func present(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
