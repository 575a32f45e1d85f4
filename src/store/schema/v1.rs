//! Version 1: closed.

pub(super) const V1: &str = "
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
