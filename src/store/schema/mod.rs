//! Tables and their migrations.
//!
//! What do we store, and who else knows it?
//! - `ledger`, `epochs`: what became of each delivery. Nobody else knows it; losing it costs doubles of messages without
//!   ids, never a loss. It is what makes a kill at any moment harmless.
//! - `numbers`: the highest number of the rows that were removed, for each target of a queue, so that none is given out twice.
//! - `kept`: refused messages, whole; the only copy where there is no dead-letter exchange.
//! - `attempts`, `verdicts`: what went wrong on the way to a run, and which filters said no. For people; losing them costs nothing.
//! - `subscriptions`: the ids that stand in `conf.subscription_id`, what people switched off, and how often each was missed; the
//!   declarations themselves are in the DAG files. A row that was deleted stays as a tombstone.
//! - `refusals`: what is written down and does not run, as the last trusted scan found it.
//! - `scan_baseline`: what the DAG folder is known to have held, so that a restart into a half-mounted volume is noticed.
//! - `airflow`: which API answered last, so that a start before Airflow reads ignore files as it will.
//! - `dags`: which DAGs were seen unpaused, since messages are dropped for such a DAG only.
//! - `not_ready`: since when a DAG is not ready, so that a restart does not begin to wait anew.
//! - `restorations`: that the ledger's past is lost, because a broken file was moved aside (`moved_aside` names it) or the file was
//!   missing (`moved_aside` is empty).
//! - `watchers`: who runs on this file and when its last cycle ended: one row.
//! - `subscription_status`, `connection_status`: for people and the command line; derived, rewritten on every change.
//!
//! Times are UTC milliseconds in `*_at_ms`. Enums are text with a CHECK. `PRAGMA user_version` is the only version; a
//! migration is closed once released.

mod v1;
mod v2;
mod v3;

/// All migrations, the first one making version 1.
pub(super) const MIGRATIONS: &[&str] = &[v1::V1, v2::V2, v3::V3];

/// The version this program writes.
pub(super) fn current_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).expect("a handful of migrations")
}
