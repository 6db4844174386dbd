-- +goose Up

-- The secrets that users store, encrypted with a key that is not in this file.
CREATE TABLE sandbox_secrets (
    user_id    TEXT NOT NULL, -- '' for a shared one
    name       TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (user_id, name)
);

-- Requests that wait, or waited, for an approval.
CREATE TABLE sandbox_approvals (
    id           TEXT NOT NULL PRIMARY KEY, -- of the run or session
    user_id      TEXT NOT NULL,
    state        TEXT NOT NULL,
    requested_at TEXT NOT NULL,
    detail       TEXT NOT NULL -- JSON of the whole approval
);

CREATE INDEX idx_approvals_state ON sandbox_approvals(state, requested_at);
CREATE INDEX idx_approvals_requested_at ON sandbox_approvals(requested_at);

-- The bytes that runs send and receive over the network.
ALTER TABLE sandbox_usage_daily ADD COLUMN egress_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandbox_quotas ADD COLUMN egress_mb_per_day INTEGER NOT NULL DEFAULT 0;

PRAGMA user_version = 6;
