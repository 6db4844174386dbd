package sqlite

import (
	"fmt"
	"testing"
	"time"
)

// TestSweepsInParts sweeps more rows than one write may delete, from every table that a sweep deletes from.
func TestSweepsInParts(t *testing.T) {
	t.Parallel()
	s := opened(t)
	const rows = 1200
	before := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	old := timeText(before.Add(-time.Hour))
	// front passes the writes of a sweep to the store, and counts the rows that each of them deletes.
	front := &Store{writer: &writer{ops: make(chan *pending)}}
	var deleted []int64
	go func() {
		for p := range front.writer.ops {
			p.done <- s.writer.do(p.ctx, write{do: func(tx *tx) error {
				var first, last int64
				if err := tx.row("SELECT total_changes()").Scan(&first); err != nil {
					return err
				}
				if err := p.do(tx); err != nil {
					return err
				}
				err := tx.row("SELECT total_changes()").Scan(&last)
				deleted = append(deleted, last-first)
				return err
			}})
		}
	}()
	defer close(front.writer.ops)

	for _, table := range []struct {
		name, columns, values string
		sweep                 func() (int, error)
	}{
		{"sandbox_idempotency", "endpoint, user_key, key, fingerprint, object_id, created_at, created_us", "'runs', 'ann', i, '', '', unixepoch(?1), 0",
			func() (int, error) { return front.Keys().DeleteBefore(t.Context(), before) }},
		{"sandbox_sessions", "id, user_id, state, created_at, expires_at, ended_at, detail, spec", "i, 'ann', 'ended', ?1, ?1, ?1, '{}', '{}'",
			func() (int, error) { return front.Sessions().DeleteEnded(t.Context(), before) }},
		{"sandbox_usage_daily", "user_id, day, cpu_seconds", "iif(i % 2, 'ann', 'bob'), format('%04d', substr(?1, 1, 4) - i), 1",
			func() (int, error) { return front.Users().DeleteBefore(t.Context(), before) }},
		{"sandbox_approvals", "id, user_id, state, requested_at, detail", "i, 'ann', 'denied', ?1, '{}'",
			func() (int, error) { return front.Approvals().DeleteBefore(t.Context(), before) }},
		{"sandbox_tokens", "id, hash, user_id, role, created_at, expires_at", "i, i, 'ann', 'user', ?1, ?1",
			func() (int, error) { return front.Tokens().DeleteEnded(t.Context(), before) }},
	} {
		err := s.writer.do(t.Context(), write{do: func(tx *tx) error {
			if _, err := tx.exec("INSERT OR IGNORE INTO sandbox_usage (user_id, artifact_bytes) VALUES ('ann', 0), ('bob', 0)"); err != nil {
				return err
			}
			_, err := tx.exec(fmt.Sprintf("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < %d) INSERT INTO %s (%s) SELECT %s FROM c",
				rows, table.name, table.columns, table.values), old)
			return err
		}})
		if err != nil {
			t.Fatalf("%s: %v", table.name, err)
		}
		deleted = nil
		want := "[500 500 200]"
		if table.name == "sandbox_sessions" {
			want = "[501 501 201]" // with the usage of their user
		}
		if n, err := table.sweep(); err != nil || n != rows || fmt.Sprint(deleted) != want {
			t.Errorf("%s: %d rows deleted in writes of %d, error %v", table.name, n, deleted, err)
		}
	}
}
