//! Version 3: a ledger that has a bounded length and tells its story.

// A CHECK cannot be changed: the ledger is made anew, its rows keep their ids.
pub(super) const V3: &str = "
ALTER TABLE ledger RENAME TO ledger_v2;
DROP INDEX ledger_unsettled;
CREATE TABLE ledger (
    id                INTEGER PRIMARY KEY,
    conn_id           TEXT NOT NULL,
    queue             TEXT NOT NULL,
    target            TEXT NOT NULL,
    key_kind          TEXT NOT NULL CHECK (key_kind IN ('message_id', 'dedup_key', 'fingerprint')),
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
    -- How often a delivery was bound to it, and how often the refused message was put back into its queue.
    deliveries        INTEGER NOT NULL DEFAULT 1,
    replays           INTEGER NOT NULL DEFAULT 0,
    -- Copies of the message: the highest number that may be in the broker, the highest that surely is, and, as long as the original
    -- may come again, the epoch in which it was last held.
    copies_made       INTEGER NOT NULL DEFAULT 0,
    copies_confirmed  INTEGER NOT NULL DEFAULT 0,
    original_open     INTEGER NOT NULL DEFAULT 0,
    -- Whose match it was; NULL where no subscription is known.
    subscription_id   INTEGER,
    -- The message's own id, where that is not the key.
    message_id        TEXT,
    created_at_ms     INTEGER NOT NULL,
    updated_at_ms     INTEGER NOT NULL,
    -- When the run was asked for (since the last delivery that had it asked for), and when the outcome was known.
    sent_at_ms        INTEGER,
    decided_at_ms     INTEGER,
    settled_at_ms     INTEGER,
    UNIQUE (conn_id, queue, target, key_kind, key, n)
) STRICT;
INSERT INTO ledger (id, conn_id, queue, target, key_kind, key, n, state, outcome, reason, run_id, epoch, is_first_delivery,
                       content, subscription_id, created_at_ms, updated_at_ms, settled_at_ms)
    SELECT l.id, l.conn_id, l.queue, l.target, l.key_kind, l.key, l.n, l.state, l.outcome, l.reason, l.run_id, l.epoch,
           l.is_first_delivery, l.content, s.id, l.created_at_ms, l.updated_at_ms, l.settled_at_ms
    FROM ledger_v2 l LEFT JOIN subscriptions s
        ON l.target LIKE 'dag:%' AND s.dag_id = substr(l.target, 5) AND s.queue = l.queue AND s.conn_id = l.conn_id;

-- Refused messages, kept before they are rejected: all but the body as JSON, and the body.
CREATE TABLE kept (
    row_id     INTEGER PRIMARY KEY REFERENCES ledger (id) ON DELETE CASCADE,
    kept_at_ms INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    head       TEXT NOT NULL,
    body       BLOB NOT NULL
) STRICT;
-- Bodies are not read to add up their sizes.
CREATE INDEX kept_bytes ON kept (row_id, bytes);
INSERT INTO kept
    SELECT id, updated_at_ms, length(kept_body), ifnull(kept_head, '{}'), kept_body FROM ledger_v2 WHERE kept_body IS NOT NULL;
DROP TABLE ledger_v2;

-- Finding what is unsettled must not read what is settled.
CREATE INDEX ledger_unsettled ON ledger (conn_id, queue, target, key_kind, key) WHERE state <> 'settled';
CREATE INDEX ledger_originals ON ledger (conn_id, queue, target, key_kind, key) WHERE original_open <> 0;

-- Removed rows of fingerprints had no number above this one.
CREATE TABLE numbers (
    conn_id TEXT NOT NULL,
    queue   TEXT NOT NULL,
    target  TEXT NOT NULL,
    highest INTEGER NOT NULL,
    PRIMARY KEY (conn_id, queue, target)
) STRICT, WITHOUT ROWID;

-- DAGs of which Airflow has said nothing since then but that they are not ready.
CREATE TABLE not_ready (
    dag_id           TEXT PRIMARY KEY,
    first_seen_at_ms INTEGER NOT NULL
) STRICT;

-- Answers that were no success: the first ones and the last ones of each row.
CREATE TABLE attempts (
    row_id INTEGER NOT NULL REFERENCES ledger (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    at_ms  INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    answer TEXT NOT NULL,
    PRIMARY KEY (row_id, number)
) STRICT, WITHOUT ROWID;

-- The newest deliveries that some subscription did not want.
CREATE TABLE verdicts (
    id          INTEGER PRIMARY KEY,
    at_ms       INTEGER NOT NULL,
    conn_id     TEXT NOT NULL,
    queue       TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    redelivered INTEGER NOT NULL,
    key_kind    TEXT NOT NULL CHECK (key_kind IN ('message_id', 'fingerprint')),
    -- The message id, else the fingerprint.
    key         TEXT NOT NULL,
    -- For each subscription what it said and why, as JSON.
    said        TEXT NOT NULL
) STRICT;
";
