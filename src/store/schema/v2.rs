//! Version 2: closed.

// The status tables are derived, so they are made anew with what they refer to.
pub(super) const V2: &str = "
CREATE TABLE subscriptions_v2 (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    dag_id        TEXT NOT NULL,
    queue         TEXT NOT NULL,
    conn_id       TEXT NOT NULL,
    source        TEXT NOT NULL CHECK (source IN ('dag_file', 'ui')),
    -- Where it is written, and the file alone: relative to its folder, and with line and column.
    origin        TEXT NOT NULL,
    origin_file   TEXT NOT NULL,
    -- What differs from the defaults, as JSON.
    options       TEXT NOT NULL,
    enabled       INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    -- Why it must not run although it is known: its declaration was refused.
    invalid       TEXT,
    -- Trusted timed scans in a row that did not have it.
    absent_cycles INTEGER NOT NULL,
    -- A tombstone: it was deleted then, and its `enabled` and id wait for its return.
    deleted_at_ms INTEGER,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    UNIQUE (dag_id, queue, conn_id)
) STRICT;
INSERT INTO subscriptions_v2
    SELECT id, dag_id, queue, conn_id, source, origin, rtrim(rtrim(rtrim(rtrim(origin, '0123456789'), ':'), '0123456789'), ':'),
           '{}', 1, NULL, 0, NULL, created_at_ms, updated_at_ms
    FROM subscriptions;
DROP TABLE subscription_status;
DROP TABLE connection_status;
DROP TABLE subscriptions;
ALTER TABLE subscriptions_v2 RENAME TO subscriptions;

CREATE TABLE refusals (
    id          INTEGER PRIMARY KEY,
    origin      TEXT NOT NULL,
    origin_file TEXT NOT NULL,
    dag_id      TEXT,
    queue       TEXT,
    conn_id     TEXT,
    parameter   TEXT,
    -- The stable name of the reason, and the whole sentence.
    reason      TEXT NOT NULL,
    sentence    TEXT NOT NULL,
    since_ms    INTEGER NOT NULL
) STRICT;

CREATE TABLE scan_baseline (
    id            INTEGER PRIMARY KEY CHECK (id = 1),
    baseline      TEXT NOT NULL,
    updated_at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE airflow (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    api            TEXT NOT NULL CHECK (api IN ('v1', 'v2')),
    answered_at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE dags (
    dag_id              TEXT PRIMARY KEY,
    seen_unpaused_at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE watchers (
    id               INTEGER PRIMARY KEY CHECK (id = 1),
    hostname         TEXT NOT NULL,
    pid              INTEGER NOT NULL,
    version          TEXT NOT NULL,
    started_at_ms    INTEGER NOT NULL,
    -- NULL until the first cycle has ended.
    last_cycle_at_ms INTEGER,
    interval_ms      INTEGER NOT NULL,
    budget_ms        INTEGER NOT NULL,
    -- Why the last cycle could not do all of its work.
    last_error       TEXT,
    -- Counters since the start, as a JSON object.
    counters         TEXT NOT NULL,
    -- NULL while it runs.
    stopped_at_ms    INTEGER
) STRICT;

-- One row for each time that this file was begun because the one before was broken: older rows of the ledger are not known.
CREATE TABLE restorations (
    id             INTEGER PRIMARY KEY,
    restored_at_ms INTEGER NOT NULL,
    -- Where the broken file lies.
    moved_aside    TEXT NOT NULL,
    -- The backup that was taken, by name; NULL where there was none.
    backup         TEXT,
    -- How many subscriptions it held, tombstones included.
    subscriptions  INTEGER NOT NULL
) STRICT;

CREATE TABLE subscription_status (
    subscription_id INTEGER PRIMARY KEY REFERENCES subscriptions (id) ON DELETE CASCADE,
    status          TEXT NOT NULL,
    last_error      TEXT,
    consumer_tag    TEXT,
    updated_at_ms   INTEGER NOT NULL
) STRICT;

CREATE TABLE connection_status (
    conn_id              TEXT PRIMARY KEY,
    status               TEXT NOT NULL,
    last_error           TEXT,
    -- Consumers of ours, and when a cycle last looked; NULL where none has.
    consumer_count       INTEGER,
    last_reconcile_at_ms INTEGER,
    updated_at_ms        INTEGER NOT NULL
) STRICT;
";
