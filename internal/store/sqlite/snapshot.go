package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

type snapshots struct{ s *Store }

func scanSnapshot(row scanner) (x belljar.Snapshot, err error) {
	var id, detail string
	if err := row.Scan(&id, &detail); err != nil {
		return x, scanFailed("snapshot", id, err)
	}
	if err := unmarshal("snapshot "+id, detail, &x); err != nil {
		return belljar.Snapshot{}, err
	}
	return x, nil
}

// otherOf selects whether a user has a snapshot with a digest.
const otherOf = "SELECT EXISTS (SELECT 1 FROM sandbox_snapshots WHERE user_id = ? AND digest = ?)"

// Insert stores a snapshot. It is durable: its user may have no other copy of the files.
func (q snapshots) Insert(ctx context.Context, x belljar.Snapshot) error {
	x.CreatedAt = x.CreatedAt.UTC().Truncate(time.Microsecond)
	if x.ExpiresAt != nil {
		x.ExpiresAt = new(x.ExpiresAt.UTC().Truncate(time.Microsecond))
	}
	detail, err := marshal(x)
	if err != nil {
		return err
	}
	return q.s.writer.do(ctx, write{durable: true, do: func(t *tx) error {
		var other bool
		if err := t.row(otherOf, x.UserID, x.Digest).Scan(&other); err != nil {
			return err
		}
		n, err := t.exec("INSERT INTO sandbox_snapshots (id, user_id, digest, stored_bytes, created_at, expires_at, detail) VALUES (?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING",
			x.ID, x.UserID, x.Digest, x.StoredBytes, timeText(x.CreatedAt), timeOrNull(x.ExpiresAt), detail)
		if err == nil && n == 0 {
			return fmt.Errorf("snapshot %s: %w", x.ID, store.ErrExists)
		}
		if err != nil || other {
			return err
		}
		_, err = t.exec("INSERT INTO sandbox_usage (user_id, artifact_bytes, log_bytes) VALUES (?, ?, 0) "+
			"ON CONFLICT (user_id) DO UPDATE SET artifact_bytes = artifact_bytes + excluded.artifact_bytes", x.UserID, x.StoredBytes)
		return err
	}})
}

// Get returns a snapshot.
func (q snapshots) Get(ctx context.Context, id string) (belljar.Snapshot, error) {
	x, err := scanSnapshot(q.s.readDB.QueryRowContext(ctx, "SELECT id, detail FROM sandbox_snapshots WHERE id = ?", id))
	if err != nil {
		return belljar.Snapshot{}, q.s.failed(ctx, err)
	}
	return x, nil
}

const newestSnapshots = " ORDER BY created_at DESC, rowid DESC LIMIT ? OFFSET ?"

// snapshotsOf returns the condition that selects the snapshots of a query.
func snapshotsOf(q belljar.SnapshotQuery) (where string, args []any) {
	if q.UserID == "" {
		return " FROM sandbox_snapshots", nil
	}
	return " FROM sandbox_snapshots WHERE user_id = ?", []any{q.UserID}
}

// List returns one page, newest first.
func (q snapshots) List(ctx context.Context, query belljar.SnapshotQuery) (page []belljar.Snapshot, total int, err error) {
	where, args := snapshotsOf(query)
	return paged(ctx, q.s, query.UserID, "id, detail", where, newestSnapshots, args, query.Limit, query.Offset, scanSnapshot)
}

// Has reports whether a user has a snapshot with a digest.
func (q snapshots) Has(ctx context.Context, userID, digest string) (has bool, err error) {
	if err := q.s.readDB.QueryRowContext(ctx, otherOf, userID, digest).Scan(&has); err != nil {
		return false, q.s.failed(ctx, err)
	}
	return has, nil
}

// Delete deletes a snapshot. It is durable, because its bytes are removed directly afterwards.
func (q snapshots) Delete(ctx context.Context, id string) (last bool, err error) {
	err = q.s.writer.do(ctx, write{durable: true, do: func(t *tx) error {
		last = false
		var user, digest string
		var stored int64
		row := t.row("DELETE FROM sandbox_snapshots WHERE id = ? RETURNING user_id, digest, stored_bytes", id)
		if err := row.Scan(&user, &digest, &stored); err != nil {
			return scanFailed("snapshot", id, err)
		}
		var other bool
		if err := t.row(otherOf, user, digest).Scan(&other); err != nil || other {
			return err
		}
		last = true
		_, err := t.exec("UPDATE sandbox_usage SET artifact_bytes = max(0, artifact_bytes - ?) WHERE user_id = ?", stored, user)
		return err
	}})
	return last, err
}

// expiredSnapshots is the statement of Expired.
const expiredSnapshots = "SELECT id, detail FROM sandbox_snapshots WHERE expires_at < ? ORDER BY expires_at"

// Expired returns the snapshots that expired before a time.
func (q snapshots) Expired(ctx context.Context, t time.Time, limit int) ([]belljar.Snapshot, error) {
	rows, err := q.s.readDB.QueryContext(ctx, expiredSnapshots, timeText(t))
	return collectUpTo(ctx, q.s, limit, rows, err, scanSnapshot)
}
