-- +goose Up

-- The size of the records of a user's ended runs: of all, and of those whose log is not swept. Sums of what recordBytes in run.go computes.
ALTER TABLE sandbox_usage ADD COLUMN record_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandbox_usage ADD COLUMN recent_record_bytes INTEGER NOT NULL DEFAULT 0;

INSERT INTO sandbox_usage (user_id, record_bytes, recent_record_bytes)
SELECT user_id, sum(size), sum(iif(log_gone, 0, size)) FROM (
    SELECT user_id, log_gone, octet_length(detail) + 4 * octet_length(message) + coalesce(octet_length(artifacts), 0) AS size FROM sandbox_runs
    WHERE finished_at IS NOT NULL
) GROUP BY user_id
ON CONFLICT (user_id) DO UPDATE SET record_bytes = excluded.record_bytes, recent_record_bytes = excluded.recent_record_bytes;

PRAGMA user_version = 10;
