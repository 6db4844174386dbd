-- +goose Up

-- The whole log of a run that was over in a moment: there is no file of it. JSON, a frame a line.
ALTER TABLE sandbox_runs ADD COLUMN log BLOB;
