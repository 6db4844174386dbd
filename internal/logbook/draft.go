package logbook

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/belljar/belljar"
)

// draftBytes is the size limit of a draft. A row of the store can hold about that much without slowing down lists.
const draftBytes = 16 << 10

// frameBytes is the approximate size of a frame without its output.
const frameBytes = 128

// Draft is a [Log] in memory that is not yet in its book. It moves to the book when it is kept, exceeds 16 KiB or is read
// before its end. A short run thus costs no file.
type Draft struct {
	book Book
	id   string

	mu     sync.Mutex
	log    Log             // in the book; nil while the draft is in memory
	frames []belljar.Frame // the frames while it is in memory
	bytes  int             // approximate size of the frames
	sealed bool            // in memory, and final
}

// NewDraft returns a draft of the log of id.
func NewDraft(book Book, id string) *Draft { return &Draft{book: book, id: id} }

// Append implements [Log.Append]. After an error none of the frames is kept.
func (d *Draft) Append(frames ...belljar.Frame) error {
	log, err := d.buffer(frames)
	if log == nil || err != nil {
		return err
	}
	return log.Append(frames...)
}

// buffer keeps frames in memory, or returns the log to append them to.
func (d *Draft) buffer(frames []belljar.Frame) (Log, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sealed {
		return nil, ErrSealed
	}
	more := 0
	for _, f := range frames {
		more += frameBytes + len(f.Output)
	}
	if d.log == nil && d.bytes+more > draftBytes {
		if err := d.keep(); err != nil {
			return nil, err
		}
	}
	if d.log != nil {
		return d.log, nil
	}
	for _, f := range frames {
		f.Seq, f.Output = uint64(len(d.frames)+1), bytes.Clone(f.Output)
		d.frames = append(d.frames, f)
	}
	d.bytes += more
	return nil, nil
}

// Keep moves the draft to its book. It may be called twice. An error leaves the draft unchanged.
func (d *Draft) Keep() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keep()
}

// keep is Keep for a caller that holds mu.
func (d *Draft) keep() error {
	if d.log != nil || d.sealed {
		return nil
	}
	log, err := d.book.Create(d.id)
	if err != nil {
		return err
	}
	if err := log.Append(d.frames...); err != nil {
		if removed := d.book.Remove(d.id); removed != nil {
			return fmt.Errorf("%w; and %w", err, removed)
		}
		return err
	}
	d.log, d.frames = log, nil
	return nil
}

// Take seals a draft that is in memory and returns its frames for the caller to store. It returns false if the book has
// the log.
func (d *Draft) Take() (frames []belljar.Frame, taken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sealed = d.log == nil
	return d.frames, d.sealed
}

// Frames returns the frames of a draft that is in memory and leaves it as it is. It returns false if the book has the log.
func (d *Draft) Frames() ([]belljar.Frame, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.frames), d.log == nil
}

// Read implements [Log.Read].
func (d *Draft) Read(ctx context.Context, from uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		if err := d.Keep(); err != nil {
			yield(belljar.Frame{}, err)
			return
		}
		if d.log != nil { // it no longer changes
			d.log.Read(ctx, from)(yield)
			return
		}
		for _, f := range d.frames { // it was taken
			if f.Seq >= from && !yield(f, nil) {
				return
			}
		}
	}
}

// Last implements [Log.Last].
func (d *Draft) Last() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.log != nil {
		return d.log.Last()
	}
	return uint64(len(d.frames))
}

// Size implements [Log.Size]. It is approximate while the draft is in memory.
func (d *Draft) Size() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.log != nil {
		return d.log.Size()
	}
	return int64(d.bytes)
}

// Seal implements [Log.Seal]. It first keeps a draft that was not taken.
func (d *Draft) Seal() error {
	if err := d.Keep(); err != nil {
		return err
	}
	if d.log == nil {
		return nil
	}
	return d.log.Seal()
}
