package logbooktest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
)

// Durable checks a book whose logs outlive the process. open returns an empty one. reopen abandons it without closing,
// like a killed process, and opens it again.
func Durable(t *testing.T, open func(t *testing.T) (book logbook.Book, reopen func() logbook.Book)) {
	t.Run("sealed log", func(t *testing.T) { testReopenSealed(t, open) })
	t.Run("log that grows", func(t *testing.T) { testReopenGrowing(t, open) })
	t.Run("empty log", func(t *testing.T) { testReopenEmpty(t, open) })
	t.Run("from anywhere", func(t *testing.T) {
		book, reopen := open(t)
		log := create(t, book)
		big := bytes.Repeat([]byte("0123456789"), belljar.MaxFrameBytes/10)
		for i := range 300 {
			output := big[:i*i%len(big)]
			appendAll(t, log, belljar.Frame{Type: belljar.FrameStdout, Output: output}, text(fmt.Sprint(2*i+2)))
		}
		check := func(log logbook.Log) {
			t.Helper()
			for _, from := range []uint64{600, 599, 2, 400, 100, 1, 300} {
				got := read(t, log, from)
				if len(got) != int(600-from+1) {
					t.Fatalf("from %d: %d frames", from, len(got))
				}
				for i, f := range got {
					if seq := from + uint64(i); f.Seq != seq || seq%2 == 0 && string(f.Output) != fmt.Sprint(seq) {
						t.Fatalf("from %d: frame %d is %d %.20q", from, seq, f.Seq, f.Output)
					}
				}
			}
		}
		again := find(t, reopen())
		seal(t, again)
		check(again)
		check(find(t, reopen()))
	})
	t.Run("removed", func(t *testing.T) {
		book, reopen := open(t)
		seal(t, create(t, book))
		if err := book.Remove("run"); err != nil {
			t.Fatal(err)
		}
		if _, err := reopen().Open("run"); !errors.Is(err, logbook.ErrNotFound) {
			t.Errorf("Open of a log removed before: %v, want ErrNotFound", err)
		}
	})
}

func testReopenSealed(t *testing.T, open func(t *testing.T) (logbook.Book, func() logbook.Book)) {
	book, reopen := open(t)
	log := create(t, book)
	appendAll(t, log, text("a"), belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventEnd})
	seal(t, log)
	book = reopen()
	log = find(t, book)
	if got := log.Last(); got != 2 {
		t.Errorf("last is %d, want 2", got)
	}
	if got := read(t, log, 0); len(got) != 2 || string(got[0].Output) != "a" || got[1].Event != belljar.EventEnd {
		t.Errorf("frames: %v", got)
	}
	if err := log.Append(text("x")); !errors.Is(err, logbook.ErrSealed) {
		t.Errorf("Append: %v, want ErrSealed", err)
	}
	seal(t, log)
	if _, err := book.Create("run"); !errors.Is(err, logbook.ErrExists) {
		t.Errorf("Create: %v, want ErrExists", err)
	}
}

func testReopenGrowing(t *testing.T, open func(t *testing.T) (logbook.Book, func() logbook.Book)) {
	book, reopen := open(t)
	appendAll(t, create(t, book), text("a"), text("b"))
	log := find(t, reopen())
	if got := log.Last(); got != 2 {
		t.Errorf("last is %d, want 2", got)
	}
	seen := follow(t, log, 2)
	if got := <-seen; got != 2 {
		t.Errorf("seq %d, want 2", got)
	}
	appendAll(t, log, text("c"))
	if got := <-seen; got != 3 {
		t.Errorf("seq %d, want 3", got)
	}
	seal(t, log)
	if got, more := <-seen; more {
		t.Errorf("frame %d after Seal", got)
	}
	if got := read(t, find(t, reopen()), 1); len(got) != 3 || string(got[2].Output) != "c" {
		t.Errorf("frames: %v", got)
	}
}

func testReopenEmpty(t *testing.T, open func(t *testing.T) (logbook.Book, func() logbook.Book)) {
	book, reopen := open(t)
	create(t, book)
	log := find(t, reopen())
	if got := log.Last(); got != 0 {
		t.Errorf("last is %d, want 0", got)
	}
	seal(t, log)
	if got := read(t, find(t, reopen()), 1); len(got) != 0 {
		t.Errorf("%d frames", len(got))
	}
}

func find(t *testing.T, book logbook.Book) logbook.Log {
	t.Helper()
	log, err := book.Open("run")
	if err != nil {
		t.Fatal(err)
	}
	return log
}
