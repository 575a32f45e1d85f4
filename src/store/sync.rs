//! Writing what a scan changes: one transaction, each row under its own condition.

use rusqlite::{Connection, ErrorCode, params};

use super::{Store, StoreError, refusals, trust};
use crate::domain::declaration::{Declaration, Refusal};
use crate::domain::options::Options;
use crate::domain::sync::RowChange;
use crate::domain::trust::Baseline;

/// What a trusted scan leaves behind.
#[derive(Clone, Debug, Default)]
pub struct ToWrite {
    /// What to do with rows.
    pub changes: Vec<RowChange>,
    /// What is written down and does not run: replaces what was there.
    pub refusals: Vec<Refusal>,
    /// What is remembered of the folder.
    pub baseline: Baseline,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncResult {
    /// It is in the file: for each change what became of it, in the order given.
    Applied(Vec<Written>),
    /// A newer trusted scan was there before the end; nothing of this one is in the file.
    Superseded,
}

/// What became of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in the file.
    Done,
    /// The row is not any more as it was read: left as it is.
    Stale,
    /// The file does not take it; no other row is affected. A clause for people.
    Refused(String),
}

impl Store {
    /// Writes what a scan changes, in one transaction. `is_current` is asked at its end: whether no newer trusted scan exists.
    ///
    /// # Errors
    /// Nothing was changed.
    ///
    /// # Cancel safety
    /// Dropping the future does not take it back: let `is_current` answer `false` instead.
    pub async fn apply_sync(
        &self,
        sync: ToWrite,
        is_current: impl Fn() -> bool + Send + 'static,
        now_ms: i64,
    ) -> Result<SyncResult, StoreError> {
        self.change("to update subscriptions", now_ms, move |connection| {
            connection.prepare_cached("SAVEPOINT sync")?.execute([])?;
            let written = write(connection, &sync, now_ms)?;
            let result = if is_current() {
                SyncResult::Applied(written)
            } else {
                connection.prepare_cached("ROLLBACK TO sync")?.execute([])?;
                SyncResult::Superseded
            };
            connection.prepare_cached("RELEASE sync")?.execute([])?;
            let changed = match &result {
                SyncResult::Applied(written) => written.contains(&Written::Done),
                SyncResult::Superseded => false,
            };
            Ok((result, changed))
        })
        .await
    }
}

fn write(connection: &Connection, sync: &ToWrite, now_ms: i64) -> rusqlite::Result<Vec<Written>> {
    let changes = sync.changes.iter().map(|change| write_one(connection, change, now_ms));
    let written = changes.collect::<rusqlite::Result<Vec<Written>>>()?;
    refusals::replace(connection, &sync.refusals, now_ms)?;
    trust::save(connection, &sync.baseline, now_ms)?;
    Ok(written)
}

/// A value that the file does not take must not stop the other rows; a file that takes nothing stops them all.
fn write_one(connection: &Connection, change: &RowChange, now_ms: i64) -> rusqlite::Result<Written> {
    connection.prepare_cached("SAVEPOINT one_row")?.execute([])?;
    let written = match apply(connection, change, now_ms) {
        Ok(true) => Written::Done,
        Ok(false) => Written::Stale,
        Err(error) if is_about_the_row(&error) => {
            connection.prepare_cached("ROLLBACK TO one_row")?.execute([])?;
            Written::Refused(error.to_string())
        }
        Err(error) => return Err(error),
    };
    connection.prepare_cached("RELEASE one_row")?.execute([])?;
    Ok(written)
}

fn is_about_the_row(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::ConstraintViolation
                | ErrorCode::TooBig
                | ErrorCode::TypeMismatch
                | ErrorCode::ParameterOutOfRange
        )
    ) || matches!(error, rusqlite::Error::ToSqlConversionFailure(_))
}

