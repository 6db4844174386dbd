-- +goose Up

-- What runs send and receive over the network.
ALTER TABLE sandbox_usage_daily ADD COLUMN egress_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandbox_quotas ADD COLUMN egress_mb_per_day INTEGER NOT NULL DEFAULT 0;

PRAGMA user_version = 6;
