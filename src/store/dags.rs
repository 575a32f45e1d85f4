//! Which DAGs were seen unpaused: messages are dropped for such a DAG only, since Airflow creates DAGs paused.

use std::collections::HashSet;

use rusqlite::params;

use super::subscriptions::text;
use super::{Store, StoreError};
use crate::domain::ids::DagId;

impl Store {
    /// Remembers that these DAGs were unpaused. Those that are known already cost nothing.
    ///
    /// # Errors
    /// Nothing was recorded.
    pub async fn seen_unpaused(&self, dags: Vec<DagId>, now_ms: i64) -> Result<(), StoreError> {
        self.call("to record which DAGs were unpaused", move |connection| {
            let sql = "INSERT INTO dags (dag_id, seen_unpaused_at_ms) VALUES (?1, ?2) ON CONFLICT (dag_id) DO NOTHING";
            let mut insert = connection.prepare_cached(sql)?;
            dags.iter().try_for_each(|dag| insert.execute(params![dag.as_str(), now_ms]).map(drop))
        })
        .await
    }

    /// Forgets these DAGs: Airflow has them no more, and the next of their name is another.
    ///
    /// # Errors
    /// Nothing was recorded.
    pub async fn forget_unpaused(&self, dags: Vec<DagId>) -> Result<(), StoreError> {
        self.call("to forget DAGs that are gone", move |connection| {
            let mut delete = connection.prepare_cached("DELETE FROM dags WHERE dag_id = ?1")?;
            dags.iter().try_for_each(|dag| delete.execute([dag.as_str()]).map(drop))
        })
        .await
    }

    /// Every DAG that was ever seen unpaused.
    ///
    /// # Errors
    /// Nothing is known: drop nothing.
    pub async fn load_seen_unpaused(&self) -> Result<HashSet<DagId>, StoreError> {
        self.call("to read which DAGs were unpaused", |connection| {
            let mut select = connection.prepare_cached("SELECT dag_id FROM dags")?;
            select.query_map([], |row| text(row, 0).map(DagId::new))?.collect()
        })
        .await
    }
}
