package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// addLogs adds ended runs whose logs are in their rows, and returns the ids of all but the last.
func addLogs(t *testing.T, s *Store, runs int) (ids []string) {
	t.Helper()
	at := time.Unix(1_800_000_000, 0)
	for n := range runs {
		r := store.Run{Run: belljar.Run{ID: fmt.Sprint("run", n), UserID: "ann", Phase: belljar.PhaseCompleted, CreatedAt: at, StartedAt: &at, FinishedAt: &at}, Log: make([]byte, 16<<10)}
		if err := s.Runs().Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	return ids[:runs-1]
}

// pages returns the number of all pages of the file, as after the next merge, and of free ones.
func pages(t *testing.T, s *Store) (all, free int64) {
	t.Helper()
	row := s.readDB.QueryRowContext(t.Context(), "SELECT p.page_count, f.freelist_count FROM pragma_page_count p, pragma_freelist_count f")
	if err := row.Scan(&all, &free); err != nil {
		t.Fatal(err)
	}
	return all, free
}

// TestDeletedRunsFreeTheDisk deletes runs, and bytes of runs, and expects a smaller file.
func TestDeletedRunsFreeTheDisk(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(s *Store, ids ...string) error{
		"swept":   func(s *Store, ids ...string) error { return s.Runs().Swept(t.Context(), ids...) },
		"deleted": func(s *Store, ids ...string) error { return s.Runs().Delete(t.Context(), ids...) },
	} {
		t.Run(name, func(t *testing.T) {
			s := opened(t)
			ids := addLogs(t, s, 2*keptPages/4)
			before, _ := pages(t, s)
			if err := release(s, ids...); err != nil {
				t.Fatal(err)
			}
			if all, free := pages(t, s); free > keptPages || all > before*2/3 {
				t.Errorf("%d pages, %d of them free; there were %d", all, free, before)
			}
			if got, err := s.Runs().Get(t.Context(), fmt.Sprint("run", len(ids))); err != nil || len(got.Log) != 16<<10 {
				t.Errorf("the run that was kept: %d bytes of log, %v", len(got.Log), err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(s.path); err != nil || info.Size() > before*4096*2/3 {
				t.Errorf("the file has %d bytes, %v", info.Size(), err)
			}
		})
	}
}

// TestOldFileShrinksAtStart makes a file that cannot shrink, as earlier versions did, deletes most of it and opens it again.
func TestOldFileShrinksAtStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	reopen := func(s *Store) *Store {
		if s != nil {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(t.Context(), Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := reopen(nil)
	for _, statement := range []string{"PRAGMA auto_vacuum = NONE", "VACUUM"} {
		if _, err := s.writer.tx.conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s = reopen(s)
	ids := addLogs(t, s, compactPages/4+20)
	before, _ := pages(t, s)
	if err := s.Runs().Delete(t.Context(), ids[:len(ids)-10]...); err != nil {
		t.Fatal(err)
	}
	if all, free := pages(t, s); all < before || free < compactPages {
		t.Fatalf("%d pages, %d of them free, of a file that cannot shrink; there were %d", all, free, before)
	}
	s = reopen(s)
	if all, free := pages(t, s); all > before/10 || free > 0 {
		t.Errorf("%d pages, %d of them free; there were %d", all, free, before)
	}
	if _, total, err := s.Runs().List(t.Context(), belljar.RunQuery{}); err != nil || total != 11 {
		t.Errorf("%d runs, %v", total, err)
	}
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err != nil || info.Size() > before*4096/10 {
			t.Errorf("%s has %d bytes, %v", name, info.Size(), err)
		}
	}
	var mode int
	if err := s.readDB.QueryRowContext(t.Context(), "PRAGMA auto_vacuum").Scan(&mode); err != nil || mode != 2 {
		t.Errorf("auto_vacuum is %d, %v", mode, err)
	}
}
