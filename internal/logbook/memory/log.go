package memory

import (
	"context"
	"iter"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
)

// markEvery is the number of frames between two index entries, by which a reader finds its first frame.
const markEvery = 256

// frameSize is the approximate size of a frame without its output, in bytes.
const frameSize = 16

// Log is a [logbook.Log] in memory. The zero value is empty and open.
type Log struct {
	mu      sync.Mutex
	tape    tape
	notes   []belljar.Frame // the frames that are not output, in order
	marks   []place         // index entries of frames 1, 1+markEvery, 1+2*markEvery …
	count   uint64          // frames appended
	size    int64           // of output and notes
	sealed  bool
	changed chan struct{} // closed at the next change; nil without waiters
}

// place is the position of a frame on the tape, and in notes if the frame is a note.
type place struct {
	at   position
	note int
}

// Append numbers frames and stores them.
func (l *Log) Append(frames ...belljar.Frame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed {
		return logbook.ErrSealed
	}
	for _, f := range frames {
		at := l.tape.put(kindOf(&f), f.Output)
		if l.count%markEvery == 0 {
			l.marks = append(l.marks, place{at, len(l.notes)})
		}
		l.count++
		l.size += frameSize + int64(len(f.Output))
		if kindOf(&f) == kindNote {
			f.Seq = l.count
			l.notes = append(l.notes, f)
		}
	}
	l.wake()
	return nil
}

// Last returns the seq of the last frame.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// Size returns the approximate size of the log in bytes.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

// Seal ends the log.
func (l *Log) Seal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = true
	l.wake()
	return nil
}

// wake wakes every waiting reader. The caller holds the lock.
func (l *Log) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Read yields the frames from seq from and follows the log to its end.
func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		c := cursor{log: l, next: 1, want: max(from, 1)}
		var batch [32]belljar.Frame
		for {
			n, changed := c.take(batch[:])
			for _, f := range batch[:n] {
				if err := ctx.Err(); err != nil {
					yield(belljar.Frame{}, err)
					return
				}
				if !yield(f, nil) {
					return
				}
			}
			switch {
			case n > 0:
			case changed == nil:
				return
			default:
				select {
				case <-changed:
				case <-ctx.Done():
					yield(belljar.Frame{}, ctx.Err())
					return
				}
			}
		}
	}
}

// cursor is one reader's place in a log.
type cursor struct {
	log   *Log
	place        // of frame next; the zero place is that of frame 1
	next  uint64 // frame at place
	want  uint64 // first frame to yield
}

// take fills batch with available frames. If there are none it returns a channel that is closed when the log changes,
// or nil at the log's end.
func (c *cursor) take(batch []belljar.Frame) (n int, changed <-chan struct{}) {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	c.skip()
	for n < len(batch) && c.next <= l.count {
		f := c.read()
		if f.Seq >= c.want {
			batch[n] = f
			n++
		}
	}
	if n > 0 {
		return n, nil
	}
	if l.sealed {
		return 0, nil
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return 0, l.changed
}

// skip moves to the last mark before the first wanted frame.
func (c *cursor) skip() {
	if c.next >= c.want || c.log.count == 0 {
		return
	}
	mark := (min(c.want, c.log.count) - 1) / markEvery
	if seq := mark*markEvery + 1; seq > c.next {
		c.place, c.next = c.log.marks[mark], seq
	}
}

// read returns frame next, which must exist, and advances past it.
func (c *cursor) read() belljar.Frame {
	kind, output, at := c.log.tape.get(c.at)
	f := kind.frame(c.next, output)
	if kind == kindNote {
		f = c.log.notes[c.note]
		c.note++
	}
	c.at = at
	c.next++
	return f
}
