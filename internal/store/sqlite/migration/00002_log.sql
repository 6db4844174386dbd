-- +goose Up

-- The whole log of a short run, which has no log file. JSON, one frame a line.
ALTER TABLE sandbox_runs ADD COLUMN log BLOB;
