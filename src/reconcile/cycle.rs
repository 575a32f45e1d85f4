//! One cycle: scan → sync → read → plan → apply → status rows.
//!
//! A step that fails leaves what it would have changed as it is: a failed read is never an empty set. What comes after it runs all
//! the same, so that a folder that cannot be read does not keep a consumer from starting again.

use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Flow;
use super::step::{Ran, STEP_TIMEOUT, Step};
use super::{counters, said};
use crate::domain::declaration::FileProblemKind;
use crate::domain::ids::DagId;
use crate::domain::plan::{Wish, Withheld};
use crate::domain::routing::Standing;
use crate::domain::subscription::Subscription;
use crate::domain::sync::{self, Row, Scanned};
use crate::domain::table::Route;
use crate::domain::trust::{self, Baseline, Judgement, Listing};
use crate::pipeline;
use crate::ports::{Broker, Consumer, Dags, Declarations, Declared, Runs};
use crate::store::sync::{SyncResult, ToWrite, Written};
use crate::store::{Store, StoreError};
use crate::telemetry::events;

/// The steps of a cycle that may block.
pub(super) struct Steps {
    scan: Step<Result<Declared, String>>,
    sync: Step<Result<Synced, StoreError>>,
    read: Step<Result<Vec<Row>, StoreError>>,
    pub(super) dags: Step<()>,
    queues: Step<()>,
}

impl Steps {
    pub(super) fn new() -> Self {
        Self { scan: Step::new(), sync: Step::new(), read: Step::new(), dags: Step::new(), queues: Step::new() }
    }
}

/// What a sync wanted, and what the state file made of each change.
pub(super) struct Synced {
    plan: sync::Plan,
    written: Vec<Written>,
    superseded: bool,
}

/// What is remembered of scans.
#[derive(Default)]
pub(super) struct Believed {
    /// `None` until it was read from the state file.
    pub(super) baseline: Option<Baseline>,
    /// The number of the newest trusted scan: a sync of an older one that is still under way takes itself back.
    newest: Arc<AtomicU64>,
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

    async fn judge_and_sync(&mut self, scanned: Result<Declared, String>, timed: bool) {
        self.late_sync().await;
        let Some(baseline) = self.baseline().await else { return };
        let listing = listing(&scanned);
        let mut judgement = trust::judge(&baseline, &listing, timed);
        if timed {
            judgement.baseline.counted_at_ms = self.now_ms();
        }
        if judgement.gave_in() {
            said::say_judgement(&judgement);
        }
        match scanned {
            Ok(declared) if judgement.trusted => {
                if self.findings.is_over(events::SCAN_DISTRUSTED) && !judgement.gave_in() {
                    tracing::info!(
                        event = events::SCAN_RECOVERED,
                        "RMQ Watcher: the scan of the DAG folder is believed again"
                    );
                }
                let directories = match listing {
                    Listing::Listed { unreadable_directories, .. } => unreadable_directories,
                    Listing::Outage(_) => Vec::new(),
                };
                let baseline = judgement.baseline.with_unreadable(&declared.unreadable);
                self.sync(declared, directories, baseline, timed).await;
            }
            Ok(_) | Err(_) => self.distrust(judgement, baseline, timed).await,
        }
    }

    async fn distrust(&mut self, judgement: Judgement, before: Baseline, timed: bool) {
        let line = judgement.to_string();
        // A wake repeats what the timed cycle said.
        if (timed || before.distrusted == 0) && self.findings.is_news(events::SCAN_DISTRUSTED, &line) {
            said::say_judgement(&judgement);
        }
        self.trouble = Some(line);
        if judgement.baseline != before {
            let saved = self.context.store.save_baseline(judgement.baseline.clone(), self.now_ms()).await;
            match saved {
                Ok(()) => self.believed.baseline = Some(judgement.baseline),
                Err(error) => self.sync_failed(&error.to_string()),
            }
        }
    }

    pub(super) async fn baseline(&mut self) -> Option<Baseline> {
        if self.believed.baseline.is_none() {
            match self.context.store.load_baseline().await {
                Ok(baseline) => self.believed.baseline = Some(baseline.unwrap_or_default()),
                Err(error) => self.sync_failed(&error.to_string()),
            }
        }
        self.believed.baseline.clone()
    }

    async fn sync(&mut self, declared: Declared, directories: Vec<String>, baseline: Baseline, timed: bool) {
        let number = self.believed.newest.fetch_add(1, Ordering::SeqCst) + 1;
        let newest = Arc::clone(&self.believed.newest);
        let is_current = move || newest.load(Ordering::SeqCst) == number;
        let (store, now_ms, active) = (self.context.store.clone(), self.now_ms(), self.active());
        let scan = TrustedScan { declared, directories, baseline: baseline.clone(), active, timed };
        let ran = self.steps.sync.run(carry_out(store, scan, is_current, now_ms)).await;
        match self.ran("sync", ran) {
            Some(synced) => {
                self.believed.baseline = Some(baseline);
                self.synced(synced);
            }
            // What becomes of it is not known: what is remembered of scans is read anew.
            None => self.believed.baseline = None,
        }
    }

    /// What a sync did that took longer than its cycle waited.
    async fn late_sync(&mut self) {
        if let Some(late) = self.steps.sync.late().await {
            self.believed.baseline = None;
            self.synced(late);
        }
    }

