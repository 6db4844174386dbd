package sqlite

import (
	"context"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

type users struct{ s *Store }

// Usage returns a user's usage on the day of t.
func (q users) Usage(ctx context.Context, userID string, t time.Time) (belljar.UserUsage, error) {
	u := belljar.UserUsage{UserID: userID}
	row := q.s.readDB.QueryRowContext(ctx, "SELECT coalesce((SELECT artifact_bytes FROM sandbox_usage WHERE user_id = ?1), 0), "+
		"coalesce((SELECT log_bytes FROM sandbox_usage WHERE user_id = ?1), 0), "+
		"coalesce((SELECT cpu_seconds FROM sandbox_usage_daily WHERE user_id = ?1 AND day = ?2), 0.0), "+
		"coalesce((SELECT egress_bytes FROM sandbox_usage_daily WHERE user_id = ?1 AND day = ?2), 0)", userID, t.UTC().Format(dayLayout))
	if err := row.Scan(&u.ArtifactBytes, &u.LogBytes, &u.CPUSecondsToday, &u.EgressBytesToday); err != nil {
		return belljar.UserUsage{}, q.s.failed(ctx, err)
	}
	return u, nil
}

// Charge adds to a user's usage of a day.
func (q users) Charge(ctx context.Context, userID string, c store.Charge, t time.Time) error {
	return q.s.writer.do(ctx, write{do: func(tx *tx) error {
		_, err := tx.exec("INSERT INTO sandbox_usage (user_id, artifact_bytes, log_bytes) VALUES (?, 0, 0) ON CONFLICT (user_id) DO NOTHING", userID) // for Top
		if err == nil {
			_, err = tx.exec("INSERT INTO sandbox_usage_daily (user_id, day, cpu_seconds, egress_bytes) VALUES (?, ?, ?, ?) "+ontoDay,
				userID, t.UTC().Format(dayLayout), c.CPUSeconds, c.EgressBytes)
		}
		return err
	}})
}

// deleteDays looks for the days of each user: the only index begins with the user.
var deleteDays = deleting("sandbox_usage_daily", "user_id, day", "user_id IN (SELECT user_id FROM sandbox_usage) AND day < ?")

// DeleteBefore deletes the usage of the days before that of a time.
func (q users) DeleteBefore(ctx context.Context, before time.Time) (int, error) {
	return q.s.delete(ctx, deleteDays, before.UTC().Format(dayLayout))
}

// Top lists users by artifact bytes.
func (q users) Top(ctx context.Context, limit int, t time.Time) ([]belljar.UserUsage, error) {
	limit, _ = store.Page(limit, 0)
	scan := func(row scanner) (u belljar.UserUsage, err error) {
		err = row.Scan(&u.UserID, &u.ArtifactBytes, &u.LogBytes, &u.CPUSecondsToday, &u.EgressBytesToday)
		return u, scanFailed("usage", u.UserID, err)
	}
	return list(ctx, q.s, "", scan, "SELECT u.user_id, u.artifact_bytes, u.log_bytes, coalesce(d.cpu_seconds, 0.0), coalesce(d.egress_bytes, 0) FROM sandbox_usage u "+
		"LEFT JOIN sandbox_usage_daily d ON d.user_id = u.user_id AND d.day = ? ORDER BY u.artifact_bytes DESC, u.user_id LIMIT ?", t.UTC().Format(dayLayout), limit)
}

// Kept returns how many bytes are stored in total, and for how many users: those with more than old records, if there are any.
func (q users) Kept(ctx context.Context) (bytes int64, users int, err error) {
	row := q.s.readDB.QueryRowContext(ctx, "SELECT coalesce(sum(artifact_bytes + log_bytes + record_bytes), 0), "+
		"coalesce(nullif(count(*) FILTER (WHERE artifact_bytes + log_bytes + recent_record_bytes > 0), 0), count(*) FILTER (WHERE record_bytes > 0)) "+
		"FROM sandbox_usage")
	if err := row.Scan(&bytes, &users); err != nil {
		return 0, 0, q.s.failed(ctx, err)
	}
	return bytes, users, nil
}

// Recorded returns the size of the records of a user's ended runs and sessions.
func (q users) Recorded(ctx context.Context, userID string) (all, recent int64, err error) {
	row := q.s.stmts.records.QueryRowContext(ctx, userID)
	err = row.Scan(&all, &recent)
	return all, recent, q.s.failed(ctx, err)
}

// Quota returns a user's stored quota.
func (q users) Quota(ctx context.Context, userID string) (belljar.Quota, error) {
	var quota belljar.Quota
	row := q.s.readDB.QueryRowContext(ctx, "SELECT concurrent_runs, cpu_seconds_per_day, artifact_mb, log_mb, memory_mb, cpu, egress_mb_per_day FROM sandbox_quotas WHERE user_id = ?", userID)
	err := row.Scan(&quota.ConcurrentRuns, &quota.CPUSecondsPerDay, &quota.ArtifactMB, &quota.LogMB, &quota.MemoryMB, &quota.CPU, &quota.EgressMBPerDay)
	if err == nil {
		return quota, nil
	}
	return belljar.Quota{}, q.s.failed(ctx, scanFailed("quota", userID, err))
}

// SetQuota stores a user's quota, or deletes it.
func (q users) SetQuota(ctx context.Context, userID string, quota *belljar.Quota) error {
	return q.s.writer.do(ctx, write{do: func(t *tx) error {
		if quota == nil {
			_, err := t.exec("DELETE FROM sandbox_quotas WHERE user_id = ?", userID)
			return err
		}
		_, err := t.exec("INSERT OR REPLACE INTO sandbox_quotas (user_id, concurrent_runs, cpu_seconds_per_day, artifact_mb, log_mb, memory_mb, cpu, egress_mb_per_day) VALUES (?,?,?,?,?,?,?,?)",
			userID, quota.ConcurrentRuns, quota.CPUSecondsPerDay, quota.ArtifactMB, quota.LogMB, quota.MemoryMB, quota.CPU, quota.EgressMBPerDay)
		return err
	}})
}