/// Whether the row was still as it was read, and is now as it should be.
fn apply(connection: &Connection, change: &RowChange, now_ms: i64) -> rusqlite::Result<bool> {
    let execute =
        |sql, values: &[&dyn rusqlite::ToSql]| connection.prepare_cached(sql)?.execute(values).map(|rows| rows > 0);
    match change {
        RowChange::Insert { declaration } => insert(connection, declaration, now_ms),
        RowChange::Revive { id, declaration } => {
            let sql = "UPDATE subscriptions SET source = 'dag_file', origin = ?2, origin_file = ?3, options = ?4, invalid = NULL, \
                       absent_cycles = 0, deleted_at_ms = NULL, updated_at_ms = max(?5, updated_at_ms + 1) \
                       WHERE id = ?1 AND deleted_at_ms IS NOT NULL";
            let Declaration { options, origin, .. } = declaration;
            execute(sql, params![id.0, origin.to_string(), origin.file, to_json(options)?, now_ms])
        }
        RowChange::Update { id, declaration } => {
            let sql = "UPDATE subscriptions SET origin = ?2, origin_file = ?3, options = ?4, invalid = NULL, \
                       updated_at_ms = max(?5, updated_at_ms + 1) \
                       WHERE id = ?1 AND deleted_at_ms IS NULL AND source = 'dag_file'";
            let Declaration { options, origin, .. } = declaration;
            execute(sql, params![id.0, origin.to_string(), origin.file, to_json(options)?, now_ms])
        }
        RowChange::Invalidate { id, reason } => {
            let sql = "UPDATE subscriptions SET invalid = ?2, updated_at_ms = max(?3, updated_at_ms + 1) \
                       WHERE id = ?1 AND deleted_at_ms IS NULL AND source = 'dag_file'";
            execute(sql, params![id.0, reason, now_ms])
        }
        RowChange::Reset { id, absent_cycles } => count(connection, id.0, *absent_cycles, 0, now_ms),
        RowChange::Miss { id, absent_cycles } => {
            count(connection, id.0, *absent_cycles, absent_cycles.saturating_add(1), now_ms)
        }
        RowChange::Delete { id, absent_cycles, only_enabled } => {
            let sql = "UPDATE subscriptions SET deleted_at_ms = ?4, absent_cycles = 0, updated_at_ms = max(?4, updated_at_ms + 1) \
                       WHERE id = ?1 AND deleted_at_ms IS NULL AND source = 'dag_file' AND absent_cycles = ?2 \
                       AND (enabled = 1 OR NOT ?3)";
            let deleted = execute(sql, params![id.0, absent_cycles, only_enabled, now_ms])?;
            if deleted {
                execute("DELETE FROM subscription_status WHERE subscription_id = ?1", params![id.0])?;
            }
            Ok(deleted)
        }
    }
}

fn insert(connection: &Connection, declaration: &Declaration, now_ms: i64) -> rusqlite::Result<bool> {
    let Declaration { dag_id, queue, conn_id, options, origin } = declaration;
    let sql = "INSERT INTO subscriptions (dag_id, queue, conn_id, source, origin, origin_file, options, enabled, absent_cycles, \
               created_at_ms, updated_at_ms) VALUES (?1, ?2, ?3, 'dag_file', ?4, ?5, ?6, 1, 0, ?7, ?7) \
               ON CONFLICT (dag_id, queue, conn_id) DO NOTHING";
    let values = params![
        dag_id.as_str(),
        queue.as_str(),
        conn_id.as_str(),
        origin.to_string(),
        origin.file,
        to_json(options)?,
        now_ms
    ];
    connection.prepare_cached(sql)?.execute(values).map(|rows| rows > 0)
}

fn count(connection: &Connection, id: i64, seen: u32, becomes: u32, now_ms: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE subscriptions SET absent_cycles = ?3, updated_at_ms = max(?4, updated_at_ms + 1) \
               WHERE id = ?1 AND deleted_at_ms IS NULL AND source = 'dag_file' AND absent_cycles = ?2";
    connection.prepare_cached(sql)?.execute(params![id, seen, becomes, now_ms]).map(|rows| rows > 0)
}

fn to_json(options: &Options) -> rusqlite::Result<String> {
    serde_json::to_string(options).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}
