-- +goose Up

-- Indexes that no query of Belljar needs, or that another replaces: each costs a page with every run that is written.
DROP INDEX idx_runs_user_started_at;
DROP INDEX idx_runs_user_phase;
DROP INDEX idx_runs_user_created_at;
DROP INDEX idx_idem_user_key;
DROP INDEX idx_usage_artifact_bytes;

-- Everything that a user's own list can filter or sort by, in place of three.
CREATE INDEX idx_runs_user ON sandbox_runs(user_id, created_at, search, phase, runtime, base_image, session_id, started_at, finished_at, image_digest);

-- The whole order of a list of keys, and all that a list of sessions can select by.
DROP INDEX idx_idem_created_at;
CREATE INDEX idx_idem_created_at ON sandbox_idempotency(created_at, created_us);
DROP INDEX idx_sessions_created_at;
CREATE INDEX idx_sessions_created_at ON sandbox_sessions(created_at, scope_key);

PRAGMA user_version = 5;
