//! One cycle: scan → sync → read → plan → apply → status rows.
//!
//! A step that fails leaves what it would have changed as it is: a failed read is never an empty set. What comes after it runs all
//! the same, so that a folder that cannot be read does not keep a consumer from starting again.

use std::rc::Rc;

use super::Flow;
use super::counters;
use super::step::{Ran, STEP_TIMEOUT, Step};
use super::sync::Synced;
use super::wishes::{tombstone, wish};
use crate::domain::sync::Row;
use crate::pipeline;
use crate::ports::{Broker, Consumer, Dags, Declarations, Declared, Runs};
use crate::store::StoreError;
use crate::telemetry::events;

/// The steps of a cycle that may block.
pub(super) struct Steps {
    scan: Step<Result<Declared, String>>,
    pub(super) sync: Step<Result<Synced, StoreError>>,
    read: Step<Result<Vec<Row>, StoreError>>,
    pub(super) dags: Step<()>,
    queues: Step<()>,
}

impl Steps {
    pub(super) fn new() -> Self {
        Self { scan: Step::new(), sync: Step::new(), read: Step::new(), dags: Step::new(), queues: Step::new() }
    }
}

impl<R, B, D> Flow<R, B, D>
where
    R: Runs + Dags + 'static,
    B: Broker + 'static,
    <B::Consumer as Consumer>::Settler: 'static,
    D: Declarations + 'static,
{
    /// One pass. `timed`: of the interval, not of a wake: what is counted in cycles moves in these only. Returns whether what runs
    /// now is what is recorded.
    pub(super) async fn cycle(&mut self, timed: bool) -> bool {
        self.trouble = None;
        if timed {
            self.consumers.forgive();
        }
        self.phase_at.set("scan");
        if let Some(listing) = self.scan().await {
            self.phase_at.set("sync");
            self.judge_and_sync(listing, timed).await;
        }
        let is_applied = self.read_and_apply().await;
        if timed {
            self.ask_for_dags();
            self.look_at_queues();
            self.prune().await;
        }
        self.phase_at.set("status");
        self.status_rows(timed).await;
        is_applied
    }

    /// Has run what is recorded now. Returns whether that could be read.
    pub(super) async fn read_and_apply(&mut self) -> bool {
        self.phase_at.set("read subs");
        let rows = self.read().await;
        let is_read = rows.is_some();
        if let Some(rows) = rows {
            let (deleted, recorded): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.is_tombstone());
            self.wishes = recorded.into_iter().map(|row| wish(row, self.pace.can_start)).collect();
            self.tombstones = deleted.into_iter().map(tombstone).collect();
        }
        self.phase_at.set("reconcile");
        self.apply().await;
        is_read
    }

    /// Has brokers asked for what they say of the queues that are consumed, and does not wait for it.
    fn look_at_queues(&mut self) {
        let look = pipeline::look_at_queues(Rc::clone(&self.context), Rc::clone(&self.broker));
        if !self.steps.queues.begin(look) {
            tracing::debug!("brokers are still being asked for the queues of an earlier cycle");
        }
    }

    /// Reads what is declared; `None` where the step did not end.
    async fn scan(&mut self) -> Option<Result<Declared, String>> {
        let declarations = Rc::clone(&self.declarations);
        // A scan that takes longer than its bound, each time, must count all the same.
        let scanned = match self.steps.scan.late().await {
            Some(late) => late,
            None => {
                let scanned = self.steps.scan.run(async move { declarations.lock().await.scan().await }).await;
                self.ran("scan", scanned)?
            }
        };
        if let Ok(declared) = &scanned {
            self.findings.say_scan(declared);
        }
        Some(scanned)
    }

    /// What is recorded; `None` where it could not be read, and then everything stays as it is.
    async fn read(&mut self) -> Option<Vec<Row>> {
        let store = self.context.store.clone();
        let ran = self.steps.read.run(async move { store.read_subscriptions().await }).await;
        match self.ran("read subs", ran)? {
            Ok(rows) => Some(rows),
            Err(error) => {
                self.sync_failed(&error.to_string());
                None
            }
        }
    }

    /// What a step brought. One that takes too long is said and counted.
    pub(super) fn ran<T>(&mut self, name: &'static str, ran: Ran<T>) -> Option<T> {
        match ran {
            Ran::Done(value) => {
                self.findings.step_is_well(name);
                return Some(value);
            }
            Ran::TimedOut => {
                self.counters.add(counters::CYCLE_STEP_TIMED_OUT);
                let secs = STEP_TIMEOUT.as_secs();
                let line = format!("the step '{name}' takes longer than {secs} s; the cycle goes on without it");
                if self.findings.is_news(events::CYCLE_STEP_TIMED_OUT, &line) {
                    tracing::error!(event = events::CYCLE_STEP_TIMED_OUT, "RMQ Watcher: {line}");
                }
                self.trouble = Some(line);
            }
            Ran::Skipped => self.skipped(name),
        }
        None
    }

    pub(super) fn skipped(&mut self, name: &'static str) {
        self.counters.add(counters::CYCLE_STEP_SKIPPED);
        let line = format!("the step '{name}' of an earlier cycle is still under way; it is not started again");
        if self.findings.is_news(events::CYCLE_STEP_SKIPPED, &line) {
            tracing::error!(event = events::CYCLE_STEP_SKIPPED, "RMQ Watcher: {line}");
        }
        self.trouble = Some(line);
    }

    /// Tombstones that nobody came back for.
    async fn prune(&mut self) {
        if let Err(error) = self.context.store.prune_tombstones(self.now_ms()).await {
            self.sync_failed(&error.to_string());
        }
    }
}
