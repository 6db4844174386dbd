//go:build linux

package service_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

// bitten is a logbook in which one log cannot be read after a frame.
type bitten struct {
	logbook.Book
	id   string
	last uint64
}

func (b *bitten) Open(id string) (logbook.Log, error) {
	log, err := b.Book.Open(id)
	if err != nil || id != b.id {
		return log, err
	}
	if b.last == 0 {
		return nil, logbook.ErrNotFound
	}
	return bittenLog{log, b.last}, nil
}

type bittenLog struct {
	logbook.Log
	last uint64
}

func (l bittenLog) Read(ctx context.Context, from uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		for f, err := range l.Log.Read(ctx, from) {
			if err == nil && f.Seq > l.last || !yield(f, err) {
				return
			}
		}
	}
}

// The lost part of a damaged log has one mark, and the end is reported.
func TestDamagedLog(t *testing.T) {
	book := &bitten{}
	b := newBench(t, func(o *service.Options) { book.Book = o.Logs; o.Logs = book })
	whole := b.run(shell("echo one; echo two >&2"))
	end := whole.frames[len(whole.frames)-1]
	book.id = whole.ID
	for _, c := range []struct{ last, from, mark uint64 }{
		{3, 1, 4}, {3, 2, 4}, {3, 5, 5}, {0, 1, 1}, {end.Seq - 1, 1, 0}, {3, end.Seq, 0},
	} {
		book.last = c.last
		var got []belljar.Frame
		for f, err := range b.Frames(b.context(), whole.ID, c.from) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, f)
		}
		last := len(got) - 1
		if got[last].Event != belljar.EventEnd || got[last].Seq != end.Seq {
			t.Errorf("%+v: the end is %+v", c, got[last])
		}
		var mark uint64
		for i, f := range got[:last] {
			if f.Type == belljar.FrameTruncated && f.Reason == "log_damaged" {
				mark = f.Seq
			} else if f.Seq != whole.frames[int(c.from)-1+i].Seq {
				t.Errorf("%+v: frame %+v", c, f)
			}
		}
		if mark != c.mark {
			t.Errorf("%+v: the mark is %d in %+v", c, mark, got)
		}
	}
}

// deaf is a store that refuses the ends of sessions while it is full.
type deaf struct {
	store.Store
	mu   sync.Mutex
	full bool
}

func (d *deaf) Sessions() store.Sessions { return deafSessions{d.Store.Sessions(), d} }

func (d *deaf) fill(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

type deafSessions struct {
	store.Sessions
	d *deaf
}

func (s deafSessions) Update(ctx context.Context, row store.Session) error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.d.full && row.EndedAt != nil {
		return store.ErrFull
	}
	return s.Sessions.Update(ctx, row)
}

// A session that ends on a full disk is reported as ended to every caller, and is recorded when there is room again.
func TestSessionEndsOnAFullDisk(t *testing.T) {
	clock := newHourglass()
	d := &deaf{}
	b := newBench(t, func(o *service.Options) {
		d.Store, o.Store, o.Clock, o.MaxSessions = o.Store, d, clock, 1
	})
	x := b.open()
	d.fill(true)
	if err := b.mine().Delete(b.context(), x.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := b.mine().Get(t.Context(), x.ID); err != nil || got.State != belljar.SessionClosed {
		t.Errorf("%+v, %v", got, err)
	}
	other := b.open() // the ended session does not count
	if err := b.mine().Delete(b.context(), other.ID); err != nil {
		t.Fatal(err)
	}
	d.fill(false)
	ctx := b.context()
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
		clock.pass(time.Second)
		if row, err := d.Store.Sessions().Get(ctx, x.ID); err == nil && row.EndedAt != nil {
			if row.State != belljar.SessionClosed {
				t.Errorf("on record as %+v", row)
			}
			return
		}
	}
	t.Error("its end is not on record")
}
