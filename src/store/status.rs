//! Status rows: what people read. Written on change only.

use rusqlite::params;

use super::Store;
use crate::domain::ids::{ConnId, ConsumerTag, SubscriptionId};
use crate::domain::status::{ConnectionStatus, SubscriptionStatus};

impl Store {
    /// Writes a subscription's status. `last_error` stays as it was where `None`.
    pub async fn set_subscription_status(
        &self,
        id: SubscriptionId,
        status: SubscriptionStatus,
        last_error: Option<String>,
        tag: Option<ConsumerTag>,
        now_ms: i64,
    ) {
        self.tell("to record a status", move |connection| {
            let sql = "INSERT INTO subscription_status (subscription_id, status, last_error, consumer_tag, updated_at_ms) \
                       VALUES (?1, ?2, ?3, ?4, ?5) \
                       ON CONFLICT (subscription_id) DO UPDATE SET status = excluded.status, \
                           last_error = coalesce(excluded.last_error, last_error), consumer_tag = excluded.consumer_tag, \
                           updated_at_ms = max(excluded.updated_at_ms, updated_at_ms + 1)";
            let tag = tag.as_ref().map(ConsumerTag::as_str);
            connection.prepare_cached(sql)?.execute(params![id.0, status.code(), last_error, tag, now_ms]).map(drop)
        })
        .await;
    }

    /// Nothing is attached: after the start, whatever a killed watcher left behind, and at the stop.
    pub async fn reset_statuses(&self, now_ms: i64) {
        self.tell("to reset statuses", move |connection| {
            connection
                .prepare_cached(
                    "UPDATE subscription_status SET status = ?1, consumer_tag = NULL, \
                     updated_at_ms = max(?2, updated_at_ms + 1) WHERE status <> ?1",
                )?
                .execute(params![SubscriptionStatus::Disconnected.code(), now_ms])?;
            connection
                .prepare_cached(
                    "UPDATE connection_status SET status = ?1, updated_at_ms = max(?2, updated_at_ms + 1) WHERE status <> ?1",
                )?
                .execute(params![ConnectionStatus::Unknown.code(), now_ms])
                .map(drop)
        })
        .await;
    }

    /// Writes a connection's status. `last_error` stays as it was where `None`.
    pub async fn set_connection_status(
        &self,
        conn_id: ConnId,
        status: ConnectionStatus,
        last_error: Option<String>,
        now_ms: i64,
    ) {
        self.tell("to record a status", move |connection| {
            let sql = "INSERT INTO connection_status (conn_id, status, last_error, updated_at_ms) VALUES (?1, ?2, ?3, ?4) \
                       ON CONFLICT (conn_id) DO UPDATE SET status = excluded.status, \
                           last_error = coalesce(excluded.last_error, last_error), \
                           updated_at_ms = max(excluded.updated_at_ms, updated_at_ms + 1)";
            connection.prepare_cached(sql)?.execute(params![conn_id.as_str(), status.code(), last_error, now_ms]).map(drop)
        })
        .await;
    }

    /// Records that a cycle looked at a connection: how many consumers of ours it has.
    pub async fn connection_cycle(&self, conn_id: ConnId, consumer_count: u32, now_ms: i64) {
        self.tell("to record a cycle of a connection", move |connection| {
            let sql = "INSERT INTO connection_status (conn_id, status, consumer_count, last_reconcile_at_ms, updated_at_ms) \
                       VALUES (?1, ?2, ?3, ?4, ?4) \
                       ON CONFLICT (conn_id) DO UPDATE SET consumer_count = excluded.consumer_count, \
                           last_reconcile_at_ms = excluded.last_reconcile_at_ms, \
                           updated_at_ms = CASE WHEN consumer_count IS excluded.consumer_count THEN updated_at_ms \
                                                ELSE max(excluded.updated_at_ms, updated_at_ms + 1) END";
            let values = params![conn_id.as_str(), ConnectionStatus::Unknown.code(), consumer_count, now_ms];
            connection.prepare_cached(sql)?.execute(values).map(drop)
        })
        .await;
    }
}
