package sqlite

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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

// TestSlackOfAnOldFile makes a file that cannot shrink, as earlier versions did, deletes most of it, and opens it again: the log has
// statements that shrink it, and make it shrink from then on.
func TestSlackOfAnOldFile(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "store.db")
	reopen := func(s *Store) *Store {
		if s != nil {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		log.Reset()
		s, err := Open(t.Context(), Options{Path: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	statements := func(s *Store, text string) {
		for statement := range strings.SplitSeq(text, "; ") {
			if _, err := s.writer.tx.conn.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := reopen(nil)
	statements(s, "PRAGMA auto_vacuum = NONE; VACUUM")
	s = reopen(s)
	ids := addLogs(t, s, slackPages/4+20)
	before, _ := pages(t, s)
	if err := s.Runs().Delete(t.Context(), ids[:len(ids)-10]...); err != nil {
		t.Fatal(err)
	}
	if all, free := pages(t, s); all < before || free < slackPages || log.Len() > 0 {
		t.Fatalf("%d pages, %d of them free, of a file that cannot shrink; there were %d; %s", all, free, before, &log)
	}
	s = reopen(s)
	_, text, _ := strings.Cut(log.String(), `statements="`)
	text, _, found := strings.Cut(text, `"`)
	if !found {
		t.Fatalf("no statements: %s", &log)
	}
	statements(s, text)
	s = reopen(s)
	if all, free := pages(t, s); all > before/10 || free > 0 || log.Len() > 0 {
		t.Errorf("%d pages, %d of them free; there were %d; %s", all, free, before, &log)
	}
	if _, total, err := s.Runs().List(t.Context(), belljar.RunQuery{}); err != nil || total != 11 {
		t.Errorf("%d runs, %v", total, err)
	}
	var mode int
	if err := s.readDB.QueryRowContext(t.Context(), "PRAGMA auto_vacuum").Scan(&mode); err != nil || mode != 2 {
		t.Errorf("auto_vacuum is %d, %v", mode, err)
	}
}
