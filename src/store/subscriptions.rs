//! Subscriptions as rows: reading them, what people switch, and tombstones that were kept for long enough.

use rusqlite::types::{Type, ValueRef};
use rusqlite::{OptionalExtension as _, Row as SqlRow, params};

use super::{Store, StoreError};
use crate::domain::ids::{ConnId, DagId, QueueName, SubscriptionId};
use crate::domain::options::Options;
use crate::domain::subscription::{Key, parse_conn_id, parse_dag_id, parse_queue};
use crate::domain::sync::{Row, Source};

/// How long a tombstone waits for the return of its key.
pub const TOMBSTONE_KEPT_MS: i64 = 90 * 24 * 3600 * 1000;

/// Tombstones that are removed at one time: a step that no reader notices.
const PRUNED_AT_ONCE: i64 = 100;

/// What became of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switched {
    /// It is now as asked for.
    Done,
    /// It was so already.
    AlreadySo,
    /// There is no such subscription, or it is deleted.
    Unknown,
}

impl Store {
    /// All rows, tombstones included, by id.
    ///
    /// A row whose names or options cannot be understood (rows are also made by other programs) is invalid, with that reason and default
    /// options: it stops no other row.
    ///
    /// # Errors
    /// Nothing is known: keep what was read last.
    pub async fn read_subscriptions(&self) -> Result<Vec<Row>, StoreError> {
        self.call("to read subscriptions", |connection| {
            let sql = "SELECT id, dag_id, queue, conn_id, source, origin, origin_file, options, enabled, invalid, absent_cycles, \
                       deleted_at_ms, created_at_ms, updated_at_ms FROM subscriptions ORDER BY id";
            connection.prepare_cached(sql)?.query_map([], to_row)?.collect()
        })
        .await
    }

    /// Switches a subscription on or off, as people do.
    ///
    /// # Errors
    /// Nothing was changed.
    pub async fn set_enabled(&self, id: SubscriptionId, enabled: bool, now_ms: i64) -> Result<Switched, StoreError> {
        self.change("to switch a subscription", now_ms, move |connection| {
            let sql = "SELECT enabled FROM subscriptions WHERE id = ?1 AND deleted_at_ms IS NULL";
            let was: Option<bool> = connection.prepare_cached(sql)?.query_row([id.0], |row| row.get(0)).optional()?;
            match was {
                None => return Ok((Switched::Unknown, false)),
                Some(was) if was == enabled => return Ok((Switched::AlreadySo, false)),
                Some(_) => {}
            }
            let sql = "UPDATE subscriptions SET enabled = ?2, updated_at_ms = max(?3, updated_at_ms + 1) WHERE id = ?1";
            connection.prepare_cached(sql)?.execute(params![id.0, enabled, now_ms])?;
            Ok((Switched::Done, true))
        })
        .await
    }

    /// Removes tombstones older than [`TOMBSTONE_KEPT_MS`], a hundred at most; returns how many.
    ///
    /// # Errors
    /// Nothing was removed.
    pub async fn prune_tombstones(&self, now_ms: i64) -> Result<usize, StoreError> {
        self.call("to remove old tombstones", move |connection| {
            let sql = "DELETE FROM subscriptions WHERE id IN \
                       (SELECT id FROM subscriptions WHERE deleted_at_ms < ?1 ORDER BY deleted_at_ms LIMIT ?2)";
            connection.prepare_cached(sql)?.execute(params![now_ms.saturating_sub(TOMBSTONE_KEPT_MS), PRUNED_AT_ONCE])
        })
        .await
    }
}

/// A text as it stands there. Other programs may have put bytes into it that are none: those must not hide the other rows.
pub(super) fn text(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(String::from_utf8_lossy(row.get_ref(column)?.as_bytes()?).into_owned())
}

/// The same of a column that may be NULL.
pub(super) fn text_or_null(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    let is_null = matches!(row.get_ref(column)?, ValueRef::Null);
    if is_null { Ok(None) } else { text(row, column).map(Some) }
}

fn to_row(row: &SqlRow<'_>) -> rusqlite::Result<Row> {
    let (dag_id, queue, conn_id) = (text(row, 1)?, text(row, 2)?, text(row, 3)?);
    let (source, options) = (text(row, 4)?, text(row, 7)?);
    let source = Source::parse(&source).ok_or_else(|| {
        let text = format!("no source is called {source:?}");
        rusqlite::Error::FromSqlConversionFailure(4, Type::Text, text.into())
    })?;
    let names =
        parse_dag_id(&dag_id).map(drop).and(parse_queue(&queue).map(drop)).and(parse_conn_id(&conn_id).map(drop));
    let parsed = serde_json::from_str::<Options>(&options);
    let cannot_be_used = match (&names, &parsed) {
        (Err(invalid), Ok(_) | Err(_)) => Some(format!("its row cannot be used: {invalid}")),
        (Ok(()), Err(error)) => Some(format!("the options in its row cannot be used: {error}")),
        (Ok(()), Ok(_)) => None,
    };
    Ok(Row {
        id: SubscriptionId(row.get(0)?),
        key: Key { dag_id: DagId::new(dag_id), queue: QueueName::new(queue), conn_id: ConnId::new(conn_id) },
        source,
        origin: text(row, 5)?,
        origin_file: text(row, 6)?,
        options: parsed.unwrap_or_default(),
        enabled: row.get(8)?,
        invalid: cannot_be_used.or(text_or_null(row, 9)?),
        absent_cycles: u32::try_from(row.get::<_, i64>(10)?).unwrap_or(0),
        deleted_at_ms: row.get(11)?,
        created_at_ms: row.get(12)?,
        updated_at_ms: row.get(13)?,
    })
}
