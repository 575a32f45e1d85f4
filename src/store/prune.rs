//! Removing what is past its time, a few rows at a time: each step is one command, and deliveries go on in between.

use std::collections::HashMap;

use rusqlite::{Connection, Row, params};

use super::{Store, StoreError};
use crate::domain::key::KeyKind;
use crate::domain::retention::{Aged, Keeping, Retention, remembered};

/// Rows that one step looks at.
const STEP: u32 = 500;

/// Refused messages that one step removes: each may have megabytes.
const STEP_KEPT: u32 = 20;

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pruned {
    /// There may be more: go on behind this row.
    UpTo(i64),
    /// Nothing more is past its time.
    All,
}

impl Store {
    /// Removes ledger rows that are past their time, with their attempts and what is kept of them, and remembers the numbers that must
    /// not be given out again. One step, over the rows behind `after`.
    ///
    /// # Errors
    /// Nothing was removed.
    pub async fn prune_ledger(&self, kept: Retention, after: i64, now_ms: i64) -> Result<Pruned, StoreError> {
        self.call("to remove old rows", move |connection| prune_ledger(connection, kept, after, now_ms)).await
    }

    /// Removes the oldest refused messages while all of them take too much room; their rows stay. One step; returns whether there may
    /// be more. One whose rejection was not confirmed stays in any case.
    ///
    /// # Errors
    /// Nothing was removed.
    pub async fn prune_kept(&self, kept: Retention) -> Result<bool, StoreError> {
        self.call("to remove old refused messages", move |connection| prune_kept(connection, kept.keep_bytes)).await
    }

    /// Removes the channels of long ago; the newest of each queue stays. One step; returns whether there may be more.
    ///
    /// # Errors
    /// Nothing was removed.
    pub async fn prune_epochs(&self, kept: Retention, now_ms: i64) -> Result<bool, StoreError> {
        self.call("to remove old channels", move |connection| {
            let sql = "DELETE FROM epochs WHERE id IN (SELECT id FROM epochs WHERE ifnull(ended_at_ms, opened_at_ms) < ?1 \
                       AND id NOT IN (SELECT max(id) FROM epochs GROUP BY conn_id, queue) LIMIT ?2)";
            let values = params![now_ms.saturating_sub(kept.keep_ms), STEP];
            Ok(connection.prepare_cached(sql)?.execute(values)? == STEP as usize)
        })
        .await
    }
}

struct Old {
    aged: Aged,
    place: [String; 3],
    kind: KeyKind,
    n: u32,
}

fn read(row: &Row<'_>) -> rusqlite::Result<Old> {
    let kind: String = row.get(6)?;
    Ok(Old {
        aged: Aged { id: row.get(0)?, created_at_ms: row.get(1)?, settled_at_ms: row.get(2)? },
        place: [row.get(3)?, row.get(4)?, row.get(5)?],
        kind: KeyKind::from_code(&kind).expect("held by a CHECK"),
        n: row.get(7)?,
    })
}

fn prune_ledger(connection: &Connection, kept: Retention, after: i64, now_ms: i64) -> rusqlite::Result<Pruned> {
    let newest: Option<i64> =
        connection.prepare_cached("SELECT max(id) FROM ledger")?.query_row([], |row| row.get(0))?;
    let Some(newest) = newest else { return Ok(Pruned::All) };
    // A row whose original may still come beside a copy is needed to tell it.
    let sql = "SELECT id, created_at_ms, iif(state = 'settled' AND original_open = 0, settled_at_ms, NULL), conn_id, queue, target, key_kind, n \
               FROM ledger WHERE id > ?1 ORDER BY id LIMIT ?2";
    let rows: Vec<Old> =
        connection.prepare_cached(sql)?.query_map(params![after, STEP], read)?.collect::<rusqlite::Result<_>>()?;
    let mut next = if rows.len() == STEP as usize { rows.last().map(|row| row.aged.id) } else { None };
    let mut numbers: HashMap<[String; 3], u32> = HashMap::new();
    let mut delete = connection.prepare_cached("DELETE FROM ledger WHERE id = ?1")?;
    for Old { aged, place, kind, n } in rows {
        match kept.of(aged, newest, now_ms) {
            Keeping::Remove => {
                delete.execute([aged.id])?;
                if let Some(n) = remembered(kind, n) {
                    let highest = numbers.entry(place).or_default();
                    *highest = n.max(*highest);
                }
            }
            Keeping::Keep => {}
            Keeping::KeepAllAfter => {
                next = None;
                break;
            }
        }
    }
    let sql = "INSERT INTO numbers (conn_id, queue, target, highest) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT DO UPDATE SET highest = max(highest, excluded.highest)";
    let mut remember = connection.prepare_cached(sql)?;
    for ([conn_id, queue, target], highest) in numbers {
        remember.execute(params![conn_id, queue, target, highest])?;
    }
    Ok(next.map_or(Pruned::All, Pruned::UpTo))
}

fn prune_kept(connection: &Connection, most: i64) -> rusqlite::Result<bool> {
    let sql = "SELECT row_id, bytes FROM kept INDEXED BY kept_bytes ORDER BY row_id DESC";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let (mut total, mut too_many) = (0_i64, None);
    while let Some(row) = rows.next()? {
        total = total.saturating_add(row.get(1)?);
        if total > most {
            too_many = Some(row.get::<_, i64>(0)?);
            break;
        }
    }
    drop(rows);
    let Some(up_to) = too_many else { return Ok(false) };
    let sql = "DELETE FROM kept WHERE row_id IN (SELECT k.row_id FROM kept k JOIN ledger l ON l.id = k.row_id \
               WHERE k.row_id <= ?1 AND l.state = 'settled' ORDER BY k.row_id LIMIT ?2)";
    Ok(connection.prepare_cached(sql)?.execute(params![up_to, STEP_KEPT])? == STEP_KEPT as usize)
}
