-- +goose Up

-- The records of ended sessions count, too: by what countEnded in session.go computes.
INSERT INTO sandbox_usage (user_id, record_bytes)
SELECT user_id, sum(octet_length(detail) + octet_length(message)) FROM sandbox_sessions WHERE ended_at IS NOT NULL GROUP BY user_id
ON CONFLICT (user_id) DO UPDATE SET record_bytes = record_bytes + excluded.record_bytes;

PRAGMA user_version = 11;
