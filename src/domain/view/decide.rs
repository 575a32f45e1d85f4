//! From the rows and the lock to what is shown.

use std::collections::BTreeSet;

use super::rows::{ConnectionRow, Facts, Lock, RefusalRow, SubscriptionRow, WatcherRow};
use super::words::{Process, Reason, ShownConnection, ShownStatus, Tone, WatcherState};
use super::{ConnectionView, RefusalView, SubscriptionView, View, WatcherView};
use crate::domain::ids::ConnId;

/// Of a watcher that has not said so: the default interval and budget, in milliseconds.
const USUAL_INTERVAL_MS: i64 = 60_000;
const USUAL_BUDGET_MS: i64 = 300_000;

/// Decides what is shown at `now_ms`.
pub fn view(facts: Facts, now_ms: i64) -> View {
    let Facts { lock, watcher, subscriptions, connections, refusals, unreadable } = facts;
    let stale_after_ms = watcher.as_ref().map_or(USUAL_INTERVAL_MS + USUAL_BUDGET_MS, stale_after);
    let clock = Clock { now_ms, stale_after_ms };
    let watcher = see_watcher(&lock, watcher, clock);
    let mut subscriptions: Vec<SubscriptionView> = subscriptions
        .into_iter()
        .filter(|row| row.deleted_at_ms.is_none())
        .map(|row| see_subscription(row, watcher.state))
        .collect();
    subscriptions.sort_by(|a, b| (&a.dag_id, &a.queue, &a.conn_id).cmp(&(&b.dag_id, &b.queue, &b.conn_id)));
    let in_use: BTreeSet<ConnId> =
        subscriptions.iter().filter(|row| row.enabled).map(|row| row.conn_id.clone()).collect();
    let connections = see_connections(connections, in_use, watcher.state, clock);
    let mut refusals: Vec<RefusalView> = refusals.into_iter().map(|row| see_refusal(row, &subscriptions)).collect();
    refusals.sort_by(|a, b| a.origin.cmp(&b.origin));
    let is_well = watcher.state.tone() == Tone::Good
        && watcher.last_error.is_none()
        && refusals.is_empty()
        && unreadable.is_empty()
        && subscriptions.iter().all(|row| row.status.tone() != Tone::Bad)
        && connections.iter().all(|row| !row.is_in_use || (row.status.tone() != Tone::Bad && !row.is_stale));
    View { at_ms: now_ms, is_well, watcher, connections, subscriptions, refusals, unreadable }
}

#[derive(Clone, Copy)]
struct Clock {
    now_ms: i64,
    stale_after_ms: i64,
}

impl Clock {
    fn age_ms(self, at_ms: i64) -> i64 {
        self.now_ms.saturating_sub(at_ms).max(0)
    }

    fn age_secs(self, at_ms: i64) -> u64 {
        secs(self.age_ms(at_ms))
    }

    fn is_stale(self, at_ms: i64) -> bool {
        self.age_ms(at_ms) > self.stale_after_ms
    }
}

fn secs(ms: i64) -> u64 {
    u64::try_from(ms / 1000).unwrap_or(0)
}

fn stale_after(row: &WatcherRow) -> i64 {
    row.interval_ms.saturating_add(row.budget_ms).max(0)
}

fn see_watcher(lock: &Lock, row: Option<WatcherRow>, clock: Clock) -> WatcherView {
    match lock {
        Lock::Free => {
            let last_seen_at_ms = row.as_ref().map(last_sign);
            let mut seen = described(WatcherState::Dead, row, clock);
            seen.last_seen_at_ms = last_seen_at_ms;
            seen
        }
        Lock::Held { pid, process, since_ms } => {
            let own = row.filter(|row| is_holders(row, *pid, *since_ms));
            let (before, sign) = match &own {
                Some(row) => (WatcherState::Running, Some(row.last_cycle_at_ms.unwrap_or(row.started_at_ms))),
                None => (WatcherState::Starting, *since_ms),
            };
            // A process that is stopped has its last cycle behind it, however young that is.
            let is_stalled = *process == Process::Stopped || sign.is_some_and(|at_ms| clock.is_stale(at_ms));
            let state = if is_stalled { WatcherState::Stalled } else { before };
            let mut seen = described(state, own, clock);
            seen.pid = pid.or(seen.pid);
            seen.process = Some(*process);
            seen
        }
    }
}

/// Whether the row is of the process that holds the lock. In containers a new watcher often has the PID of the last one, so
/// the row must also be as young as the lock. A watcher that has said that it stops is leaving, and vouches for nothing.
fn is_holders(row: &WatcherRow, pid: Option<i32>, since_ms: Option<i64>) -> bool {
    row.stopped_at_ms.is_none()
        && pid.is_none_or(|pid| pid == row.pid)
        && since_ms.is_none_or(|since_ms| last_sign(row) >= since_ms)
}

fn last_sign(row: &WatcherRow) -> i64 {
    let ended = row.last_cycle_at_ms.max(row.stopped_at_ms);
    ended.map_or(row.started_at_ms, |at_ms| at_ms.max(row.started_at_ms))
}

