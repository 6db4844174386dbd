package logbook_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/logbook/logbooktest"
	"github.com/belljar/belljar/internal/logbook/memory"
)

// keptDrafts is a book whose logs are kept drafts.
type keptDrafts struct{ logbook.Book }

func (b keptDrafts) Create(id string) (logbook.Log, error) {
	d := logbook.NewDraft(b.Book, id)
	if err := d.Keep(); err != nil {
		return nil, err
	}
	return d, nil
}

// TestKeptDrafts runs the conformance suite with kept drafts.
func TestKeptDrafts(t *testing.T) {
	logbooktest.Run(t, func(*testing.T) logbook.Book { return keptDrafts{memory.New()} })
}

// fullBook is a book on a disk that may be full, for new files or for their contents.
type fullBook struct {
	logbook.Book
	full, torn error
}

func (b *fullBook) Create(id string) (logbook.Log, error) {
	if b.full != nil {
		return nil, b.full
	}
	log, err := b.Book.Create(id)
	return tornLog{log, b}, err
}

type tornLog struct {
	logbook.Log
	book *fullBook
}

func (l tornLog) Append(frames ...belljar.Frame) error {
	if l.book.torn != nil {
		return l.book.torn
	}
	return l.Log.Append(frames...)
}

func printed(b string) belljar.Frame {
	return belljar.Frame{Type: belljar.FrameStdout, Output: []byte(b)}
}

// text returns a log's output from frame from to its end.
func text(t *testing.T, log logbook.Log, from uint64) string {
	t.Helper()
	var b bytes.Buffer
	for f, err := range log.Read(t.Context(), from) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Seq != from {
			t.Fatalf("frame %d, want %d", f.Seq, from)
		}
		from++
		b.Write(f.Output)
	}
	return b.String()
}

// TestDraft checks that a draft moves completely to its book when it is kept, sealed, read or too large.
func TestDraft(t *testing.T) {
	large := string(bytes.Repeat([]byte("0123456789abcdef"), 2<<10))
	for name, c := range map[string]struct {
		write  func(d *logbook.Draft) error
		before bool // in its book before it is sealed
		want   string
	}{
		"empty":  {func(*logbook.Draft) error { return nil }, false, ""},
		"sealed": {func(d *logbook.Draft) error { return d.Append(printed("a"), printed("b")) }, false, "ab"},
		"kept": {func(d *logbook.Draft) error {
			return errors.Join(d.Append(printed("a")), d.Keep(), d.Keep(), d.Append(printed("b")))
		}, true, "ab"},
		"large": {func(d *logbook.Draft) error { return d.Append(printed("a"), printed(large)) }, true, "a" + large},
		"grown": {func(d *logbook.Draft) (err error) {
			for range 200 {
				err = errors.Join(err, d.Append(printed("0123456789")))
			}
			return err
		}, true, string(bytes.Repeat([]byte("0123456789"), 200))},
		"read": {func(d *logbook.Draft) error {
			err := d.Append(printed("a"))
			for f, failed := range d.Read(t.Context(), 1) {
				if failed != nil || string(f.Output) != "a" {
					t.Errorf("%q, %v", f.Output, failed)
				}
				break
			}
			return err
		}, true, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			book := memory.New()
			id := belljar.NewID()
			d := logbook.NewDraft(book, id)
			if err := c.write(d); err != nil {
				t.Fatal(err)
			}
			if _, err := book.Open(id); (err == nil) != c.before || err != nil && !errors.Is(err, logbook.ErrNotFound) {
				t.Errorf("before it is sealed: %v", err)
			}
			if d.Last() > 0 && d.Size() == 0 {
				t.Error("no size")
			}
			if err := errors.Join(d.Seal(), d.Seal()); err != nil {
				t.Fatal(err)
			}
			log, err := book.Open(id)
			if err != nil {
				t.Fatal(err)
			}
			if log.Last() != d.Last() || text(t, log, 1) != c.want || text(t, d, 1) != c.want {
				t.Errorf("%d frames, %d in the book", d.Last(), log.Last())
			}
			if err := d.Append(printed("c")); !errors.Is(err, logbook.ErrSealed) {
				t.Errorf("after the end: %v", err)
			}
			if _, taken := d.Take(); taken {
				t.Error("taken from its book")
			}
		})
	}
}

// TestTake checks that a taken draft is not in its book but can still be read.
func TestTake(t *testing.T) {
	book := memory.New()
	id := belljar.NewID()
	d := logbook.NewDraft(book, id)
	output := []byte("a")
	if err := d.Append(belljar.Frame{Type: belljar.FrameStdout, Output: output}, printed("b"), printed("c")); err != nil {
		t.Fatal(err)
	}
	output[0] = 'x' // Append has copied it
	frames, taken := d.Take()
	if !taken || len(frames) != 3 || d.Last() != 3 || text(t, d, 0+1) != "abc" || text(t, d, 3) != "c" {
		t.Errorf("%v, %t", frames, taken)
	}
	if err := errors.Join(d.Keep(), d.Seal()); err != nil {
		t.Error(err)
	}
	if err := d.Append(printed("d")); !errors.Is(err, logbook.ErrSealed) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := book.Open(id); !errors.Is(err, logbook.ErrNotFound) {
		t.Errorf("in the book: %v", err)
	}
}

// TestDraftOnAFullDisk checks that a draft stays in memory while the disk is full, and can be kept when there is room
// again.
func TestDraftOnAFullDisk(t *testing.T) {
	full := errors.New("no room")
	book := &fullBook{Book: memory.New(), full: full}
	id := belljar.NewID()
	d := logbook.NewDraft(book, id)
	if err := d.Append(printed("a")); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"keep": d.Keep(), "seal": d.Seal(), "append": d.Append(printed(string(make([]byte, 64<<10)))),
	} {
		if !errors.Is(err, full) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, err := range d.Read(t.Context(), 1) {
		if !errors.Is(err, full) {
			t.Errorf("read: %v", err)
		}
	}
	book.full, book.torn = nil, full
	if err := d.Keep(); !errors.Is(err, full) {
		t.Errorf("keep in part: %v", err)
	}
	if _, err := book.Open(id); !errors.Is(err, logbook.ErrNotFound) {
		t.Errorf("a part of it is in the book: %v", err)
	}
	book.torn = nil
	if err := errors.Join(d.Append(printed("b")), d.Seal()); err != nil || text(t, d, 1) != "ab" {
		t.Error(err)
	}
}

// TestDraftOfMany checks that the frames of concurrent writers are all stored once, whenever the draft is kept.
func TestDraftOfMany(t *testing.T) {
	d := logbook.NewDraft(memory.New(), belljar.NewID())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := d.Append(printed("0123456789")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		if err := d.Keep(); err != nil {
			t.Error(err)
		}
	})
	all.Wait()
	if err := d.Seal(); err != nil || len(text(t, d, 1)) != 4000 {
		t.Errorf("%d frames, %v", d.Last(), err)
	}
}
