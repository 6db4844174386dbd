// Package logbooktest is the conformance suite of logbooks. Every implementation must pass it.
package logbooktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
)

// Run runs the suite. open returns an empty book and registers its cleanup with the test.
func Run(t *testing.T, open func(t *testing.T) logbook.Book) {
	t.Run("book", func(t *testing.T) { testBook(t, open(t)) })
	t.Run("numbers", func(t *testing.T) { testNumbers(t, create(t, open(t))) })
	t.Run("every frame comes back", func(t *testing.T) { testFidelity(t, create(t, open(t))) })
	t.Run("output is copied", func(t *testing.T) { testCopy(t, create(t, open(t))) })
	t.Run("last", func(t *testing.T) { testLast(t, create(t, open(t))) })
	t.Run("from anywhere", func(t *testing.T) { testFrom(t, create(t, open(t))) })
	t.Run("follow", func(t *testing.T) { testFollow(t, create(t, open(t))) })
	t.Run("sealed", func(t *testing.T) { testSealed(t, create(t, open(t))) })
	t.Run("cancelled reader", func(t *testing.T) { testCancel(t, create(t, open(t))) })
	t.Run("size", func(t *testing.T) { testSize(t, create(t, open(t))) })
	t.Run("reader that stops", func(t *testing.T) { testStop(t, create(t, open(t))) })
	t.Run("slow reader", func(t *testing.T) { testSlowReader(t, create(t, open(t))) })
	t.Run("removed while read", func(t *testing.T) { testRemove(t, open(t)) })
	t.Run("many at once", func(t *testing.T) { testConcurrent(t, create(t, open(t))) })
	t.Run("many logs at once", func(t *testing.T) { testManyLogs(t, open(t)) })
}

func testBook(t *testing.T, book logbook.Book) {
	if _, err := book.Open("a"); !errors.Is(err, logbook.ErrNotFound) {
		t.Errorf("Open of nothing: %v, want ErrNotFound", err)
	}
	if err := book.Remove("a"); err != nil {
		t.Errorf("Remove of nothing: %v", err)
	}
	log, err := book.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := book.Create("a"); !errors.Is(err, logbook.ErrExists) {
		t.Errorf("second Create: %v, want ErrExists", err)
	}
	appendAll(t, log, text("x"))
	again, err := book.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	seal(t, again)
	if got := read(t, log, 1); len(got) != 1 {
		t.Errorf("log opened again has %d frames, want 1", len(got))
	}
	if err := book.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := book.Open("a"); !errors.Is(err, logbook.ErrNotFound) {
		t.Errorf("Open of a removed log: %v, want ErrNotFound", err)
	}
	if _, err := book.Create("a"); err != nil {
		t.Errorf("Create after Remove: %v", err)
	}
}

func testNumbers(t *testing.T, log logbook.Log) {
	appendAll(t, log, belljar.Frame{Seq: 77, Type: belljar.FrameStdout, Output: []byte("a")})
	appendAll(t, log, text("b"), text("c"))
	appendAll(t, log)
	appendAll(t, log, text("d"))
	seal(t, log)
	for i, f := range read(t, log, 0) {
		if want := uint64(i + 1); f.Seq != want {
			t.Errorf("frame %d has seq %d", want, f.Seq)
		}
	}
}

func testFidelity(t *testing.T, log logbook.Log) {
	big := bytes.Repeat([]byte{0, 255, 'x', 0xC3}, belljar.MaxFrameBytes/4)
	want := []belljar.Frame{
		{Type: belljar.FrameEvent, Event: belljar.EventPhase, Data: map[string]any{"phase": "starting"}},
		{Type: belljar.FrameStdout, Output: []byte("hello\n")},
		{Type: belljar.FrameStderr, Output: []byte{0xff, 0x00}},
		{Type: belljar.FrameStderr, Step: belljar.StepBuild, Output: []byte("error")},
		{Type: belljar.FrameStdout, Output: big},
		{Type: belljar.FrameTruncated, Reason: "log_cap"},
		{Type: belljar.FrameStderr, Output: []byte("é")},
		{Type: belljar.FrameEvent, Event: belljar.EventEnd, Data: map[string]any{"exit_code": nil}},
	}
	appendAll(t, log, want...)
	seal(t, log)
	for i := range want {
		want[i].Seq = uint64(i + 1)
	}
	if diff := cmp.Diff(want, read(t, log, 1)); diff != "" {
		t.Errorf("frames differ (-want +got):\n%s", diff)
	}
}

func testCopy(t *testing.T, log logbook.Log) {
	b := []byte("before")
	appendAll(t, log, belljar.Frame{Type: belljar.FrameStdout, Output: b})
	copy(b, "AFTER!")
	seal(t, log)
	if got := read(t, log, 1); string(got[0].Output) != "before" {
		t.Errorf("log holds on to the caller's bytes: %q", got[0].Output)
	}
}

