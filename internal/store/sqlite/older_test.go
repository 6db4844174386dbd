package sqlite

import (
	"database/sql"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/belljar/belljar"
)

// TestOlderVersion checks that a store of an older version is migrated and that the sizes of its logs and records are counted.
func TestOlderVersion(t *testing.T) {
	for version := int64(1); version < schemaVersion; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.db")
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			dir, err := fs.Sub(migrations, "migration")
			if err != nil {
				t.Fatal(err)
			}
			provider, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithDisableGlobalRegistry(true))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := provider.UpTo(t.Context(), version); err != nil {
				t.Fatal(err)
			}
			var ids []string
			records, recent := int64(0), int64(0)
			for _, row := range []struct {
				finished any
				gone     int
				detail   string
			}{
				{"2026-03-01T00:00:00.000000Z", 0, `{"resource_usage": {"log_bytes": 40}}`},
				{"2026-03-01T00:00:00.000000Z", 0, `{"resource_usage": {"log_bytes": 2}}`},
				{"2026-03-01T00:00:00.000000Z", 0, `{}`},
				{"2026-03-01T00:00:00.000000Z", 0, `damaged`},
				{"2026-03-01T00:00:00.000000Z", 1, `{"resource_usage": {"log_bytes": 700}}`},
				{nil, 0, `{}`},
			} {
				id := belljar.NewID()
				if ids = append(ids, id); row.finished != nil {
					size := int64(len(row.detail) + 4*len("é") + len("[]"))
					records, recent = records+size, recent+size*int64(1-row.gone)
				}
				if _, err := db.Exec("INSERT INTO sandbox_runs (id, user_id, phase, created_at, finished_at, log_gone, detail, message, artifacts) "+
					"VALUES (?, 'ann', 'completed', '2026-03-01T00:00:00.000000Z', ?, ?, ?, 'é', '[]')", id, row.finished, row.gone, row.detail); err != nil {
					t.Fatal(err)
				}
			}
			if version >= 10 { // Finish has counted the runs
				if _, err := db.Exec("INSERT INTO sandbox_usage (user_id, record_bytes, recent_record_bytes) VALUES ('ann', ?, ?)", records, recent); err != nil {
					t.Fatal(err)
				}
			}
			const message = "é"
			for id, ended := range map[string]any{"ended": "2026-03-01T00:00:00.000000Z", "open": nil} {
				if _, err := db.Exec("INSERT INTO sandbox_sessions (id, user_id, state, created_at, expires_at, ended_at, message, detail, spec) "+
					"VALUES (?, 'ann', 'closed', '', '', ?, ?, '{}', '{}')", id, ended, message); err != nil {
					t.Fatal(err)
				}
			}
			sessions := int64(len("{}") + len(message))
			records += sessions
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if used, err := s.Users().Usage(t.Context(), "ann", time.Now()); err != nil || version < 4 && used.LogBytes != 42 {
				t.Errorf("%+v, %v", used, err)
			}
			if all, since, err := s.Users().Recorded(t.Context(), "ann"); err != nil || all != records || since != recent {
				t.Errorf("%d and %d bytes of records, %v; want %d and %d", all, since, err, records, recent)
			}
			for _, q := range []belljar.RunQuery{{}, {UserID: "ann"}, {UserID: "ann", Phase: belljar.PhaseCompleted}} {
				if _, total, err := s.Runs().List(t.Context(), q); err != nil || total != 6 {
					t.Errorf("%+v: %d runs, %v", q, total, err)
				}
			}
			want := belljar.Quota{LogMB: 3, MemoryMB: 4}
			if err := s.Users().SetQuota(t.Context(), "ann", &want); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Users().Quota(t.Context(), "ann"); err != nil || got != want {
				t.Errorf("%+v, %v", got, err)
			}
			if err := s.Runs().Delete(t.Context(), ids...); err != nil {
				t.Fatal(err)
			}
			if all, since, err := s.Users().Recorded(t.Context(), "ann"); err != nil || all != sessions || since != 0 {
				t.Errorf("%d and %d bytes of records after all runs are deleted, %v", all, since, err)
			}
		})
	}
}
