-- +goose Up

-- Columns up to policy_hash are those of the sandbox API (docs/compatibility.md#records). Times are ISO-8601 in UTC with a fixed width,
-- so that they sort as text; NULL is "not yet". Rows with equal times are ordered by rowid, which is the order of insertion.
CREATE TABLE sandbox_runs (
    id              TEXT    NOT NULL PRIMARY KEY,
    user_id         TEXT    NOT NULL,
    spec_version    TEXT    NOT NULL DEFAULT '',
    runtime         TEXT    NOT NULL DEFAULT '',
    runtime_version TEXT    NOT NULL DEFAULT '',
    base_image      TEXT    NOT NULL DEFAULT '',
    image_digest    TEXT    NOT NULL DEFAULT '',
    phase           TEXT    NOT NULL,
    exit_code       INTEGER,
    started_at      TEXT,
    finished_at     TEXT,
    message         TEXT    NOT NULL DEFAULT '',
    policy_hash     TEXT    NOT NULL DEFAULT '',

    created_at      TEXT    NOT NULL,
    session_id      TEXT,
    idempotency_key TEXT,
    last_seq        INTEGER NOT NULL DEFAULT 0,
    artifact_bytes  INTEGER NOT NULL DEFAULT 0, -- counted in sandbox_usage while artifacts_gone is 0
    log_gone        INTEGER NOT NULL DEFAULT 0,
    artifacts_gone  INTEGER NOT NULL DEFAULT 0,
    tenant          TEXT    NOT NULL DEFAULT '',
    node_id         TEXT    NOT NULL DEFAULT '',
    worker_id       TEXT    NOT NULL DEFAULT '',
    lease_epoch     INTEGER NOT NULL DEFAULT 0,
    detail          TEXT    NOT NULL, -- JSON: the other fields of GET /runs/{id}
    spec            TEXT,             -- JSON: the request, until the run has ended
    artifacts       TEXT,             -- JSON: the run's artifacts, after its end

    -- The text that is searched, with ASCII letters in lower case.
    search          TEXT GENERATED ALWAYS AS (lower(base_image || char(10) || message)) VIRTUAL
);

-- Indexes of the sandbox API (docs/compatibility.md#records).
CREATE INDEX idx_runs_started_at      ON sandbox_runs(started_at);
CREATE INDEX idx_runs_finished_at     ON sandbox_runs(finished_at);
CREATE INDEX idx_runs_phase           ON sandbox_runs(phase);
CREATE INDEX idx_runs_runtime         ON sandbox_runs(runtime);
CREATE INDEX idx_runs_image_digest    ON sandbox_runs(image_digest);
CREATE INDEX idx_runs_base_image      ON sandbox_runs(base_image);
CREATE INDEX idx_runs_user_started_at ON sandbox_runs(user_id, started_at);
CREATE INDEX idx_runs_user_phase      ON sandbox_runs(user_id, phase);

-- The most frequent lists, newest first, and the search in a user's own list.
CREATE INDEX idx_runs_user_created_at ON sandbox_runs(user_id, created_at, search);
CREATE INDEX idx_runs_session_id      ON sandbox_runs(session_id, created_at) WHERE session_id IS NOT NULL;
-- The messages for a search: most runs have none.
CREATE INDEX idx_runs_message         ON sandbox_runs(message, base_image) WHERE message <> '';
-- Every column that a list can filter or sort by: the most expensive list reads this index instead of the table.
CREATE INDEX idx_runs_list            ON sandbox_runs(created_at, search, user_id, phase, runtime, base_image, session_id, started_at, finished_at, image_digest);
-- Ended runs that still have bytes, oldest first. It stays small, because every sweep shrinks it.
CREATE INDEX idx_runs_unswept         ON sandbox_runs(finished_at) WHERE finished_at IS NOT NULL AND log_gone + artifacts_gone < 2;

CREATE TABLE sandbox_sessions (
    id          TEXT    NOT NULL PRIMARY KEY,
    user_id     TEXT    NOT NULL,
    state       TEXT    NOT NULL,
    message     TEXT    NOT NULL DEFAULT '',
    runtime     TEXT    NOT NULL DEFAULT '',
    base_image  TEXT    NOT NULL DEFAULT '',
    scope_key   TEXT,
    created_at  TEXT    NOT NULL,
    expires_at  TEXT    NOT NULL,
    ended_at    TEXT,
    tenant      TEXT    NOT NULL DEFAULT '',
    node_id     TEXT    NOT NULL DEFAULT '',
    worker_id   TEXT    NOT NULL DEFAULT '',
    lease_epoch INTEGER NOT NULL DEFAULT 0,
    idempotency_key TEXT,
    detail      TEXT    NOT NULL, -- JSON: the other fields of GET /sessions/{id}
    spec        TEXT    NOT NULL  -- JSON: the request
);

CREATE INDEX idx_sessions_created_at      ON sandbox_sessions(created_at);
CREATE INDEX idx_sessions_user_created_at ON sandbox_sessions(user_id, created_at);
CREATE INDEX idx_sessions_ended_at        ON sandbox_sessions(ended_at);
CREATE INDEX idx_sessions_living          ON sandbox_sessions(user_id, created_at) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX idx_sessions_scope_key ON sandbox_sessions(user_id, scope_key) WHERE ended_at IS NULL AND scope_key IS NOT NULL;

CREATE TABLE sandbox_idempotency (
    endpoint      TEXT    NOT NULL,
    user_key      TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    fingerprint   TEXT    NOT NULL,
    object_id     TEXT    NOT NULL,
    response_body TEXT,
    created_at    INTEGER NOT NULL,           -- epoch seconds
    created_us    INTEGER NOT NULL DEFAULT 0, -- microseconds past created_at
    PRIMARY KEY (endpoint, user_key, key)
);

CREATE INDEX idx_idem_created_at ON sandbox_idempotency(created_at);
CREATE INDEX idx_idem_user_key   ON sandbox_idempotency(user_key);

CREATE TABLE sandbox_usage (
    user_id        TEXT    NOT NULL PRIMARY KEY,
    artifact_bytes INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX idx_usage_artifact_bytes ON sandbox_usage(artifact_bytes);

CREATE TABLE sandbox_usage_daily (
    user_id     TEXT NOT NULL,
    day         TEXT NOT NULL, -- 2006-01-02 in UTC
    cpu_seconds REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, day)
) WITHOUT ROWID;

CREATE TABLE sandbox_quotas (
    user_id             TEXT    NOT NULL PRIMARY KEY,
    concurrent_runs     INTEGER NOT NULL,
    cpu_seconds_per_day REAL    NOT NULL,
    artifact_mb         INTEGER NOT NULL
);

CREATE TABLE sandbox_tokens (
    id           TEXT NOT NULL PRIMARY KEY,
    hash         TEXT NOT NULL UNIQUE, -- SHA-256 of the key, lower-case hex
    user_id      TEXT NOT NULL,
    role         TEXT NOT NULL,
    name         TEXT NOT NULL DEFAULT '',
    prefix       TEXT NOT NULL DEFAULT '',
    created_at   TEXT NOT NULL,
    expires_at   TEXT,
    last_used_at TEXT,
    revoked_at   TEXT
);

-- One row that readiness checks write to.
CREATE TABLE sandbox_ping (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    n  INTEGER NOT NULL
);

INSERT INTO sandbox_ping (id, n) VALUES (1, 0);

PRAGMA application_id = 1112296018;
PRAGMA user_version = 1;
