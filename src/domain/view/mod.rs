//! What people are shown of the state: the rows of the state file, and whether a watcher is there to vouch for them.
//!
//! [`view`] is the one place where it is decided; the command line, and whoever else shows statuses, prints what it says. No
//! status is green unless a watcher runs now whose cycles end in time: what a dead or stalled one wrote last is told, as what
//! it said last.

mod decide;
mod pick;
mod rows;
mod words;

pub use decide::view;
pub use pick::{NotPicked, may_switch, pick};
pub use rows::{ConnectionRow, Facts, Lock, RefusalRow, SubscriptionRow, WatcherRow};
pub use words::{Process, Reason, ShownConnection, ShownStatus, Tone, WatcherState};

use serde::Serialize;
use serde_json::{Map, Value};

use super::ids::{ConnId, DagId, QueueName, SubscriptionId};
use super::trust::Unreadable;

/// How many scans in a row may miss a subscription before it is deleted.
pub const MISSES_ALLOWED: u32 = 3;

/// Everything that is shown. Its JSON form is that of `rmq-watcher status --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// When it was made, UTC milliseconds.
    pub at_ms: i64,
    /// Whether anything is wrong that somebody should look at.
    pub is_well: bool,
    /// The watcher.
    pub watcher: WatcherView,
    /// The connections, by name.
    pub connections: Vec<ConnectionView>,
    /// The subscriptions that are not deleted, by DAG, queue and connection.
    pub subscriptions: Vec<SubscriptionView>,
    /// What is written down and does not run, by its place.
    pub refusals: Vec<RefusalView>,
    /// Files and directories that cannot be read, so that nobody knows what they declare, by name.
    pub unreadable: Vec<Unreadable>,
}

/// The watcher of this state directory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WatcherView {
    /// How it is.
    pub state: WatcherState,
    /// Its process; of a dead one, the last.
    pub pid: Option<i32>,
    /// What the kernel says of the process that holds the lock.
    pub process: Option<Process>,
    /// On which host.
    pub hostname: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// When it began.
    pub started_at_ms: Option<i64>,
    /// When it last ended a cycle.
    pub last_cycle_at_ms: Option<i64>,
    /// How long ago that was, in seconds.
    pub last_cycle_age_secs: Option<u64>,
    /// The oldest age of a cycle that is in order: an interval and a cycle's budget.
    pub stale_after_secs: u64,
    /// Of a dead one: the last sign of it.
    pub last_seen_at_ms: Option<i64>,
    /// Of a dead one that stopped in order: when.
    pub stopped_at_ms: Option<i64>,
    /// Why its last cycle could not do all of its work.
    pub last_error: Option<String>,
    /// What it has counted since its start.
    pub counters: Value,
}

/// One connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConnectionView {
    /// Its id in Airflow.
    pub conn_id: ConnId,
    /// What is shown.
    pub status: ShownConnection,
    /// What it said last, where nobody vouches for it now.
    pub said: Option<String>,
    /// The last trouble, also when it is over.
    pub last_error: Option<String>,
    /// Consumers that the watcher holds over it; `null`: not known.
    pub consumers: Option<u32>,
    /// When a cycle last looked at it.
    pub last_reconcile_at_ms: Option<i64>,
    /// How long ago that was, in seconds.
    pub last_reconcile_age_secs: Option<u64>,
    /// That age is older than an interval and a cycle's budget.
    pub is_stale: bool,
    /// An enabled subscription names it. One that none names is not looked at any more and grows stale.
    pub is_in_use: bool,
}

/// One subscription.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SubscriptionView {
    /// Its number, which stands in `conf.subscription_id`.
    pub id: SubscriptionId,
    /// The DAG that a message starts.
    pub dag_id: DagId,
    /// The queue that is consumed.
    pub queue: QueueName,
    /// Over which connection.
    pub conn_id: ConnId,
    /// Who made it: `dag_file` or `ui`.
    pub source: String,
    /// Where it is written.
    pub origin: String,
    /// Whether people have left it switched on.
    pub enabled: bool,
    /// What is shown.
    pub status: ShownStatus,
    /// Why that is shown, where it is not what the watcher says now.
    pub reason: Option<Reason>,
    /// What it said last, where nobody vouches for it now.
    pub said: Option<String>,
    /// Of an invalid one: the sentence of its refusal.
    pub refusal: Option<String>,
    /// The last trouble, also when it is over.
    pub last_error: Option<String>,
    /// When its status last changed.
    pub changed_at_ms: Option<i64>,
    /// The tag of the consumer that is held now.
    pub consumer_tag: Option<String>,
    /// Scans in a row that did not find it; after [`MISSES_ALLOWED`] the next one deletes it.
    pub misses: u32,
    /// The options that differ from their defaults.
    pub options: Map<String, Value>,
}

/// Something that is written down and does not run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RefusalView {
    /// Where it is written.
    pub origin: String,
    /// The DAG, where it could be read.
    pub dag_id: Option<DagId>,
    /// The queue, where it could be read.
    pub queue: Option<QueueName>,
    /// The connection, where it could be read.
    pub conn_id: Option<ConnId>,
    /// The argument at fault, where it is one.
    pub parameter: Option<String>,
    /// The stable name of the reason.
    pub reason: String,
    /// The whole sentence.
    pub sentence: String,
    /// Since when.
    pub since_ms: i64,
    /// Always `invalid`.
    pub status: ShownStatus,
    /// The subscriptions that are invalid for it, and show its sentence themselves.
    pub subscriptions: Vec<SubscriptionId>,
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests;
