-- +goose Up

-- The maximum that a user's sandboxes may use together; 0 is no limit.
ALTER TABLE sandbox_quotas ADD COLUMN memory_mb INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandbox_quotas ADD COLUMN cpu REAL NOT NULL DEFAULT 0;
