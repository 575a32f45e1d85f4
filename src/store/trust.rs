//! What is remembered of the DAG folder: one row of JSON.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::subscriptions::text;
use super::{Store, StoreError};
use crate::domain::trust::Baseline;

impl Store {
    /// What was remembered; `None` where nothing was, or where it cannot be understood and is begun anew.
    ///
    /// # Errors
    /// Nothing is known: do not judge a scan without it.
    pub async fn load_baseline(&self) -> Result<Option<Baseline>, StoreError> {
        self.call("to read what the DAG folder held", |connection| {
            Ok(stored(connection)?.and_then(|json| serde_json::from_str(&json).ok()))
        })
        .await
    }

    /// Remembers it, where a scan was not trusted and so changes nothing else.
    ///
    /// # Errors
    /// Nothing was changed.
    pub async fn save_baseline(&self, baseline: Baseline, now_ms: i64) -> Result<(), StoreError> {
        self.call("to record what the DAG folder holds", move |connection| save(connection, &baseline, now_ms)).await
    }
}

fn stored(connection: &Connection) -> rusqlite::Result<Option<String>> {
    connection.prepare_cached("SELECT baseline FROM scan_baseline")?.query_row([], |row| text(row, 0)).optional()
}

/// Written only where it differs: a cycle in which nothing happens writes nothing.
pub(super) fn save(connection: &Connection, baseline: &Baseline, now_ms: i64) -> rusqlite::Result<()> {
    let json =
        serde_json::to_string(baseline).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let sql = "INSERT INTO scan_baseline (id, baseline, updated_at_ms) VALUES (1, ?1, ?2) \
               ON CONFLICT (id) DO UPDATE SET baseline = excluded.baseline, \
                   updated_at_ms = max(excluded.updated_at_ms, updated_at_ms + 1) WHERE baseline <> excluded.baseline";
    connection.prepare_cached(sql)?.execute(params![json, now_ms]).map(drop)
}
