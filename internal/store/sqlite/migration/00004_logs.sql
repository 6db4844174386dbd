-- +goose Up

-- The size of a run's log, counted in sandbox_usage while log_gone is 0. For older logs only the size of the output is known.
ALTER TABLE sandbox_runs ADD COLUMN log_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandbox_usage ADD COLUMN log_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandbox_quotas ADD COLUMN log_mb INTEGER NOT NULL DEFAULT 0; -- 0 is no limit

UPDATE sandbox_runs SET log_bytes = coalesce(length(log), iif(json_valid(detail), json_extract(detail, '$.resource_usage.log_bytes'), 0), 0)
WHERE finished_at IS NOT NULL AND log_gone = 0;

INSERT INTO sandbox_usage (user_id, log_bytes)
SELECT user_id, sum(log_bytes) FROM sandbox_runs WHERE log_bytes > 0 GROUP BY user_id
ON CONFLICT (user_id) DO UPDATE SET log_bytes = excluded.log_bytes;

PRAGMA user_version = 4;
