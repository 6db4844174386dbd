-- +goose Up

-- Requests that wait, or waited, for a person.
CREATE TABLE sandbox_approvals (
    id           TEXT NOT NULL PRIMARY KEY, -- of the run or session
    user_id      TEXT NOT NULL,
    state        TEXT NOT NULL,
    requested_at TEXT NOT NULL,
    detail       TEXT NOT NULL -- JSON, all of it
);

CREATE INDEX idx_approvals_state ON sandbox_approvals(state, requested_at);
CREATE INDEX idx_approvals_requested_at ON sandbox_approvals(requested_at);

PRAGMA user_version = 6;
