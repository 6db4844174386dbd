//go:build linux

package service_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

// records is a store that pretends to outlive its process, and fails or waits on demand.
type records struct {
	store.Store
	insert, finish func() error // called before the write; nil does nothing. finish before Add too
}

func (s *records) Mode() string { return "sqlite" }

func (s *records) Runs() store.Runs { return recordedRuns{s.Store.Runs(), s} }

type recordedRuns struct {
	store.Runs
	s *records
}

func (r recordedRuns) Insert(ctx context.Context, row store.Run, key *store.Key) (*store.Key, error) {
	if r.s.insert != nil {
		if err := r.s.insert(); err != nil {
			return nil, err
		}
	}
	return r.Runs.Insert(ctx, row, key)
}

func (r recordedRuns) Finish(ctx context.Context, row store.Run) error {
	if r.s.finish != nil {
		if err := r.s.finish(); err != nil {
			return err
		}
	}
	return r.Runs.Finish(ctx, row)
}

func (r recordedRuns) Add(ctx context.Context, row store.Run) error {
	if r.s.finish != nil {
		if err := r.s.finish(); err != nil {
			return err
		}
	}
	return r.Runs.Add(ctx, row)
}

// recorded configures a service with such a store.
func recorded(s *records) func(*service.Options) {
	return func(o *service.Options) {
		s.Store = o.Store
		o.Store = s
	}
}

// tightBook is a logbook on a disk that can be full.
type tightBook struct {
	logbook.Book
	mu   sync.Mutex
	full func(f belljar.Frame) bool // refuses this frame; nil refuses none
}

func (b *tightBook) Create(id string) (logbook.Log, error) {
	log, err := b.Book.Create(id)
	return tightLog{log, b}, err
}

func (b *tightBook) fill(full func(belljar.Frame) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full = full
}

type tightLog struct {
	logbook.Log
	book *tightBook
}

func (l tightLog) Append(frames ...belljar.Frame) error {
	l.book.mu.Lock()
	full := l.book.full
	l.book.mu.Unlock()
	for _, f := range frames {
		if full != nil && full(f) {
			return syscall.ENOSPC
		}
	}
	return l.Log.Append(frames...)
}

// tight configures a service with such a logbook.
func tight(b *tightBook) func(*service.Options) {
	return func(o *service.Options) {
		b.Book = o.Logs
		o.Logs = b
	}
}

// A defect of the server that a run's output triggers ends the run, and not the server. Its sandbox is removed; a session continues.
func TestDefectEndsOneRun(t *testing.T) {
	book := new(tightBook)
	b := newBench(t, tight(book))
	x := b.open()
	book.fill(func(f belljar.Frame) bool {
		if strings.Contains(string(f.Output), "odd") || string(f.Output) == "\xc3" { // the second at the end, as an incomplete character
			panic("a defect")
		}
		return false
	})
	inside := shell("echo odd; sleep 1000")
	inside.SessionID, inside.BaseImage = x.ID, ""
	for name, req := range map[string]belljar.RunRequest{"run": shell("echo odd; sleep 1000"), "at the end": shell(`printf '\303'`), "session": inside} {
		r := b.run(req)
		if r.want(t, belljar.PhaseFailed, -1, belljar.ReasonNodeLost); !r.Truncated || !strings.Contains(r.Hint, "operator") {
			t.Errorf("%s: %+v", name, r.Run)
		}
	}
	inside.Command = shell("echo even").Command
	if r := b.run(inside); r.stdout != "even\n" {
		t.Errorf("%+v", r.Run)
	}
	b.until(func() bool { return len(b.sandboxes()) == 1 })
}

// as returns the service's runs from the view of another user.
func (b *bench) as(user string) belljar.Runs { return b.service.As(belljar.Caller{ID: user}).Runs() }

// leakyBook is a logbook that cannot seal logs a number of times.
type leakyBook struct {
	logbook.Book
	fails, sealed atomic.Int32
}

func (b *leakyBook) Create(id string) (logbook.Log, error) {
	log, err := b.Book.Create(id)
	return leakyLog{log, b}, err
}

type leakyLog struct {
	logbook.Log
	book *leakyBook
}

func (l leakyLog) Seal() error {
	if l.book.fails.Add(-1) >= 0 {
		return syscall.ENOSPC
	}
	defer l.book.sealed.Add(1)
	return l.Log.Seal()
}

// A log that cannot be sealed on a full disk is sealed when there is room.
func TestSealLater(t *testing.T) {
	clock, book := newHourglass(), &leakyBook{}
	b := newBench(t, func(o *service.Options) { o.Clock, book.Book, o.Logs = clock, o.Logs, book })
	book.fails.Store(2)
	b.run(shell("true")).want(t, belljar.PhaseCompleted, 0, "")
	b.until(func() bool {
		clock.pass(time.Second)
		return book.sealed.Load() == 1
	})
}
