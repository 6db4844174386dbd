-- +goose Up

-- Saved workspaces. Their bytes count towards sandbox_usage.artifact_bytes once for each digest of a user.
CREATE TABLE sandbox_snapshots (
    id           TEXT    NOT NULL PRIMARY KEY,
    user_id      TEXT    NOT NULL,
    digest       TEXT    NOT NULL,
    stored_bytes INTEGER NOT NULL,
    created_at   TEXT    NOT NULL,
    expires_at   TEXT,           -- NULL is never
    detail       TEXT    NOT NULL -- JSON of the whole snapshot
);

CREATE INDEX idx_snapshots_user ON sandbox_snapshots(user_id, created_at);
CREATE INDEX idx_snapshots_created ON sandbox_snapshots(created_at);
CREATE INDEX idx_snapshots_digest ON sandbox_snapshots(user_id, digest);
CREATE INDEX idx_snapshots_expires ON sandbox_snapshots(expires_at) WHERE expires_at IS NOT NULL;

PRAGMA user_version = 8;
