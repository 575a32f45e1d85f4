//! The state file's rows, and the lock, as they were read.

use serde_json::{Map, Value};

use super::words::Process;
use crate::domain::ids::{ConnId, DagId, QueueName, SubscriptionId};
use crate::domain::trust::Unreadable;

/// All that [`view`](super::view) looks at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The lock of the state directory.
    pub lock: Lock,
    /// The watcher that wrote last; `None`: none has.
    pub watcher: Option<WatcherRow>,
    /// All subscriptions, tombstones too.
    pub subscriptions: Vec<SubscriptionRow>,
    /// The connections.
    pub connections: Vec<ConnectionRow>,
    /// The refusals.
    pub refusals: Vec<RefusalRow>,
    /// What the scan that was believed last could not read.
    pub unreadable: Vec<Unreadable>,
}

/// The lock of a state directory; whoever holds it is the watcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lock {
    /// Nobody holds it.
    #[default]
    Free,
    /// A process holds it.
    Held {
        /// The process that wrote its number into the file, as its own PID namespace counts.
        pid: Option<i32>,
        /// What the kernel says of that process.
        process: Process,
        /// When it was taken, as far as can be told.
        since_ms: Option<i64>,
    },
}

/// The one row of `watchers`.
#[derive(Clone, Debug, PartialEq)]
pub struct WatcherRow {
    /// On which host.
    pub hostname: String,
    /// Its process.
    pub pid: i32,
    /// Its version.
    pub version: String,
    /// When it began.
    pub started_at_ms: i64,
    /// When it last ended a cycle.
    pub last_cycle_at_ms: Option<i64>,
    /// The wait between two cycles.
    pub interval_ms: i64,
    /// How long one cycle may take.
    pub budget_ms: i64,
    /// Why its last cycle could not do all of its work.
    pub last_error: Option<String>,
    /// What it has counted since its start.
    pub counters: Value,
    /// When it stopped, in order.
    pub stopped_at_ms: Option<i64>,
}

/// A row of `subscriptions` with its status.
#[derive(Clone, Debug, PartialEq)]
pub struct SubscriptionRow {
    /// Its number.
    pub id: SubscriptionId,
    /// The DAG.
    pub dag_id: DagId,
    /// The queue.
    pub queue: QueueName,
    /// The connection.
    pub conn_id: ConnId,
    /// Who made it.
    pub source: String,
    /// Where it is written.
    pub origin: String,
    /// What differs from the defaults.
    pub options: Map<String, Value>,
    /// Whether it is switched on.
    pub enabled: bool,
    /// Why it must not run: the sentence of its refusal.
    pub invalid: Option<String>,
    /// Scans in a row that missed it.
    pub absent_cycles: u32,
    /// When it was deleted.
    pub deleted_at_ms: Option<i64>,
    /// The status as written; `None`: none was.
    pub status: Option<String>,
    /// The last trouble.
    pub last_error: Option<String>,
    /// The tag of its consumer.
    pub consumer_tag: Option<String>,
    /// When the status last changed.
    pub status_at_ms: Option<i64>,
}

/// A row of `connection_status`.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionRow {
    /// Its id.
    pub conn_id: ConnId,
    /// The status as written.
    pub status: String,
    /// The last trouble.
    pub last_error: Option<String>,
    /// Consumers that the watcher holds over it.
    pub consumer_count: Option<u32>,
    /// When a cycle last looked.
    pub last_reconcile_at_ms: Option<i64>,
}

/// A row of `refusals`.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusalRow {
    /// Where it is written.
    pub origin: String,
    /// The DAG.
    pub dag_id: Option<DagId>,
    /// The queue.
    pub queue: Option<QueueName>,
    /// The connection.
    pub conn_id: Option<ConnId>,
    /// The argument at fault.
    pub parameter: Option<String>,
    /// The stable name of the reason.
    pub reason: String,
    /// The whole sentence.
    pub sentence: String,
    /// Since when.
    pub since_ms: i64,
}
