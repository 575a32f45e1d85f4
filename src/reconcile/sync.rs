//! From a scan to the rows: whether it is believed, what it changes, and what the state file made of that.
//!
//! A scan that is not believed changes nothing but the count of such scans.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Flow;
use super::{counters, said};
use crate::domain::declaration::FileProblemKind;
use crate::domain::ids::DagId;
use crate::domain::sync::{self, Scanned};
use crate::domain::trust::{self, Baseline, Judgement, Listing};
use crate::ports::{Broker, Consumer, Dags, Declarations, Declared, Runs};
use crate::store::sync::{SyncResult, ToWrite, Written};
use crate::store::{Store, StoreError};
use crate::telemetry::events;

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
    pub(super) async fn judge_and_sync(&mut self, scanned: Result<Declared, String>, timed: bool) {
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
