//! Tables and their migrations.
//!
//! What do we store, and who else knows it?
//! - `ledger`, `epochs`: what became of each delivery. Nobody else knows it; losing it costs doubles of messages without
//!   ids, never a loss. It is what makes a kill at any moment harmless.
//! - `subscriptions`: the ids that stand in `conf.subscription_id`, what people switched off, and how often each was missed; the
//!   declarations themselves are in the DAG files. A row that was deleted stays as a tombstone.
//! - `refusals`: what is written down and does not run, as the last trusted scan found it.
//! - `scan_baseline`: what the DAG folder is known to have held, so that a restart into a half-mounted volume is noticed.
//! - `airflow`: which API answered last, so that a start before Airflow reads ignore files as it will.
//! - `dags`: which DAGs were seen unpaused, since messages are dropped for such a DAG only.
//! - `restorations`: that the ledger's past is lost, because a broken file was moved aside (`moved_aside` names it) or the file was
//!   missing (`moved_aside` is empty).
//! - `watchers`: who runs on this file and when its last cycle ended: one row.
//! - `subscription_status`, `connection_status`: for people and the command line; derived, rewritten on every change.
//!
//! Times are UTC milliseconds in `*_at_ms`. Enums are text with a CHECK. `PRAGMA user_version` is the only version; a
//! migration is closed once released.

/// All migrations, the first one making version 1.
pub(super) const MIGRATIONS: &[&str] = &[V1, V2];

/// The version this program writes.
pub(super) fn current_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).expect("a handful of migrations")
}

const V1: &str = "
CREATE TABLE subscriptions (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    dag_id        TEXT NOT NULL,
    queue         TEXT NOT NULL,
    conn_id       TEXT NOT NULL,
    source        TEXT NOT NULL CHECK (source IN ('dag_file')),
    origin        TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    UNIQUE (dag_id, queue, conn_id)
) STRICT;

-- One row for each life of an AMQP channel. Numbers rise for ever, across restarts.
CREATE TABLE epochs (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    conn_id      TEXT NOT NULL,
    queue        TEXT NOT NULL,
    opened_at_ms INTEGER NOT NULL,
    ended_at_ms  INTEGER
) STRICT;

CREATE TABLE ledger (
    id                INTEGER PRIMARY KEY,
    conn_id           TEXT NOT NULL,
    queue             TEXT NOT NULL,
    target            TEXT NOT NULL,
    key_kind          TEXT NOT NULL CHECK (key_kind IN ('message_id', 'fingerprint')),
    key               TEXT NOT NULL,
    n                 INTEGER NOT NULL,
    state             TEXT NOT NULL CHECK (state IN ('received', 'sent', 'started', 'duplicate', 'dropped', 'dlq',
                                                     'ack_sent', 'reject_sent', 'settled')),
    outcome           TEXT CHECK (outcome IN ('started', 'duplicate', 'dropped', 'dlq')),
    reason            TEXT,
    run_id            TEXT,
    -- The epoch that holds the delivery; 0 once it was given back.
    epoch             INTEGER NOT NULL,
    is_first_delivery INTEGER NOT NULL,
    content           TEXT NOT NULL,
    -- A refused message, kept before it is rejected: its body, and all else of it as JSON.
    kept_body         BLOB,
    kept_head         TEXT,
    created_at_ms     INTEGER NOT NULL,
    updated_at_ms     INTEGER NOT NULL,
    settled_at_ms     INTEGER,
    UNIQUE (conn_id, queue, target, key_kind, key, n)
) STRICT;

-- Finding what is unsettled must not read what is settled.
CREATE INDEX ledger_unsettled ON ledger (conn_id, queue, target, key_kind, key) WHERE state <> 'settled';

CREATE TABLE subscription_status (
    subscription_id INTEGER PRIMARY KEY REFERENCES subscriptions (id) ON DELETE CASCADE,
    status          TEXT NOT NULL,
    last_error      TEXT,
    consumer_tag    TEXT,
    updated_at_ms   INTEGER NOT NULL
) STRICT;

CREATE TABLE connection_status (
    conn_id       TEXT PRIMARY KEY,
    status        TEXT NOT NULL,
    last_error    TEXT,
    updated_at_ms INTEGER NOT NULL
) STRICT;
";

// The status tables are derived, so they are made anew with what they refer to.
const V2: &str = "
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