fn described(state: WatcherState, row: Option<WatcherRow>, clock: Clock) -> WatcherView {
    let mut seen = WatcherView {
        state,
        pid: None,
        process: None,
        hostname: None,
        version: None,
        started_at_ms: None,
        last_cycle_at_ms: None,
        last_cycle_age_secs: None,
        stale_after_secs: secs(clock.stale_after_ms),
        last_seen_at_ms: None,
        stopped_at_ms: None,
        last_error: None,
        counters: serde_json::Value::Object(serde_json::Map::new()),
    };
    if let Some(row) = row {
        seen.pid = Some(row.pid);
        seen.hostname = Some(row.hostname);
        seen.version = Some(row.version);
        seen.started_at_ms = Some(row.started_at_ms);
        seen.last_cycle_at_ms = row.last_cycle_at_ms;
        seen.last_cycle_age_secs = row.last_cycle_at_ms.map(|at_ms| clock.age_secs(at_ms));
        seen.stopped_at_ms = row.stopped_at_ms;
        seen.last_error = row.last_error;
        seen.counters = row.counters;
    }
    seen
}

fn see_subscription(row: SubscriptionRow, watcher: WatcherState) -> SubscriptionView {
    let written = row.status.as_deref();
    let (status, reason) = if row.invalid.is_some() {
        (ShownStatus::Invalid, Some(Reason::Refused))
    } else if !row.enabled {
        (ShownStatus::Disconnected, Some(Reason::Disabled))
    } else {
        match watcher {
            WatcherState::Dead => (ShownStatus::Disconnected, Some(Reason::WatcherDead)),
            WatcherState::Starting => (ShownStatus::Disconnected, Some(Reason::WatcherStarting)),
            // It may hold its consumer still, or not: what it said is no longer known to be true.
            WatcherState::Stalled => (ShownStatus::Error, Some(Reason::WatcherStalled)),
            WatcherState::Running => (vouched(written, row.consumer_tag.is_some()), None),
        }
    };
    let is_vouched = reason.is_none();
    let said = match reason {
        Some(Reason::WatcherDead | Reason::WatcherStalled | Reason::WatcherStarting) => row.status.clone(),
        // A word that is not known is told as it stands.
        None if status == ShownStatus::Unknown => row.status.clone(),
        Some(Reason::Disabled | Reason::Refused) | None => None,
    };
    SubscriptionView {
        id: row.id,
        dag_id: row.dag_id,
        queue: row.queue,
        conn_id: row.conn_id,
        source: row.source,
        origin: row.origin,
        enabled: row.enabled,
        status,
        reason,
        said,
        refusal: row.invalid,
        last_error: row.last_error,
        changed_at_ms: row.status_at_ms,
        consumer_tag: row.consumer_tag.filter(|_| is_vouched),
        misses: row.absent_cycles,
        options: row.options,
    }
}

/// What a running watcher says: on the way until it has said anything, and never green without a tag.
fn vouched(written: Option<&str>, has_tag: bool) -> ShownStatus {
    match written.map_or(ShownStatus::Connecting, ShownStatus::read) {
        status if status.tone() == Tone::Good && !has_tag => ShownStatus::Connecting,
        status => status,
    }
}

/// The connections that have a row, and those that an enabled subscription names.
fn see_connections(
    rows: Vec<ConnectionRow>,
    in_use: BTreeSet<ConnId>,
    watcher: WatcherState,
    clock: Clock,
) -> Vec<ConnectionView> {
    let without_row = in_use.iter().filter(|conn_id| rows.iter().all(|row| row.conn_id != **conn_id));
    let unwritten: Vec<ConnectionRow> = without_row
        .map(|conn_id| ConnectionRow {
            conn_id: conn_id.clone(),
            status: ShownConnection::Unknown.code().to_owned(),
            last_error: None,
            consumer_count: None,
            last_reconcile_at_ms: None,
        })
        .collect();
    let all = rows.into_iter().chain(unwritten);
    let mut seen: Vec<ConnectionView> =
        all.map(|row| see_connection(in_use.contains(&row.conn_id), row, watcher, clock)).collect();
    seen.sort_by(|a, b| a.conn_id.cmp(&b.conn_id));
    seen
}

fn see_connection(is_in_use: bool, row: ConnectionRow, watcher: WatcherState, clock: Clock) -> ConnectionView {
    let is_vouched = watcher == WatcherState::Running;
    let written = ShownConnection::read(&row.status);
    let is_known = written.code() == row.status;
    let said = (!is_known || (!is_vouched && written != ShownConnection::Unknown)).then_some(row.status);
    ConnectionView {
        conn_id: row.conn_id,
        status: if is_vouched { written } else { ShownConnection::Unknown },
        said,
        last_error: row.last_error,
        consumers: row.consumer_count.filter(|_| is_vouched),
        last_reconcile_at_ms: row.last_reconcile_at_ms,
        last_reconcile_age_secs: row.last_reconcile_at_ms.map(|at_ms| clock.age_secs(at_ms)),
        is_stale: row.last_reconcile_at_ms.is_some_and(|at_ms| clock.is_stale(at_ms)),
        is_in_use,
    }
}

fn see_refusal(row: RefusalRow, subscriptions: &[SubscriptionView]) -> RefusalView {
    let shown_by = subscriptions.iter().filter(|other| other.refusal.as_ref() == Some(&row.sentence));
    RefusalView {
        subscriptions: shown_by.map(|other| other.id).collect(),
        origin: row.origin,
        dag_id: row.dag_id,
        queue: row.queue,
        conn_id: row.conn_id,
        parameter: row.parameter,
        reason: row.reason,
        sentence: row.sentence,
        since_ms: row.since_ms,
        status: ShownStatus::Invalid,
    }
}
