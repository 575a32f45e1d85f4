//! The tables that are shown, read a page at a time.

use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::{Map, Value};

use crate::domain::ids::{ConnId, DagId, QueueName, SubscriptionId};
use crate::domain::trust::{Baseline, Unreadable};
use crate::domain::view::{ConnectionRow, RefusalRow, SubscriptionRow, WatcherRow};

/// Rows that are read while the file is held once: a few milliseconds' worth.
const PAGE: i64 = 500;

pub(super) fn watcher(connection: &Connection) -> rusqlite::Result<Option<WatcherRow>> {
    let sql = "SELECT hostname, pid, version, started_at_ms, last_cycle_at_ms, interval_ms, budget_ms, last_error, counters, \
               stopped_at_ms FROM watchers WHERE id = 1";
    let read = |row: &Row<'_>| {
        Ok(WatcherRow {
            hostname: text(row, "hostname")?,
            pid: i32::try_from(row.get::<_, i64>("pid")?).unwrap_or(0),
            version: text(row, "version")?,
            started_at_ms: row.get("started_at_ms")?,
            last_cycle_at_ms: row.get("last_cycle_at_ms")?,
            interval_ms: row.get("interval_ms")?,
            budget_ms: row.get("budget_ms")?,
            last_error: optional_text(row, "last_error")?,
            counters: object(row, "counters").map(Value::Object)?,
            stopped_at_ms: row.get("stopped_at_ms")?,
        })
    };
    connection.query_row(sql, [], read).optional()
}

pub(super) fn subscriptions(connection: &Connection) -> rusqlite::Result<Vec<SubscriptionRow>> {
    let sql = "SELECT d.id AS key, d.dag_id, d.queue, d.conn_id, d.source, d.origin, d.options, d.enabled, d.invalid, \
               d.absent_cycles, d.deleted_at_ms, s.status, s.last_error, s.consumer_tag, s.updated_at_ms \
               FROM subscriptions d LEFT JOIN subscription_status s ON s.subscription_id = d.id \
               WHERE d.id > ?1 ORDER BY d.id LIMIT ?2";
    paged(connection, sql, Sql::Integer(i64::MIN), |row| {
        Ok(SubscriptionRow {
            id: SubscriptionId(row.get("key")?),
            dag_id: DagId::new(text(row, "dag_id")?),
            queue: QueueName::new(text(row, "queue")?),
            conn_id: ConnId::new(text(row, "conn_id")?),
            source: text(row, "source")?,
            origin: text(row, "origin")?,
            options: object(row, "options")?,
            enabled: row.get("enabled")?,
            invalid: optional_text(row, "invalid")?,
            absent_cycles: count(row.get("absent_cycles")?),
            deleted_at_ms: row.get("deleted_at_ms")?,
            status: optional_text(row, "status")?,
            last_error: optional_text(row, "last_error")?,
            consumer_tag: optional_text(row, "consumer_tag")?,
            status_at_ms: row.get("updated_at_ms")?,
        })
    })
}

pub(super) fn connections(connection: &Connection) -> rusqlite::Result<Vec<ConnectionRow>> {
    let sql = "SELECT conn_id AS key, status, last_error, consumer_count, last_reconcile_at_ms FROM connection_status \
               WHERE conn_id > ?1 ORDER BY conn_id LIMIT ?2";
    paged(connection, sql, Sql::Text(String::new()), |row| {
        Ok(ConnectionRow {
            conn_id: ConnId::new(text(row, "key")?),
            status: text(row, "status")?,
            last_error: optional_text(row, "last_error")?,
            consumer_count: row.get::<_, Option<i64>>("consumer_count")?.map(count),
            last_reconcile_at_ms: row.get("last_reconcile_at_ms")?,
        })
    })
}

pub(super) fn refusals(connection: &Connection) -> rusqlite::Result<Vec<RefusalRow>> {
    let sql = "SELECT id AS key, origin, dag_id, queue, conn_id, parameter, reason, sentence, since_ms FROM refusals \
               WHERE id > ?1 ORDER BY id LIMIT ?2";
    paged(connection, sql, Sql::Integer(i64::MIN), |row| {
        Ok(RefusalRow {
            origin: text(row, "origin")?,
            dag_id: optional_text(row, "dag_id")?.map(DagId::new),
            queue: optional_text(row, "queue")?.map(QueueName::new),
            conn_id: optional_text(row, "conn_id")?.map(ConnId::new),
            parameter: optional_text(row, "parameter")?,
            reason: text(row, "reason")?,
            sentence: text(row, "sentence")?,
            since_ms: row.get("since_ms")?,
        })
    })
}

/// A baseline that cannot be understood names nothing: the next cycle begins it anew.
pub(super) fn unreadable(connection: &Connection) -> rusqlite::Result<Vec<Unreadable>> {
    let json =
        connection.query_row("SELECT baseline FROM scan_baseline", [], |row| text(row, "baseline")).optional()?;
    let baseline: Option<Baseline> = json.and_then(|json| serde_json::from_str(&json).ok());
    Ok(baseline.unwrap_or_default().unreadable)
}

/// Reads a table in the order of its column `key`; the query takes the last key of the page before, and the page's length.
fn paged<T>(
    connection: &Connection,
    sql: &str,
    below_all: Sql,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut statement = connection.prepare(sql)?;
    let (mut all, mut after) = (Vec::new(), below_all);
    loop {
        let before = all.len();
        let mut rows = statement.query(params![after, PAGE])?;
        let mut last = None;
        while let Some(row) = rows.next()? {
            last = Some(row.get("key")?);
            all.push(read(row)?);
        }
        drop(rows);
        match last {
            Some(key) if i64::try_from(all.len() - before) == Ok(PAGE) => after = key,
            Some(_) | None => return Ok(all),
        }
    }
}

/// A text, also one that is no UTF-8: a row that somebody has damaged must not hide all others.
pub(super) fn text(row: &Row<'_>, column: &str) -> rusqlite::Result<String> {
    optional_text(row, column).map(Option::unwrap_or_default)
}

pub(super) fn optional_text(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Null => None,
    })
}

/// A count; what is none is shown as the nearest that is.
pub(super) fn count(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

/// A column that holds a JSON object. What is none is shown as it stands, under a name that says so.
fn object(row: &Row<'_>, column: &str) -> rusqlite::Result<Map<String, Value>> {
    let text = text(row, column)?;
    Ok(match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => object,
        Ok(_) | Err(_) => Map::from_iter([("unreadable".to_owned(), Value::String(text))]),
    })
}
