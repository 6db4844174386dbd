package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
)

// Log is a [logbook.Log] in a file.
type Log struct {
	book  *Book
	id    string
	path  string
	codec codec

	sealing sync.Mutex // held by Seal
	settled bool       // Seal has already synced the file or failed permanently
	failed  error      // error of that sync

	writing sync.Mutex // held while the file or the log's end changes; comes before mu
	dirty   bool       // the file may have bytes after the end

	mu       sync.Mutex // held only briefly, never during a write; readers take it
	file     *os.File   // nil while the log is sealed and has no readers
	users    int        // users of the file, besides the writer
	now      view
	marks    []mark        // in the order of the file; readers add to them too
	changed  chan struct{} // closed at the next change; nil without waiters
	reported bool          // damage was logged
}

// view is an immutable snapshot of a log's state.
type view struct {
	count  uint64 // frames
	end    int64  // offset after the last frame; 0 if the file is empty
	sealed bool
	ended  bool // Seal was called, and could not write the seal
	closed bool // the book was closed
	tail   tail
}

// inMemory reports whether readers need no file, because the whole sealed log is in memory.
func (v view) inMemory() bool { return v.sealed && v.tail.begins() }

// mark is an index entry: the offset of a frame.
type mark struct {
	seq uint64
	at  int64
}

// markEvery is the approximate number of bytes between two marks.
const markEvery = 64 << 10

// Append numbers frames and writes them with one write. After a write error none of them is kept, and the next Append
// writes after the last complete frame.
func (l *Log) Append(frames ...belljar.Frame) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.open(); err != nil {
		return err
	}
	if l.now.ended {
		return logbook.ErrSealed
	}
	if len(frames) == 0 {
		return nil
	}
	v := l.now
	space, fresh := v.tail.room(v.end, estimate(frames))
	out := space[:0]
	if v.end == 0 {
		out = l.codec.appendHead(out)
	}
	next := v
	var err error
	for _, f := range frames {
		next.count++
		if out, err = l.codec.append(out, next.count, f); err != nil {
			return err
		}
	}
	if len(out) > len(space) { // it did not fit and was reallocated
		space, fresh = out[:cap(out)], true
	}
	if err := l.write(out, v.end); err != nil {
		return err
	}
	next.end += int64(len(out))
	switch {
	case len(out) > lastSegment:
		next.tail = nil
	case fresh:
		next.tail = v.tail.with(segment{v.end, space}, next.end)
	}
	l.publish(next)
	l.addMark(mark{v.count + 1, max(v.end, headSize)})
	return nil
}

// estimate returns the approximate size of frames, in bytes.
func estimate(frames []belljar.Frame) int {
	n := headSize
	for i := range frames {
		n += recordHead + len(frames[i].Output)
		if frames[i].Type == belljar.FrameEvent {
			n += 96
		}
	}
	return n
}

// open returns an error if the log accepts no more frames, and truncates leftovers of a failed write. The caller holds
// writing.
func (l *Log) open() error {
	switch {
	case l.now.closed:
		return fmt.Errorf("log %s: %w", l.id, os.ErrClosed)
	case l.now.sealed:
		return logbook.ErrSealed
	}
	return l.cut()
}

// cut truncates bytes after the log's end, if there are any. The caller holds writing.
func (l *Log) cut() error {
	if !l.dirty {
		return nil
	}
	if err := l.file.Truncate(l.now.end); err != nil {
		return fmt.Errorf("cut log %s: %w", l.id, err)
	}
	l.dirty = false
	return nil
}

// write writes b at the log's end, offset at. The caller holds writing.
func (l *Log) write(b []byte, at int64) error {
	if _, err := l.file.WriteAt(b, at); err != nil {
		l.dirty = true
		_ = l.cut() // the next write retries
		return fmt.Errorf("write log %s: %w", l.id, err)
	}
	return nil
}

// publish replaces the view and wakes waiting readers. The caller holds writing.
func (l *Log) publish(v view) {
	l.mu.Lock()
	l.now = v
	changed := l.changed
	l.changed = nil
	l.mu.Unlock()
	if changed != nil {
		close(changed)
	}
}