func testFrom(t *testing.T, log logbook.Log) {
	const n = 2000
	for i := range n {
		f := text(fmt.Sprint(i + 1))
		if i%7 == 0 {
			f = belljar.Frame{Type: belljar.FrameEvent, Event: fmt.Sprint(i + 1)}
		}
		appendAll(t, log, f)
	}
	seal(t, log)
	for _, from := range []uint64{0, 1, 2, 255, 256, 257, 258, 512, 513, 1000, n - 1, n} {
		got := read(t, log, from)
		first := max(from, 1)
		if len(got) != int(n-first+1) {
			t.Fatalf("from %d: %d frames, want %d", from, len(got), n-first+1)
		}
		for i, f := range got {
			want := first + uint64(i)
			if f.Seq != want || f.Event+string(f.Output) != fmt.Sprint(want) {
				t.Fatalf("from %d: frame %d is seq %d %q%q", from, want, f.Seq, f.Event, f.Output)
			}
		}
	}
	if got := read(t, log, n+1); len(got) != 0 {
		t.Errorf("after the end: %d frames", len(got))
	}
}

func testLast(t *testing.T, log logbook.Log) {
	want := func(n uint64) {
		t.Helper()
		if got := log.Last(); got != n {
			t.Errorf("last is %d, want %d", got, n)
		}
	}
	want(0)
	appendAll(t, log, text("a"))
	want(1)
	appendAll(t, log, text("b"), text("c"))
	want(3)
	seal(t, log)
	want(3)
	if err := log.Append(text("d")); err == nil {
		t.Error("Append after Seal succeeds")
	}
	want(3)
}

// testSize checks that every frame adds its output and some overhead to the size, and that the seal does not change it.
func testSize(t *testing.T, log logbook.Log) {
	size := log.Size()
	for _, output := range []string{"a", strings.Repeat("b", 5000), ""} {
		appendAll(t, log, belljar.Frame{Type: belljar.FrameStdout, Output: []byte(output)})
		grown := log.Size() - size
		if n := int64(len(output)); grown <= n || grown > n+32 {
			t.Errorf("%d bytes made the log grow by %d", n, grown)
		}
		size += grown
	}
	if seal(t, log); log.Size() != size {
		t.Errorf("%d bytes when it is sealed, %d before", log.Size(), size)
	}
}

// testFollow reads each frame before the next is written. A second reader waits for a later frame.
func testFollow(t *testing.T, log logbook.Log) {
	first := follow(t, log, 1)
	for i := range uint64(4) {
		appendAll(t, log, text("x"))
		if got := <-first; got != i+1 {
			t.Fatalf("followed to seq %d, want %d", got, i+1)
		}
	}
	second := follow(t, log, 5)
	appendAll(t, log, text("x"))
	for _, reader := range []<-chan uint64{first, second} {
		if got := <-reader; got != 5 {
			t.Errorf("seq %d, want 5", got)
		}
	}
	seal(t, log)
	for _, reader := range []<-chan uint64{first, second} {
		if got, more := <-reader; more {
			t.Errorf("frame %d after Seal", got)
		}
	}
}

