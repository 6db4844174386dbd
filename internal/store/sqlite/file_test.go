package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/sqlite"
)

// raw opens the file with plain SQLite, as an operator would.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func change(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func addRun(t *testing.T, s store.Store, id string) store.Run {
	t.Helper()
	r := store.Run{Run: belljar.Run{ID: id, UserID: "ann", Phase: belljar.PhaseQueued, Runtime: "native", BaseImage: "host",
		CreatedAt: time.Date(2026, 3, 1, 12, 0, 0, 1000, time.UTC)}, Spec: &belljar.RunSpec{Command: []string{"true"}}}
	if _, err := s.Runs().Insert(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

func finishRun(t *testing.T, s store.Store, r store.Run) {
	t.Helper()
	r.Phase, r.ExitCode, r.FinishedAt, r.StartedAt = belljar.PhaseCompleted, new(0), new(r.CreatedAt.Add(time.Second)), &r.CreatedAt
	r.ResourceUsage = &belljar.ResourceUsage{CPUTimeSec: new(0.5), ArtifactBytes: 42}
	r.SetArtifacts([]belljar.Artifact{{Path: "a", Size: 42}})
	if err := s.Runs().Finish(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyTheOwnerReadsTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	addRun(t, s, "a")
	for _, name := range []string{"store.db", "store.db-wal", "store.db-shm"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s has mode %o, want 600", name, got)
		}
	}
}

func TestAnyPath(t *testing.T) {
	for _, name := range []string{"a b", "100%", "a%20b", "what?", "a#b", "a&b=c", "é", "'", ":memory:", "file:x?mode=memory"} {
		path := filepath.Join(t.TempDir(), name)
		s := open(t, path)
		addRun(t, s, "a")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%q: the file is not there: %v", name, err)
		}
		if _, err := open(t, path).Runs().Get(t.Context(), "a"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestAdminQueries runs the documented queries for operators.
func TestAdminQueries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	finishRun(t, s, addRun(t, s, "a"))
	at := time.Date(2026, 3, 1, 12, 0, 0, 5000, time.UTC)
	r := store.Run{Run: belljar.Run{ID: "b", UserID: "ann", Phase: belljar.PhaseQueued, CreatedAt: at}}
	key := store.Key{Endpoint: "runs", UserKey: "ann", Key: "k", Fingerprint: "f", ObjectID: "b", Response: []byte(`{}`), CreatedAt: at}
	if _, err := s.Runs().Insert(t.Context(), r, &key); err != nil {
		t.Fatal(err)
	}
	db := raw(t, path)
	for query, want := range map[string]string{
		`SELECT id, user_id, runtime, base_image, phase, exit_code, started_at, finished_at FROM sandbox_runs
			ORDER BY COALESCE(finished_at, started_at) DESC LIMIT 20;`: "a ann native host completed 0 2026-03-01T12:00:00.000001Z 2026-03-01T12:00:01.000001Z\n" +
			"b ann   queued NULL NULL NULL\n",
		`SELECT endpoint, COUNT(*) AS entries FROM sandbox_idempotency GROUP BY endpoint ORDER BY entries DESC;`: "runs 1\n",
		`SELECT endpoint, user_key, key, LENGTH(response_body) AS resp_bytes, datetime(created_at, 'unixepoch') AS created
			FROM sandbox_idempotency ORDER BY created_at DESC LIMIT 5;`: "runs ann k 2 2026-03-01 12:00:00\n",
		`SELECT user_id, artifact_bytes FROM sandbox_usage ORDER BY artifact_bytes DESC;`: "ann 42\n",
	} {
		if got := ask(t, db, query); got != want {
			t.Errorf("%s\ngot:\n%s\nwant:\n%s", query, got, want)
		}
	}
	change(t, db, "DELETE FROM sandbox_idempotency WHERE created_at < strftime('%s','now') - 600;")
	if _, err := s.Keys().Get(t.Context(), "runs", "ann", "k"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("key after the cleanup: %v", err)
	}
}

// ask returns the rows of a query, one per line.
func ask(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, _ := rows.Columns()
	var out strings.Builder
	for rows.Next() {
		values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if i > 0 {
				out.WriteString(" ")
			}
			if !v.Valid {
				v.String = "NULL"
			}
			out.WriteString(v.String)
		}
		out.WriteString("\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return out.String()
}

// TestRefusedFiles checks that a foreign file is refused with a clear error and left unchanged.
func TestRefusedFiles(t *testing.T) {
	ours := filepath.Join(t.TempDir(), "ours.db")
	if err := open(t, ours).Close(); err != nil {
		t.Fatal(err)
	}
	database := func(statements ...string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			db := raw(t, path)
			for _, each := range statements {
				change(t, db, each)
			}
			db.Close()
		}
	}
	changed := func(damage func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			b, err := os.ReadFile(ours)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, each := range map[string]struct {
		make func(*testing.T, string)
		want string
		hint string
	}{
		"a text":          {func(t *testing.T, p string) { os.WriteFile(p, []byte(strings.Repeat("hello ", 1000)), 0o600) }, "not a database", "restore it"},
		"cut short":       {changed(func(b []byte) []byte { return b[:len(b)/2] }), "malformed", "restore it"},
		"a damaged head":  {changed(func(b []byte) []byte { return append(bytes.Repeat([]byte{0xff}, 100), b[100:]...) }), "not a database", "restore it"},
		"damaged tables":  {changed(func(b []byte) []byte { clear(b[100:4096]); return b }), "malformed", "restore it"},
		"another program": {database("CREATE TABLE bookmarks (url TEXT)"), "another program", "another file"},
		"another's id":    {database("PRAGMA application_id = 77", "CREATE TABLE x (y)"), "another program", "another file"},
		"another's empty": {database("PRAGMA application_id = 77", "PRAGMA user_version = 1"), "another program", "another file"},
		"newer":           {database("PRAGMA application_id = 1112296018", "PRAGMA user_version = 12", "CREATE TABLE x (y)"), "version 12", "newer belljar"},
		"a folder":        {func(t *testing.T, p string) { os.Mkdir(p, 0o700) }, "not a regular file", ""},
		"a link":          {func(t *testing.T, p string) { os.Symlink(ours, p) }, "not a regular file", ""},
		"no folder":       {nil, "no such file", "folder"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			if each.make == nil {
				path = filepath.Join(path, "store.db")
			} else {
				each.make(t, path)
			}
			before, _ := os.ReadFile(path)
			s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), each.want) || !strings.Contains(err.Error(), path) || !strings.Contains(belljar.HintOf(err), each.hint) {
				t.Errorf("error %q, hint %q; want %q and %q in them", err, belljar.HintOf(err), each.want, each.hint)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Options{}); err == nil || !strings.Contains(err.Error(), "no path") {
		t.Errorf("without a path: %v", err)
	}
}

// TestDamageAfterOpening: damage that the start does not meet is reported with the file and a hint, as no row's, and the store is not ready.
func TestDamageAfterOpening(t *testing.T) {
	for name, use := range map[string]func(*sqlite.Store) error{
		"read": func(s *sqlite.Store) error {
			_, err := s.Runs().Unfinished(t.Context())
			return err
		},
		"write": func(s *sqlite.Store) error {
			_, err := s.Runs().Insert(t.Context(), store.Run{Run: belljar.Run{ID: "b", UserID: "ann", Phase: belljar.PhaseQueued}}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			s := open(t, path)
			addRun(t, s, "a")
			s.Close()
			var page, size int64
			db := raw(t, path)
			if err := db.QueryRow("SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'sandbox_runs'").Scan(&page, &size); err != nil {
				t.Fatal(err)
			}
			db.Close()
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(make([]byte, size), (page-1)*size); err != nil {
				t.Fatal(err)
			}
			f.Close()
			s = open(t, path)
			if err := s.Ping(t.Context()); err != nil {
				t.Fatalf("before: %v", err)
			}
			err = use(s)
			if err == nil || errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), path) || !strings.Contains(belljar.HintOf(err), "restore it") {
				t.Errorf("error %v, hint %q", err, belljar.HintOf(err))
			}
			if err := s.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "malformed") {
				t.Errorf("ready: %v", err)
			}
		})
	}
}

func TestOpenGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "store.db")
	if s, err := sqlite.Open(ctx, sqlite.Options{Path: path}); !errors.Is(err, context.Canceled) {
		t.Errorf("store %v, error %v", s, err)
	}
	addRun(t, open(t, path), "a") // the failed Open left no obstacles
}

// TestCorruptRows checks that an unreadable row is logged and left out, and does not affect others.
func TestCorruptRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	var logged bytes.Buffer
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	damage := map[string]string{
		"phase": "UPDATE sandbox_runs SET phase = 'bogus' WHERE id = ?", "no phase": "UPDATE sandbox_runs SET phase = '' WHERE id = ?",
		"phase that has ended": "UPDATE sandbox_runs SET phase = 'failed' WHERE id = ?",
		"json":                 "UPDATE sandbox_runs SET detail = '{\"labels\":' WHERE id = ?", "json of another kind": "UPDATE sandbox_runs SET detail = '[]' WHERE id = ?",
		"time": "UPDATE sandbox_runs SET created_at = 'yesterday' WHERE id = ?", "started": "UPDATE sandbox_runs SET started_at = 17 WHERE id = ?",
		"number": "UPDATE sandbox_runs SET lease_epoch = 'x' WHERE id = ?", "exit": "UPDATE sandbox_runs SET exit_code = 'x' WHERE id = ?",
		"blob": "UPDATE sandbox_runs SET detail = x'ff00' WHERE id = ?",
	}
	db := raw(t, path)
	for id, statement := range damage {
		addRun(t, s, id)
		change(t, db, statement, id)
	}
	addRun(t, s, "spec")
	change(t, db, "UPDATE sandbox_runs SET spec = 'x' WHERE id = 'spec'")
	addRun(t, s, "good")

	for id := range damage {
		if r, err := s.Runs().Get(t.Context(), id); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), id) {
			t.Errorf("get %s: run %+v, error %v", id, r, err)
		}
	}
	page, total, err := s.Runs().List(t.Context(), belljar.RunQuery{})
	if err != nil || total != len(damage)+2 || len(page) != 2 { // a list does not read the spec
		t.Errorf("list: %d runs, %d in all, error %v; want 2 of %d", len(page), total, err, len(damage)+2)
	}
	open, err := s.Runs().Unfinished(t.Context())
	if err != nil || len(open) != 1 || open[0].ID != "good" {
		t.Errorf("unfinished: %v, error %v", open, err)
	}
	for id := range damage {
		if !strings.Contains(logged.String(), id) {
			t.Errorf("the log does not name %s", id)
		}
	}

	// Finish repairs the row.
	finishRun(t, s, store.Run{Run: belljar.Run{ID: "json", UserID: "ann", CreatedAt: time.Now()}})
	if r, err := s.Runs().Get(t.Context(), "json"); err != nil || r.Phase != belljar.PhaseCompleted {
		t.Errorf("after its end: phase %s, error %v", r.Phase, err)
	}
}

