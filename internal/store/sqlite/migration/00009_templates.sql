-- +goose Up

CREATE TABLE sandbox_templates (
    user_id TEXT NOT NULL, -- '' for one that all users may use
    name    TEXT NOT NULL,
    detail  TEXT NOT NULL, -- JSON, all of it
    PRIMARY KEY (user_id, name)
);

PRAGMA user_version = 9;
