//! One row of the ledger: read, made and moved on.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Row as SqlRow, named_params, params};

use super::{NewDelivery, RowId};
use crate::domain::ids::{Epoch, QueueName, RunId, SubscriptionId};
use crate::domain::key::{DeliveryKey, KeyKind};
use crate::domain::ledger::{self as rules, Outcome, RELEASED, Row, Seen, state_from_code};
use crate::domain::run_id::run_id;

pub(super) fn release(connection: &Connection, row: RowId, now_ms: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE ledger SET epoch = ?2, updated_at_ms = max(?3, updated_at_ms + 1) WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![row.0, RELEASED.0, now_ms]).map(drop)
}

/// Whose rows: those of a delivery's key for one target.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) delivery: &'a NewDelivery,
    pub(super) target: &'a str,
    /// Of the subscription; the delivery's own where it names none.
    pub(super) key: &'a DeliveryKey,
}

impl<'a> Of<'a> {
    pub(super) fn columns(self) -> [&'a str; 5] {
        let Self { delivery, target, key } = self;
        [delivery.conn_id.as_str(), delivery.queue.as_str(), target, key.kind().code(), key.text()]
    }

    fn may_be_back(self) -> bool {
        self.delivery.redelivered || self.delivery.again || self.delivery.refused_times.is_some()
    }
}

/// What [`read_row`] reads.
pub(super) const ROW: &str = "SELECT l.id, l.n, l.state, l.outcome, l.run_id, l.epoch, l.is_first_delivery, l.content, \
                                     l.replays, e.ended_at_ms - l.settled_at_ms";

/// The rows of a key; its columns are [`Of::columns`].
pub(super) const WHERE_KEY: &str =
    "l.conn_id = ?1 AND l.queue = ?2 AND l.target = ?3 AND l.key_kind = ?4 AND l.key = ?5";

/// The rows that a redelivery may be bound to. What is settled for good is not read, however much of it there is; a message that was
/// never delivered before needs none.
pub(super) fn open_rows(connection: &Connection, of: Of<'_>) -> rusqlite::Result<Vec<(RowId, Row)>> {
    if !of.may_be_back() {
        return Ok(Vec::new());
    }
    let read = |index: &str, end: &str| -> rusqlite::Result<Vec<(RowId, Row)>> {
        let tables = format!("FROM ledger l {index} LEFT JOIN epochs e ON e.id = l.epoch");
        let mut statement = connection.prepare_cached(&format!("{ROW} {tables} WHERE {WHERE_KEY} AND {end}"))?;
        statement.query_map(of.columns(), read_row)?.collect()
    };
    let mut rows = read("INDEXED BY ledger_unsettled", "l.state <> 'settled'")?;
    let is_replay = of.delivery.refused_times.is_some();
    if of.key.kind().is_an_id() || is_replay {
        rows.extend(read("", "l.state = 'settled' ORDER BY l.n DESC LIMIT 8")?);
    }
    if is_replay {
        let refused = read("", "l.state = 'settled' AND l.outcome = 'dlq' ORDER BY l.n LIMIT 1")?;
        rows.extend(
            refused.into_iter().filter(|(id, _)| !rows.iter().any(|(known, _)| known == id)).collect::<Vec<_>>(),
        );
    }
    Ok(rows)
}

