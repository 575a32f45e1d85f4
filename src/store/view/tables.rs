//! The tables that are shown, read a page at a time.

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::{Map, Value};

use crate::domain::ids::{ConnId, DagId, QueueName, SubscriptionId};
use crate::domain::view::{ConnectionRow, RefusalRow, SubscriptionRow, WatcherRow};

/// Rows that are read while the file is held once: a few milliseconds' worth.
const PAGE: i64 = 500;

pub(super) fn watcher(connection: &Connection) -> rusqlite::Result<Option<WatcherRow>> {
    let sql = "SELECT hostname, pid, version, started_at_ms, last_cycle_at_ms, interval_ms, budget_ms, last_error, counters, \
               stopped_at_ms FROM watchers WHERE id = 1";
    let read = |row: &Row<'_>| {
        Ok(WatcherRow {
            hostname: row.get("hostname")?,
            pid: row.get("pid")?,
            version: row.get("version")?,
            started_at_ms: row.get("started_at_ms")?,
            last_cycle_at_ms: row.get("last_cycle_at_ms")?,
            interval_ms: row.get("interval_ms")?,
            budget_ms: row.get("budget_ms")?,
            last_error: row.get("last_error")?,
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
            dag_id: DagId::new(row.get::<_, String>("dag_id")?),
            queue: QueueName::new(row.get::<_, String>("queue")?),
            conn_id: ConnId::new(row.get::<_, String>("conn_id")?),
            source: row.get("source")?,
            origin: row.get("origin")?,
            options: object(row, "options")?,
            enabled: row.get("enabled")?,
            invalid: row.get("invalid")?,
            absent_cycles: row.get("absent_cycles")?,
            deleted_at_ms: row.get("deleted_at_ms")?,
            status: row.get("status")?,
            last_error: row.get("last_error")?,
            consumer_tag: row.get("consumer_tag")?,
            status_at_ms: row.get("updated_at_ms")?,
        })
    })
}

pub(super) fn connections(connection: &Connection) -> rusqlite::Result<Vec<ConnectionRow>> {
    let sql = "SELECT conn_id AS key, status, last_error, consumer_count, last_reconcile_at_ms FROM connection_status \
               WHERE conn_id > ?1 ORDER BY conn_id LIMIT ?2";
    paged(connection, sql, Sql::Text(String::new()), |row| {
        Ok(ConnectionRow {
            conn_id: ConnId::new(row.get::<_, String>("key")?),
            status: row.get("status")?,
            last_error: row.get("last_error")?,
            consumer_count: row.get("consumer_count")?,
            last_reconcile_at_ms: row.get("last_reconcile_at_ms")?,
        })
    })
}

pub(super) fn refusals(connection: &Connection) -> rusqlite::Result<Vec<RefusalRow>> {
    let sql = "SELECT id AS key, origin, dag_id, queue, conn_id, parameter, reason, sentence, since_ms FROM refusals \
               WHERE id > ?1 ORDER BY id LIMIT ?2";
    paged(connection, sql, Sql::Integer(i64::MIN), |row| {
        Ok(RefusalRow {
            origin: row.get("origin")?,
            dag_id: row.get::<_, Option<String>>("dag_id")?.map(DagId::new),
            queue: row.get::<_, Option<String>>("queue")?.map(QueueName::new),
            conn_id: row.get::<_, Option<String>>("conn_id")?.map(ConnId::new),
            parameter: row.get("parameter")?,
            reason: row.get("reason")?,
            sentence: row.get("sentence")?,
            since_ms: row.get("since_ms")?,
        })
    })
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

/// A column that holds a JSON object. What is none is shown as it stands, under a name that says so.
fn object(row: &Row<'_>, column: &str) -> rusqlite::Result<Map<String, Value>> {
    let text: String = row.get(column)?;
    Ok(match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => object,
        Ok(_) | Err(_) => Map::from_iter([("unreadable".to_owned(), Value::String(text))]),
    })
}
