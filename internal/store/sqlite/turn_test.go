package sqlite_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/sqlite"
)

// slowLog is a log whose lines wait for end. A list writes one for each corrupt row while it reads.
type slowLog struct {
	slog.Handler
	lines *atomic.Int32
	end   chan struct{}
}

func (slowLog) Enabled(context.Context, slog.Level) bool { return true }

func (l slowLog) Handle(context.Context, slog.Record) error {
	l.lines.Add(1)
	<-l.end
	return nil
}

// TestSlowLists: the lists of a user, however many and slow, delay no list of another user, and no list delays authentication.
func TestSlowLists(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	first := open(t, path)
	ctx := t.Context()
	addRun(t, first, "a")
	x := store.Template{Owner: "ann"}
	x.Name = "t"
	if err := first.Templates().Put(ctx, x); err != nil {
		t.Fatal(err)
	}
	if err := first.Tokens().Insert(ctx, store.Token{Token: belljar.Token{ID: "key", UserID: "bob"}, Hash: "hash"}); err != nil {
		t.Fatal(err)
	}
	db := raw(t, path)
	change(t, db, "UPDATE sandbox_runs SET detail = '[]'")
	change(t, db, "UPDATE sandbox_templates SET detail = '[]'")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { slowLists(t, path) })
}

func slowLists(t *testing.T, path string) {
	log, ctx := slowLog{slog.DiscardHandler, new(atomic.Int32), make(chan struct{})}, t.Context()
	s, err := sqlite.Open(ctx, sqlite.Options{Path: path, Logger: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const many = 8
	lists := make(chan error, 2*many+1)
	wants := func(when string, lines int32) {
		t.Helper()
		if synctest.Wait(); log.lines.Load() != lines {
			t.Errorf("%s: %d lists read at the same time, want %d", when, log.lines.Load(), lines)
		}
		if k, err := s.Tokens().ByHash(ctx, "hash"); err != nil || k.UserID != "bob" {
			t.Errorf("%s: authentication: %+v, %v", when, k, err)
		}
	}
	given, cancel := context.WithCancel(ctx)
	for range many {
		go func() {
			_, _, err := s.Runs().List(ctx, belljar.RunQuery{UserID: "ann"})
			lists <- err
		}()
		go func() {
			_, err := s.Templates().List(ctx, "ann", true)
			lists <- err
		}()
	}
	wants("one user", 2)
	go func() {
		_, _, err := s.Snapshots().List(given, belljar.SnapshotQuery{UserID: "ann"})
		lists <- err
	}()
	synctest.Wait()
	cancel()
	if err := <-lists; !errors.Is(err, context.Canceled) {
		t.Errorf("a list that waits, after the end of its request: %v", err)
	}
	if _, err := s.Templates().List(ctx, "bob", true); err != nil {
		t.Error(err)
	}
	if _, _, err := s.Sessions().List(ctx, "bob", belljar.SessionQuery{All: true}); err != nil {
		t.Error(err)
	}
	for range 2 {
		go func() {
			_, _, err := s.Runs().List(ctx, belljar.RunQuery{}) // an operator's
			lists <- err
		}()
	}
	wants("two users", 4)
	close(log.end)
	for range 2*many + 2 {
		if err := <-lists; err != nil {
			t.Error(err)
		}
	}
	if list, err := s.Templates().Dropping(ctx); err != nil || len(list) != 0 {
		t.Errorf("with a corrupt row: %v, %v", list, err)
	}
}