/// Three look-ups in the key's index, each of a row or two.
pub(super) fn seen(connection: &Connection, of: Of<'_>) -> rusqlite::Result<Seen> {
    const KEY: &str = "conn_id = ?1 AND queue = ?2 AND target = ?3 AND key_kind = ?4 AND key = ?5";
    let newest = connection
        .prepare_cached(&format!("SELECT n, content FROM ledger WHERE {KEY} ORDER BY n DESC LIMIT 1"))?
        .query_row(of.columns(), |row| Ok((row.get::<_, u32>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    let removed =
        removed_up_to(connection, of.delivery.conn_id.as_str(), of.delivery.queue.as_str(), of.target, of.key.kind())?;
    let Some((highest, content)) = newest else { return Ok(Seen { highest: removed, ..Seen::default() }) };
    let highest = highest.max(removed);
    let has_twins = of.may_be_back() && {
        let sql = format!("SELECT count(*) > 1 FROM (SELECT 1 FROM ledger WHERE {KEY} AND is_first_delivery LIMIT 2)");
        connection.prepare_cached(&sql)?.query_row(of.columns(), |row| row.get(0))?
    };
    Ok(Seen { highest, has_twins, other_content: content != of.delivery.content })
}

pub(super) fn read_row(sql: &SqlRow<'_>) -> rusqlite::Result<(RowId, Row)> {
    let state: String = sql.get(2)?;
    let outcome: Option<String> = sql.get(3)?;
    let row = Row {
        n: sql.get(1)?,
        state: state_from_code(&state).expect("held by a CHECK"),
        outcome: outcome.map(|code| Outcome::from_code(&code).expect("held by a CHECK")),
        run_id: sql.get::<_, Option<String>>(4)?.map(RunId::new),
        epoch: Epoch(sql.get(5)?),
        is_first_delivery: sql.get(6)?,
        content: sql.get(7)?,
        replays: sql.get(8)?,
        settled_before_end_ms: sql.get(9)?,
    };
    Ok((RowId(sql.get(0)?), row))
}

pub(super) fn insert(
    connection: &Connection,
    of: Of<'_>,
    (subscription, n): (Option<SubscriptionId>, u32),
    state: &str,
    run_id: &RunId,
    now_ms: i64,
) -> rusqlite::Result<RowId> {
    let sql = "INSERT INTO ledger (conn_id, queue, target, key_kind, key, n, state, run_id, epoch, is_first_delivery, \
                                   content, subscription_id, message_id, created_at_ms, updated_at_ms, sent_at_ms) \
               VALUES (:conn_id, :queue, :target, :key_kind, :key, :n, :state, :run_id, :epoch, :first, :content, \
                       :subscription_id, :message_id, :now, :now, iif(:state = 'sent', :now, NULL))";
    let d = of.delivery;
    connection.prepare_cached(sql)?.execute(named_params! {
        ":conn_id": d.conn_id.as_str(), ":queue": d.queue.as_str(), ":target": of.target,
        ":key_kind": of.key.kind().code(), ":key": of.key.text(), ":n": n, ":state": state, ":run_id": run_id.as_str(),
        ":epoch": d.epoch.0, ":first": !d.redelivered && d.copy.is_none(), ":content": d.content, ":now": now_ms,
        ":subscription_id": subscription.map(|id| id.0),
        ":message_id": d.message_id.as_deref().filter(|id| *id != of.key.text()),
    })?;
    Ok(RowId(connection.last_insert_rowid()))
}

/// Rows of fingerprints that were removed had no number above this one. Equal ids share a run id whatever their numbers.
pub(super) fn removed_up_to(
    connection: &Connection,
    conn_id: &str,
    queue: &str,
    target: &str,
    kind: KeyKind,
) -> rusqlite::Result<u32> {
    if kind.is_an_id() {
        return Ok(0);
    }
    let sql = "SELECT highest FROM numbers WHERE conn_id = ?1 AND queue = ?2 AND target = ?3";
    let highest = connection.prepare_cached(sql)?.query_row([conn_id, queue, target], |row| row.get(0)).optional()?;
    Ok(highest.unwrap_or(0))
}

/// A refused row begins anew, as that of a replay.
pub(super) fn take_up_again(
    connection: &Connection,
    row: RowId,
    state: &str,
    (replay, run_id): (u32, &RunId),
    epoch: Epoch,
    now_ms: i64,
) -> rusqlite::Result<()> {
    let sql = "UPDATE ledger SET state = ?2, replays = ?3, run_id = ?4, epoch = ?5, deliveries = deliveries + 1, outcome = NULL, \
               reason = NULL, decided_at_ms = NULL, settled_at_ms = NULL, sent_at_ms = iif(?2 = 'sent', ?6, NULL), \
               updated_at_ms = max(?6, updated_at_ms + 1) WHERE id = ?1";
    let values = params![row.0, state, replay, run_id.as_str(), epoch.0, now_ms];
    connection.prepare_cached(sql)?.execute(values).map(drop)
}

pub(super) fn resume(
    connection: &Connection,
    row: RowId,
    state: Option<&str>,
    epoch: Epoch,
    now_ms: i64,
) -> rusqlite::Result<()> {
    let sql = "UPDATE ledger SET epoch = ?2, deliveries = deliveries + 1, state = coalesce(?3, state), \
               sent_at_ms = iif(?3 = 'sent', ?4, sent_at_ms), updated_at_ms = max(?4, updated_at_ms + 1) WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![row.0, epoch.0, state, now_ms]).map(drop)
}

pub(super) fn take_next_number(connection: &Connection, row: RowId, now_ms: i64) -> rusqlite::Result<RunId> {
    let found = connection
        .prepare_cached("SELECT conn_id, queue, target, key_kind, key FROM ledger WHERE id = ?1")?
        .query_row([row.0], |sql| {
            let text = |column| sql.get::<_, String>(column);
            Ok((text(0)?, text(1)?, text(2)?, text(3)?, text(4)?))
        })
        .optional()?;
    let (conn_id, queue, target, kind, key) = found.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let highest: u32 = connection
        .prepare_cached(
            "SELECT max(n) FROM ledger WHERE conn_id = ?1 AND queue = ?2 AND target = ?3 AND key_kind = ?4 AND key = ?5",
        )?
        .query_row(params![conn_id, queue, target, kind, key], |sql| sql.get(0))?;
    let kind = KeyKind::from_code(&kind).expect("held by a CHECK");
    let highest = highest.max(removed_up_to(connection, &conn_id, &queue, &target, kind)?);
    let n = rules::number_after_clash(highest, kind, now_ms);
    let run_id = run_id(&QueueName::new(queue), &DeliveryKey::new(kind, key), n);
    let sql = "UPDATE ledger SET n = ?2, run_id = ?3, state = 'sent', sent_at_ms = ?4, \
               updated_at_ms = max(?4, updated_at_ms + 1) WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![row.0, n, run_id.as_str(), now_ms])?;
    Ok(run_id)
}

/// Keeps a message whole: its body, and all else of it as JSON.
pub(super) fn keep_message(
    connection: &Connection,
    row: RowId,
    (head, body): (&str, &Bytes),
    now_ms: i64,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO kept (row_id, kept_at_ms, bytes, head, body) VALUES (?1, ?2, ?3, ?4, ?5)";
    let bytes = i64::try_from(body.len()).unwrap_or(i64::MAX);
    connection.prepare_cached(sql)?.execute(params![row.0, now_ms, bytes, head, body.as_ref()]).map(drop)
}