// addMark adds a mark if it is far enough after the last one.
func (l *Log) addMark(m mark) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var last int64
	if n := len(l.marks); n > 0 {
		last = l.marks[n-1].at
	}
	if m.at-last >= markEvery {
		l.marks = append(l.marks, m)
	}
}

// before returns the last mark at or before frame seq; ok is false if there is none.
func (l *Log) before(seq uint64) (m mark, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := sort.Search(len(l.marks), func(i int) bool { return l.marks[i].seq > seq })
	if i == 0 {
		return mark{}, false
	}
	return l.marks[i-1], true
}

// look returns the current view. If frame next may still be written, it also returns a channel that is closed at the
// next change.
func (l *Log) look(next uint64) (view, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now.count >= next || l.now.sealed || l.now.ended || l.now.closed {
		return l.now, nil
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.now, l.changed
}

// Size returns the length of the log's file, including its seal.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.now.end, headSize) + sealSize
}

// Last returns the seq of the last frame.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now.count
}

// Seal ends the log. After a failed sync every later Seal fails too. If the seal cannot be written, for example on a
// full disk, the log may be sealed later.
func (l *Log) Seal() error {
	l.sealing.Lock()
	defer l.sealing.Unlock()
	if l.settled {
		return l.failed
	}
	file, err := l.hold()
	if errors.Is(err, logbook.ErrNotFound) {
		return nil // sealed and removed
	}
	if err != nil {
		return err
	}
	defer l.release()
	if err := l.finish(); err != nil {
		return err
	}
	err = syncFile(file)
	if err == nil {
		err = l.book.folder(l.id).sync()
	}
	if err != nil {
		err = fmt.Errorf("sync log %s: %w", l.id, err)
	}
	l.settled, l.failed = true, err
	return err
}

// finish writes the seal, unless the log is sealed.
func (l *Log) finish() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	err := l.open()
	if errors.Is(err, logbook.ErrSealed) {
		return nil
	}
	if err != nil {
		return err
	}
	v := l.now
	var room [headSize + sealSize]byte
	out := room[:0]
	if v.end == 0 {
		out = l.codec.appendHead(out)
	}
	out = l.codec.appendSeal(out, v.count, v.end+int64(len(out)))
	if err := l.write(out, v.end); err != nil {
		v.ended = true
		l.publish(v)
		return err
	}
	v.sealed = true
	if !v.tail.begins() || v.end > smallTail {
		v.tail = nil
	}
	l.publish(v)
	l.book.evict(l)
	return nil
}

// hold returns the log's file, which stays open until release.
func (l *Log) hold() (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		if l.now.closed {
			return nil, fmt.Errorf("log %s: %w", l.id, os.ErrClosed)
		}
		f, err := os.Open(l.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, logbook.ErrNotFound
		}
		if err != nil {
			return nil, fmt.Errorf("open log: %w", err)
		}
		l.file = f
	}
	l.users++
	return l.file, nil
}

// release ends a hold. It closes a file without a writer and readers.
func (l *Log) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	l.retire()
}

// retire closes the file if it is not in use. The caller holds mu.
func (l *Log) retire() {
	if l.users == 0 && l.file != nil && (l.now.sealed || l.now.closed) {
		l.file.Close()
		l.file = nil
	}
}

// leave closes the log because the book is closed.
func (l *Log) leave() { l.end(func(v *view) { v.closed = true }) }

// end applies change to the log, without a write, and closes its file.
func (l *Log) end(change func(*view)) {
	l.writing.Lock()
	defer l.writing.Unlock()
	v := l.now
	change(&v)
	l.publish(v)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retire()
}

// report logs, once, that the log is damaged after frame count.
func (l *Log) report(count uint64, at int64, err error) {
	l.mu.Lock()
	first := !l.reported
	l.reported = true
	l.mu.Unlock()
	if first {
		l.book.logger.Error("log is damaged, what follows is lost", "log", l.id, "frames", count, "offset", at, "err", err)
	}
}
