-- +goose Up

-- The secrets that users store, sealed with a key that is not in this file.
CREATE TABLE sandbox_secrets (
    user_id    TEXT NOT NULL, -- '' for one that all users may use
    name       TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (user_id, name)
);

PRAGMA user_version = 6;
