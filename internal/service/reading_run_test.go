//go:build linux

package service_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service"
)

// stuckBook has logs whose readers stop before their first frame, until the test lets them read.
type stuckBook struct {
	logbook.Book
	begun chan struct{}
	read  chan struct{}
}

func (b *stuckBook) Open(id string) (logbook.Log, error) {
	log, err := b.Book.Open(id)
	return stuckLog{log, b}, err
}

type stuckLog struct {
	logbook.Log
	book *stuckBook
}

func (l stuckLog) Read(ctx context.Context, from uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		l.book.begun <- struct{}{}
		select {
		case <-l.book.read:
		case <-ctx.Done():
		}
		l.Log.Read(ctx, from)(yield)
	}
}

// Reading a long log takes time even for a client that wants none of it: a user's readers take turns, a few at a time.
func TestReadersOfARunTakeTurns(t *testing.T) {
	book := &stuckBook{begun: make(chan struct{}, 10), read: make(chan struct{})}
	b := newBench(t, func(o *service.Options) { book.Book, o.Logs = o.Logs, book })
	run := b.start(shell("for i in $(seq 100); do echo $i >&2; echo $i; done"))
	for _, err := range b.Frames(b.context(), run.ID, belljar.Tail) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var reading sync.WaitGroup
	for range 2 {
		reading.Go(func() {
			for _, err := range b.Frames(b.context(), run.ID, 1) {
				if err != nil {
					t.Error(err)
				}
			}
		})
		<-book.begun
	}
	gone, leave := context.WithCancel(t.Context())
	third := b.Frames(gone, run.ID, 1)
	leave()
	for _, err := range third {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a third reader of the user: %v", err)
		}
	}
	select {
	case <-book.begun:
		t.Error("a user's third reader reads while two others do")
	default:
	}
	close(book.read)
	reading.Wait()
}

// shortBook has logs of live runs that are damaged after their first frame: what follows cannot be read.
type shortBook struct{ logbook.Book }

func (b shortBook) Create(id string) (logbook.Log, error) {
	log, err := b.Book.Create(id)
	return shortLog{log}, err
}

type shortLog struct{ logbook.Log }

func (l shortLog) Read(ctx context.Context, from uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		for f, err := range l.Log.Read(ctx, from) {
			yield(f, err)
			return
		}
	}
}

// The readers of a damaged log have what can be read, and keep no turn, while they wait for the end of its run.
func TestReadersOfADamagedLogKeepNoTurn(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Logs = shortBook{o.Logs} })
	run := b.start(shell("echo 1; echo 2 >&2; echo 3; echo 4 >&2; sleep 600"))
	b.until(func() bool {
		now, err := b.Get(b.context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		return now.LastSeq > 3
	})
	first := make(chan struct{}, 5)
	var reading sync.WaitGroup
	defer reading.Wait()
	for range 5 {
		reading.Go(func() {
			got := false
			for range b.Frames(b.context(), run.ID, 1) {
				if !got {
					got = true
					first <- struct{}{}
				}
			}
		})
	}
	for range 5 {
		select {
		case <-first:
		case <-b.context().Done():
			t.Fatal("a reader waits for a turn until the run ends")
		}
	}
	if err := b.Cancel(b.context(), run.ID); err != nil {
		t.Error(err)
	}
}
