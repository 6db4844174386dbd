-- +goose Up

-- Drop indexes that no query of Belljar needs, or that another one replaces: each index costs a page for every run written.
DROP INDEX idx_runs_user_started_at;
DROP INDEX idx_runs_user_phase;
DROP INDEX idx_runs_user_created_at;
DROP INDEX idx_idem_user_key;
DROP INDEX idx_usage_artifact_bytes;

-- Every column that a user's own list can filter or sort by. It replaces three indexes.
CREATE INDEX idx_runs_user ON sandbox_runs(user_id, created_at, search, phase, runtime, base_image, session_id, started_at, finished_at, image_digest);

-- The full sort order of a list of keys, and every column that a list of sessions can filter by.
DROP INDEX idx_idem_created_at;
CREATE INDEX idx_idem_created_at ON sandbox_idempotency(created_at, created_us);
DROP INDEX idx_sessions_created_at;
CREATE INDEX idx_sessions_created_at ON sandbox_sessions(created_at, scope_key);

PRAGMA user_version = 5;
