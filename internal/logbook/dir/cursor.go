package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/belljar/belljar"
)

// blockSize is how much a reader reads of a file at once, in bytes: room for any frame that the service makes. A larger
// one is read whole.
const blockSize = 48 << 10

// Read yields the frames from seq from and follows the log to its end. Frames keep what they refer to alive: it is not
// used again.
func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		c := cursor{log: l, next: 1, at: headSize, want: max(from, 1)}
		defer func() {
			if c.file != nil {
				l.release()
			}
		}()
		for {
			v, changed := l.look(c.next)
			if c.file == nil && !v.inMemory() {
				file, err := l.hold()
				if err != nil {
					yield(belljar.Frame{}, err)
					return
				}
				c.file = file
			}
			switch {
			case v.closed:
				yield(belljar.Frame{}, fmt.Errorf("log %s: %w", l.id, os.ErrClosed))
				return
			case v.count >= c.next:
				if !c.walk(ctx, v, yield) {
					return
				}
			case v.sealed:
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
	log     *Log
	file    *os.File // nil if all of the log is in memory
	next    uint64   // the frame at at
	at      int64    // offset
	want    uint64   // the first frame to yield
	piece   []byte   // of the file, from at on
	trusted bool     // piece is memory that the writer filled
	marked  int64    // offset of the last mark the cursor came by
}

// walk yields what there is. It returns false when the reader is done.
func (c *cursor) walk(ctx context.Context, v view, yield func(belljar.Frame, error) bool) bool {
	c.jump(v)
	for c.next <= v.count {
		if c.at-c.marked >= markEvery {
			c.log.note(mark{c.next, c.at})
			c.marked = c.at
		}
		r, err := c.record(v)
		var f belljar.Frame
		if err == nil {
			f, err = r.frame(c.next)
		}
		switch {
		case errors.Is(err, errShort), errors.Is(err, errDamaged):
			c.log.report(c.next-1, c.at, err)
			return false
		case err != nil:
			yield(belljar.Frame{}, fmt.Errorf("read log %s: %w", c.log.id, err))
			return false
		}
		c.piece = c.piece[r.size:]
		c.at += int64(r.size)
		c.next++
		if f.Seq < c.want {
			continue
		}
		if err := ctx.Err(); err != nil {
			yield(belljar.Frame{}, err)
			return false
		}
		if !yield(f, nil) {
			return false
		}
	}
	return true
}

// jump moves to the last mark before the first frame wanted.
func (c *cursor) jump(v view) {
	if c.next >= c.want {
		return
	}
	if m, ok := c.log.before(min(c.want, v.count)); ok && m.seq > c.next {
		c.next, c.at, c.marked, c.piece = m.seq, m.at, m.at, nil
	}
}

// record returns the record at the cursor, which v has.
func (c *cursor) record(v view) (record, error) {
	r, err := c.log.codec.next(c.piece, c.next, c.trusted)
	for errors.Is(err, errShort) {
		if err := c.load(v, r.size); err != nil {
			return record{}, err
		}
		r, err = c.log.codec.next(c.piece, c.next, c.trusted)
	}
	return r, err
}

// load makes the piece at least need bytes long: from memory if it is there, else from the file.
func (c *cursor) load(v view, need int) error {
	if b := v.tail.from(c.at, v.end); b != nil {
		if c.trusted && len(b) < need {
			return errDamaged
		}
		c.piece, c.trusted = b, true
		return nil
	}
	if c.file == nil {
		return errShort
	}
	if c.trusted {
		c.piece, c.trusted = nil, false
	}
	b, err := fill(c.file, c.at, c.piece, need, v.end)
	if err != nil {
		return err
	}
	c.piece = b
	return nil
}

// fill returns what file has from offset at on, of which have is known: need bytes or more, a block if there is that
// much before end. [errShort] says that there is less than need.
func fill(file io.ReaderAt, at int64, have []byte, need int, end int64) ([]byte, error) {
	left := end - at
	if int64(need) > left {
		return nil, errShort
	}
	b := make([]byte, max(need, int(min(left, blockSize))))
	n := copy(b, have)
	_, err := file.ReadAt(b[n:], at+int64(n))
	if errors.Is(err, io.EOF) {
		return nil, errShort
	}
	return b, err
}
