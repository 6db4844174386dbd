package dir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
)

// maxDraft is how many bytes of a file a draft may have, so that all of them are in memory: less than the tail keeps.
const maxDraft = 64 << 10

// maxFresh is how many bytes a draft may have of which the frames are at hand as they came.
const maxFresh = 8 << 10

// jot has frames at hand behind count others, which end at offset end. The caller holds writing.
func (l *Log) jot(frames []belljar.Frame, count uint64, end int64) {
	if end > maxFresh || uint64(len(l.fresh)) != count {
		l.fresh = nil
		return
	}
	for _, f := range frames {
		count++
		f.Seq, f.Output = count, bytes.Clone(f.Output)
		l.fresh = append(l.fresh, f)
	}
}

// Keep gives a draft its file.
func (l *Log) Keep() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if !l.now.draft {
		return nil
	}
	return l.keep()
}

// keep writes what a draft has into a file of its own. After an error it is a draft as before. The caller holds writing.
func (l *Log) keep() error {
	file, err := l.create()
	if err != nil {
		return err
	}
	v := l.now
	for at := int64(0); at < v.end; {
		piece := v.tail.from(at, v.end)
		if _, err := file.WriteAt(piece, at); err != nil {
			return l.spoil(file, err)
		}
		at += int64(len(piece))
	}
	v.draft = false
	l.fresh = nil
	l.mu.Lock()
	l.file = file
	l.mu.Unlock()
	l.publish(v)
	return nil
}

// fair ends a log that is a draft still: all of it goes into its file with one write. It reports whether it did.
func (l *Log) fair() (ended bool, err error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	v := l.now
	if v.taken {
		return true, nil
	}
	if !v.draft {
		return false, nil
	}
	if v.closed {
		return false, l.open()
	}
	out := make([]byte, 0, max(int(v.end), headSize)+sealSize)
	for at := int64(0); at < v.end; at = int64(len(out)) {
		out = append(out, v.tail.from(at, v.end)...)
	}
	if v.end == 0 {
		out = l.codec.appendHead(out)
	}
	out = l.codec.appendSeal(out, v.count, int64(len(out)))
	file, err := l.create()
	if err != nil {
		return false, err
	}
	if _, err := file.Write(out); err != nil {
		return false, l.spoil(file, err)
	}
	file.Close()
	v.draft, v.sealed = false, true
	if v.end > smallTail {
		v.tail = nil
	}
	l.publish(v)
	l.book.remember(l)
	return true, nil
}

// Take seals a draft and takes it out of the book.
func (l *Log) Take(limit int) (frames []belljar.Frame, taken bool) {
	l.writing.Lock()
	defer l.writing.Unlock()
	v := l.now
	if !v.draft || v.closed || v.end > int64(limit) {
		return nil, false
	}
	frames, l.fresh = l.fresh, nil
	if uint64(len(frames)) != v.count {
		return nil, false
	}
	v.draft, v.sealed, v.taken = false, true, true
	l.publish(v)
	l.book.drop(l)
	return frames, true
}

// create makes a draft's file.
func (l *Log) create() (*os.File, error) {
	file, err := create(l.path)
	if errors.Is(err, fs.ErrExist) {
		return nil, logbook.ErrExists
	}
	if err != nil {
		return nil, fmt.Errorf("make a log: %w", err)
	}
	return file, nil
}

// spoil takes a file away again that could not be written.
func (l *Log) spoil(file *os.File, err error) error {
	file.Close()
	_ = os.Remove(l.path)
	return fmt.Errorf("write log %s: %w", l.id, err)
}