// Damaged artifacts concern only their readers.
func TestCorruptArtifacts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	finishRun(t, s, addRun(t, s, "a"))
	change(t, raw(t, path), "UPDATE sandbox_runs SET artifacts = '[{' WHERE id = 'a'")
	r, err := s.Runs().Get(t.Context(), "a")
	if err != nil || r.Phase != belljar.PhaseCompleted {
		t.Fatalf("phase %q, error %v", r.Phase, err)
	}
	if list, err := r.ArtifactList(); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "run a") {
		t.Errorf("artifacts %v, error %v", list, err)
	}
}

// Corrupt rows do not use up the limit of what is swept: a sweep that gets fewer takes them for the last.
func TestSweepPastCorruptRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, id := range []string{"a", "b", "c", "d"} {
		made := at.Add(time.Duration(i) * time.Minute)
		r := addRun(t, s, id)
		r.CreatedAt = made
		finishRun(t, s, r)
		if err := s.Snapshots().Insert(t.Context(), belljar.Snapshot{ID: id, UserID: "ann", Digest: id, CreatedAt: made, ExpiresAt: &made}); err != nil {
			t.Fatal(err)
		}
	}
	db := raw(t, path)
	change(t, db, "UPDATE sandbox_runs SET detail = 'x' WHERE id IN ('a', 'b')")
	change(t, db, "UPDATE sandbox_snapshots SET detail = 'x' WHERE id IN ('a', 'b')")
	for _, bytes := range []bool{true, false} {
		if got, err := s.Runs().Sweepable(t.Context(), at.Add(time.Hour), bytes, 2); err != nil || len(got) != 2 || got[0].ID != "c" || got[1].ID != "d" {
			t.Errorf("runs, bytes %t: %v, error %v", bytes, got, err)
		}
		if got, err := s.Runs().Sweepable(t.Context(), at.Add(time.Hour), bytes, 1); err != nil || len(got) != 1 || got[0].ID != "c" {
			t.Errorf("one run, bytes %t: %v, error %v", bytes, got, err)
		}
	}
	if got, err := s.Snapshots().Expired(t.Context(), at.Add(time.Hour), 2); err != nil || len(got) != 2 || got[0].ID != "c" || got[1].ID != "d" {
		t.Errorf("snapshots: %v, error %v", got, err)
	}
}

func TestCorruptSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	for _, id := range []string{"state", "spec", "good"} {
		each := store.Session{Session: belljar.Session{ID: id, State: belljar.SessionActive}}
		if _, err := s.Sessions().Insert(t.Context(), each, nil); err != nil {
			t.Fatal(err)
		}
	}
	db := raw(t, path)
	change(t, db, "UPDATE sandbox_sessions SET state = 'x' WHERE id = 'state'")
	change(t, db, "UPDATE sandbox_sessions SET spec = 'x' WHERE id = 'spec'")
	for _, id := range []string{"state", "spec"} {
		if _, err := s.Sessions().Get(t.Context(), id); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("get %s: %v", id, err)
		}
	}
	if page, total, err := s.Sessions().List(t.Context(), "", belljar.SessionQuery{}); err != nil || total != 3 || len(page) != 2 { // a list has no spec
		t.Errorf("list: %v, %d in all, error %v", page, total, err)
	}
}