// follow reads the log in a goroutine and sends each frame's seq. It closes the channel at the log's end.
func follow(t *testing.T, log logbook.Log, from uint64) <-chan uint64 {
	seen := make(chan uint64)
	go func() {
		defer close(seen)
		for f, err := range log.Read(t.Context(), from) {
			if err != nil {
				t.Errorf("read: %v", err)
				return
			}
			select {
			case seen <- f.Seq:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return seen
}

func testSealed(t *testing.T, log logbook.Log) {
	appendAll(t, log, text("x"))
	seal(t, log)
	seal(t, log)
	if err := log.Append(text("y")); !errors.Is(err, logbook.ErrSealed) {
		t.Errorf("Append after Seal: %v, want ErrSealed", err)
	}
	if got := read(t, log, 1); len(got) != 1 {
		t.Errorf("%d frames after a refused Append, want 1", len(got))
	}
}

func testCancel(t *testing.T, log logbook.Log) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	appendAll(t, log, text("x"))
	var last error
	frames := 0
	for _, err := range log.Read(ctx, 1) {
		if err != nil {
			last = err
			continue
		}
		frames++
		cancel() // the reader waits for a frame that is never written
	}
	if frames != 1 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d frames and %v, want 1 and context.Canceled", frames, last)
	}
}

func testStop(t *testing.T, log logbook.Log) {
	appendAll(t, log, text("x"), text("y"))
	for range 3 {
		for f, err := range log.Read(t.Context(), 1) {
			if err != nil || f.Seq != 1 {
				t.Fatalf("seq %d, %v", f.Seq, err)
			}
			break
		}
	}
}

// testSlowReader has a reader that reads one frame and then blocks until the writer is done.
func testSlowReader(t *testing.T, log logbook.Log) {
	begun, done := make(chan struct{}), make(chan struct{})
	count := make(chan int, 1)
	appendAll(t, log, text("first"))
	go func() {
		n := 0
		for _, err := range log.Read(t.Context(), 1) {
			if err != nil {
				t.Errorf("read: %v", err)
				break
			}
			if n++; n == 1 {
				close(begun)
				<-done
			}
		}
		count <- n
	}()
	<-begun
	chunk := bytes.Repeat([]byte("x"), belljar.MaxFrameBytes)
	for range 100 {
		appendAll(t, log, belljar.Frame{Type: belljar.FrameStdout, Output: chunk})
	}
	seal(t, log)
	close(done)
	if n := <-count; n != 101 {
		t.Errorf("slow reader saw %d frames, want 101", n)
	}
}

func testRemove(t *testing.T, book logbook.Book) {
	log := create(t, book)
	appendAll(t, log, text("a"), text("b"))
	seal(t, log)
	n := 0
	for _, err := range log.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 {
			if err := book.Remove("run"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n != 2 {
		t.Errorf("reader of a removed log saw %d frames, want 2", n)
	}
	log = create(t, book) // not sealed
	appendAll(t, log, text("a"))
	next, stop := iter.Pull2(log.Read(t.Context(), 1))
	defer stop()
	next()
	if err := book.Remove("run"); err != nil {
		t.Fatal(err)
	}
	if _, err, more := next(); more || err != nil {
		t.Errorf("the reader of a log that was removed before its end: more %t, error %v", more, err)
	}
	if err := log.Append(text("b")); !errors.Is(err, logbook.ErrSealed) {
		t.Errorf("append to a removed log: %v, want ErrSealed", err)
	}
}

// testConcurrent has several writers, and readers that start at any time. A lost wake-up makes it hang.
func testConcurrent(t *testing.T, log logbook.Log) {
	const writers, each, readers = 4, 300, 8
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				if err := log.Append(text(fmt.Sprintf("%d %d", w, i)), text("pair")); err != nil {
					t.Errorf("append: %v", err)
				}
			}
		})
	}
	for range readers {
		from := rand.Uint64N(writers * each)
		reading.Go(func() {
			next := max(from, 1)
			pair := false
			for f, err := range log.Read(t.Context(), from) {
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				if f.Seq != next {
					t.Errorf("seq %d instead of %d", f.Seq, next)
					return
				}
				if pair && string(f.Output) != "pair" {
					t.Errorf("frames of one Append are apart at %d", f.Seq)
				}
				pair = string(f.Output) != "pair"
				next++
			}
			if want := uint64(2*writers*each + 1); next != want {
				t.Errorf("reader ended at %d, want %d", next, want)
			}
		})
	}
	writing.Wait()
	seal(t, log)
	reading.Wait()
}

// testManyLogs creates and removes logs while a reader reads all of them.
func testManyLogs(t *testing.T, book logbook.Book) {
	const workers, each = 4, 40
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				id := fmt.Sprintf("run-%d-%d", w, i)
				log, err := book.Create(id)
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				if err := log.Append(text(id)); err != nil {
					t.Errorf("append: %v", err)
				}
				again, err := book.Open(id)
				if err != nil {
					t.Errorf("open: %v", err)
					return
				}
				if err := again.Append(text("more")); err != nil {
					t.Errorf("append: %v", err)
				}
				if err := log.Seal(); err != nil {
					t.Errorf("seal: %v", err)
				}
				if i%2 == 0 {
					if err := book.Remove(id); err != nil {
						t.Errorf("remove: %v", err)
					}
				}
			}
		})
	}
	all.Wait()
	for w := range workers {
		for i := range each {
			id := fmt.Sprintf("run-%d-%d", w, i)
			log, err := book.Open(id)
			if i%2 == 0 {
				if !errors.Is(err, logbook.ErrNotFound) {
					t.Errorf("open of removed %s: %v", id, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, log, 1); len(got) != 2 || string(got[0].Output) != id {
				t.Errorf("%s has %d frames", id, len(got))
			}
		}
	}
}

func text(s string) belljar.Frame {
	return belljar.Frame{Type: belljar.FrameStdout, Output: []byte(s)}
}

func create(t *testing.T, book logbook.Book) logbook.Log {
	t.Helper()
	log, err := book.Create("run")
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func appendAll(t *testing.T, log logbook.Log, frames ...belljar.Frame) {
	t.Helper()
	if err := log.Append(frames...); err != nil {
		t.Fatal(err)
	}
}

func seal(t *testing.T, log logbook.Log) {
	t.Helper()
	if err := log.Seal(); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, log logbook.Log, from uint64) []belljar.Frame {
	t.Helper()
	var list []belljar.Frame
	for f, err := range log.Read(t.Context(), from) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, f)
	}
	return list
}
