//! Subscriptions: rows that give a declaration the number that stands in `conf.subscription_id`.

use rusqlite::{Connection, params};

use super::{Store, StoreError};
use crate::domain::declaration::Declaration;
use crate::domain::ids::SubscriptionId;

impl Store {
    /// Gives every declaration its row, made where it is missing; returns the ids in the order given.
    ///
    /// # Errors
    /// Nothing was changed.
    pub async fn upsert_subscriptions(
        &self,
        declarations: Vec<Declaration>,
        now_ms: i64,
    ) -> Result<Vec<SubscriptionId>, StoreError> {
        self.call("to record subscriptions", move |connection| {
            declarations.iter().map(|declaration| upsert(connection, declaration, now_ms)).collect()
        })
        .await
    }
}

fn upsert(connection: &Connection, declaration: &Declaration, now_ms: i64) -> rusqlite::Result<SubscriptionId> {
    let sql = "INSERT INTO subscriptions (dag_id, queue, conn_id, source, origin, origin_file, options, enabled, absent_cycles, \
               created_at_ms, updated_at_ms) VALUES (?1, ?2, ?3, 'dag_file', ?4, ?6, '{}', 1, 0, ?5, ?5) \
               ON CONFLICT (dag_id, queue, conn_id) DO UPDATE SET origin = excluded.origin, \
                   updated_at_ms = CASE WHEN origin = excluded.origin THEN updated_at_ms \
                                        ELSE max(excluded.updated_at_ms, updated_at_ms + 1) END \
               RETURNING id";
    let values = params![
        declaration.dag_id.as_str(),
        declaration.queue.as_str(),
        declaration.conn_id.as_str(),
        declaration.origin.to_string(),
        now_ms,
        declaration.origin.file
    ];
    connection.prepare_cached(sql)?.query_row(values, |row| row.get(0)).map(SubscriptionId)
}
