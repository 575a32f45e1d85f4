//! What is remembered of DAGs: which were seen unpaused, since messages are dropped for such a DAG only (Airflow creates DAGs
//! paused), and since when one is not ready.

use std::collections::{HashMap, HashSet};

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

    /// Records since when a DAG is not ready; `None`: it is no more.
    ///
    /// # Errors
    /// Nothing was recorded.
    pub async fn set_not_ready(&self, dag: DagId, since_ms: Option<i64>) -> Result<(), StoreError> {
        self.call("to record since when a DAG is not ready", move |connection| {
            let done = if let Some(since_ms) = since_ms {
                let sql = "INSERT INTO not_ready (dag_id, first_seen_at_ms) VALUES (?1, ?2) \
                           ON CONFLICT (dag_id) DO UPDATE SET first_seen_at_ms = excluded.first_seen_at_ms";
                connection.prepare_cached(sql)?.execute(params![dag.as_str(), since_ms])
            } else {
                connection.prepare_cached("DELETE FROM not_ready WHERE dag_id = ?1")?.execute([dag.as_str()])
            };
            done.map(drop)
        })
        .await
    }

    /// Since when DAGs are not ready.
    ///
    /// # Errors
    /// Nothing is known.
    pub async fn load_not_ready(&self) -> Result<HashMap<DagId, i64>, StoreError> {
        self.call("to read which DAGs are not ready", |connection| {
            let mut select = connection.prepare_cached("SELECT dag_id, first_seen_at_ms FROM not_ready")?;
            select.query_map([], |row| Ok((DagId::new(text(row, 0)?), row.get(1)?)))?.collect()
        })
        .await
    }
}
