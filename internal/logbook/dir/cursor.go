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

// blockSize is the number of bytes that a reader reads from a file at once. It fits every frame that the service makes;
// a larger frame is read in one piece.
const blockSize = 48 << 10

// Read yields the frames from seq from and follows the log to its end. Yielded frames may be kept: their memory is not
// reused.
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
			case v.sealed, v.ended:
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
	next    uint64   // seq of the frame at offset at
	at      int64    // offset
	want    uint64   // the first frame to yield
	piece   []byte   // bytes of the file from at on
	trusted bool     // piece is memory that the writer filled
	marked  int64    // offset of the last mark that the cursor passed
}

// walk yields the available frames. It returns false when the reader is done.
func (c *cursor) walk(ctx context.Context, v view, yield func(belljar.Frame, error) bool) bool {
	c.jump(v)
	for c.next <= v.count {
		if c.at-c.marked >= markEvery {
			c.log.addMark(mark{c.next, c.at})
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

// jump moves to the last mark before the first wanted frame.
func (c *cursor) jump(v view) {
	if c.next >= c.want {
		return
	}
	if m, ok := c.log.before(min(c.want, v.count)); ok && m.seq > c.next {
		c.next, c.at, c.marked, c.piece = m.seq, m.at, m.at, nil
	}
}

// record returns the record at the cursor, which v must contain.
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

// load extends the piece to need bytes or more, from memory if possible, else from the file.
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

// fill reads from offset at: need bytes or more, and a whole block if the file has that much before end. have holds the
// bytes already read. It returns [errShort] if there are fewer than need.
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