    fn synced(&mut self, synced: Result<Synced, StoreError>) {
        match synced {
            Ok(synced) if synced.superseded => {
                self.counters.add(counters::SYNC_SUPERSEDED);
                tracing::warn!(
                    event = events::SYNC_SUPERSEDED,
                    "RMQ Watcher: an earlier sync was taken back: a newer scan is believed"
                );
            }
            Ok(synced) => {
                self.findings.is_over(events::SYNC_FAILED);
                self.say(&synced);
            }
            Err(error) => {
                self.believed.baseline = None;
                self.sync_failed(&error.to_string());
            }
        }
    }

    fn say(&mut self, synced: &Synced) {
        if !synced.written.iter().any(|written| matches!(written, Written::Refused(_))) {
            self.findings.is_over(events::SUBSCRIPTION_NOT_WRITTEN);
        }
        for (change, written) in synced.plan.changes.iter().zip(&synced.written) {
            let is_news = match written {
                Written::Refused(error) => {
                    self.trouble = Some(error.clone());
                    self.findings.is_news(events::SUBSCRIPTION_NOT_WRITTEN, &format!("{change:?} {error}"))
                }
                Written::Done | Written::Stale => true,
            };
            if is_news {
                said::say_written(change, written);
            }
        }
        self.findings.say_conflicts(&synced.plan.conflicts);
    }

    pub(super) fn sync_failed(&mut self, error: &str) {
        self.trouble = Some(error.to_owned());
        if self.findings.is_news(events::SYNC_FAILED, error) {
            tracing::error!(event = events::SYNC_FAILED, "RMQ Watcher: subscriptions were not updated: {error}");
        }
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
    fn ran<T>(&mut self, name: &'static str, ran: Ran<T>) -> Option<T> {
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

/// A scan that is trusted, with what its sync needs.
struct TrustedScan {
    declared: Declared,
    directories: Vec<String>,
    baseline: Baseline,
    active: Option<HashSet<DagId>>,
    timed: bool,
}

async fn carry_out(
    store: Store,
    scan: TrustedScan,
    is_current: impl Fn() -> bool + Send + 'static,
    now_ms: i64,
) -> Result<Synced, StoreError> {
    let TrustedScan { declared, directories, baseline, active, timed } = scan;
    let rows = store.read_subscriptions().await?;
    let scanned = Scanned {
        declarations: &declared.declarations,
        refusals: &declared.refusals,
        failing: &baseline.failing,
        unreadable_directories: &directories,
        bundles: &declared.bundles,
    };
    let plan = sync::plan(&rows, scanned, active.as_ref(), timed);
    let changes = plan.changes.iter().map(|change| change.act.clone()).collect();
    let to_write = ToWrite { changes, refusals: plan.refusals.clone(), baseline };
    Ok(match store.apply_sync(to_write, is_current, now_ms).await? {
        SyncResult::Applied(written) => Synced { plan, written, superseded: false },
        SyncResult::Superseded => Synced { plan, written: Vec::new(), superseded: true },
    })
}

fn listing(scanned: &Result<Declared, String>) -> Listing {
    let declared = match scanned {
        Ok(declared) => declared,
        Err(reason) => return Listing::Outage(reason.clone()),
    };
    let (directories, files): (Vec<_>, Vec<_>) =
        declared.unreadable.iter().partition(|problem| problem.kind == FileProblemKind::DirectoryUnreadable);
    Listing::Listed {
        listed: declared.listed,
        readable: declared.readable,
        failing: files.into_iter().map(|problem| problem.file.clone()).collect::<BTreeSet<_>>(),
        unreadable_directories: directories
            .into_iter()
            .map(|problem| problem.file.clone())
            .chain(declared.undecided.iter().cloned())
            .collect(),
    }
}

/// What is wanted of a recorded subscription.
fn wish(row: &Row, can_start: bool) -> Wish {
    let subscription = subscription(row);
    let invalid = |why| Wish { route: Rc::new(Route::invalid(Rc::clone(&subscription))), withheld: Some(why) };
    let standing = match (row.enabled, row.absent_cycles) {
        (false, _) => Standing::Disabled,
        (true, 0) => Standing::Listening,
        (true, _) => Standing::InGrace,
    };
    if let Some(sentence) = &row.invalid {
        return invalid(Withheld::Invalid(sentence.clone()));
    }
    let route = match Route::new(Rc::clone(&subscription), standing) {
        Ok(route) => route,
        Err(problem) => return invalid(Withheld::Invalid(problem.to_string())),
    };
    let withheld = if !row.enabled {
        Some(Withheld::Disabled)
    } else if let Some(option) = row.options.not_handled() {
        return invalid(Withheld::NotHandled(option));
    } else {
        (!can_start).then_some(Withheld::NoCredentials)
    };
    Wish { route: Rc::new(route), withheld }
}

fn tombstone(row: &Row) -> Rc<Route> {
    let subscription = subscription(row);
    let route = Route::new(Rc::clone(&subscription), Standing::Tombstoned);
    Rc::new(route.unwrap_or_else(|_| Route::invalid(subscription)))
}

fn subscription(row: &Row) -> Rc<Subscription> {
    Rc::new(Subscription {
        id: row.id,
        dag_id: row.key.dag_id.clone(),
        queue: row.key.queue.clone(),
        conn_id: row.key.conn_id.clone(),
        options: row.options.clone(),
    })
}
