-- +goose Up

-- The credential that a sign-in to the web page was made with; '' for an API key.
ALTER TABLE sandbox_tokens ADD COLUMN parent TEXT NOT NULL DEFAULT '';

PRAGMA user_version = 7;
