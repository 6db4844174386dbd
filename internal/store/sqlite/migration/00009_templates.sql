-- +goose Up

CREATE TABLE sandbox_templates (
    user_id TEXT NOT NULL, -- '' for a shared one
    name    TEXT NOT NULL,
    detail  TEXT NOT NULL, -- JSON of the whole template
    PRIMARY KEY (user_id, name)
);

PRAGMA user_version = 9;
