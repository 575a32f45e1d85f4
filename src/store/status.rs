//! Status rows: what people read. Written on change only; what the file refuses is kept and written again, see `unwritten`.

use std::collections::BTreeSet;

use rusqlite::params;

use super::Store;
use super::unwritten::{Place, Standing, StatusRow};
use crate::domain::ids::{ConnId, ConsumerTag, SubscriptionId};
use crate::domain::status::{ConnectionStatus, SubscriptionStatus};

impl Store {
    /// Writes a subscription's status. `last_error` stays as it was where `None`. See [`Store::flush_statuses`].
    pub async fn set_subscription_status(
        &self,
        id: SubscriptionId,
        status: SubscriptionStatus,
        last_error: Option<String>,
        tag: Option<ConsumerTag>,
        now_ms: i64,
    ) {
        let row = StatusRow { standing: Standing::Subscription(status, tag), last_error, now_ms };
        self.keep_status(Place::Subscription(id), row).await;
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

    /// Writes a connection's status. `last_error` stays as it was where `None`. See [`Store::flush_statuses`].
    pub async fn set_connection_status(
        &self,
        conn_id: ConnId,
        status: ConnectionStatus,
        last_error: Option<String>,
        now_ms: i64,
    ) {
        let row = StatusRow { standing: Standing::Connection(status), last_error, now_ms };
        self.keep_status(Place::Connection(conn_id), row).await;
    }

    /// Records that a cycle looked at a connection: how many consumers of ours are held over it. Without one nothing says that it
    /// stands, so it is no longer `connected`; what kept it from standing is not over by that.
    pub async fn connection_cycle(&self, conn_id: ConnId, consumer_count: u32, now_ms: i64) {
        self.tell("to record a cycle of a connection", move |connection| {
            let sql = "INSERT INTO connection_status (conn_id, status, consumer_count, last_reconcile_at_ms, updated_at_ms) \
                       VALUES (?1, ?2, ?3, ?4, ?4) \
                       ON CONFLICT (conn_id) DO UPDATE SET consumer_count = excluded.consumer_count, \
                           status = CASE WHEN excluded.consumer_count = 0 AND status = ?5 THEN ?2 ELSE status END, \
                           last_reconcile_at_ms = excluded.last_reconcile_at_ms, \
                           updated_at_ms = CASE WHEN consumer_count IS excluded.consumer_count AND NOT (excluded.consumer_count = 0 AND status = ?5) \
                                                THEN updated_at_ms \
                                                ELSE max(excluded.updated_at_ms, updated_at_ms + 1) END";
            let (unknown, connected) = (ConnectionStatus::Unknown.code(), ConnectionStatus::Connected.code());
            let values = params![conn_id.as_str(), unknown, consumer_count, now_ms, connected];
            connection.prepare_cached(sql)?.execute(values).map(drop)
        })
        .await;
    }

    /// Nothing is known any more of connections other than these: nobody uses them.
    pub async fn connections_left(&self, in_use: BTreeSet<ConnId>, now_ms: i64) {
        self.tell("to record that a connection is not used", move |connection| {
            let names: Vec<&str> = in_use.iter().map(ConnId::as_str).collect();
            let names = serde_json::Value::from(names).to_string();
            let sql = "UPDATE connection_status SET status = ?1, consumer_count = 0, updated_at_ms = max(?2, updated_at_ms + 1) \
                       WHERE (status <> ?1 OR consumer_count <> 0) AND conn_id NOT IN (SELECT value FROM json_each(?3))";
            let values = params![ConnectionStatus::Unknown.code(), now_ms, names];
            connection.prepare_cached(sql)?.execute(values).map(drop)
        })
        .await;
    }
}
