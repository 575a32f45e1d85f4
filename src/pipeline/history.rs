//! What is remembered for people who ask why, and how the state file stays bounded. Off the way of deliveries.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::context::Context;
use crate::domain::envelope::Envelope;
use crate::domain::filter::Verdict;
use crate::domain::key::DeliveryKey;
use crate::domain::outcome::{RunLookup, TriggerAnswer};
use crate::domain::table::Table;
use crate::store::StoreError;
use crate::store::history::{VERDICTS, VerdictRow};
use crate::store::prune::Pruned;
use crate::telemetry::events;

/// How often the state file is tended.
const EVERY: Duration = Duration::from_secs(60);

/// Between two steps: the commits of deliveries come first.
const BETWEEN_STEPS: Duration = Duration::from_millis(20);

/// Judged deliveries that are written with one command.
const AT_ONCE: usize = 500;

/// The most characters of an answer that are kept.
const MAX_ANSWER: usize = 500;

/// Deliveries that some subscription did not want, and that are not in the state file yet.
#[derive(Default)]
pub(super) struct VerdictLog(RefCell<VecDeque<Judged>>);

/// The names stand in the table, which the deliveries share; texts are made of it when it is written.
struct Judged {
    at_ms: i64,
    table: Table,
    conn_id: String,
    queue: String,
    epoch: i64,
    redelivered: bool,
    key: DeliveryKey,
    said: Vec<Option<Verdict>>,
}

impl VerdictLog {
    /// Notes what the rows of a queue said of a delivery, where some did not want it.
    pub(super) fn note(
        &self,
        table: &Table,
        (envelope, key): (&Envelope, &DeliveryKey),
        said: Vec<Option<Verdict>>,
        at_ms: i64,
    ) {
        if said.iter().all(|verdict| *verdict == Some(Verdict::Match)) {
            return;
        }
        let mut log = self.0.borrow_mut();
        if log.len() >= VERDICTS as usize {
            log.pop_front();
        }
        log.push_back(Judged {
            at_ms,
            table: table.clone(),
            conn_id: envelope.conn_id.as_str().to_owned(),
            queue: envelope.queue.as_str().to_owned(),
            epoch: envelope.epoch.0,
            redelivered: envelope.redelivered,
            key: key.clone(),
            said,
        });
    }

    fn take(&self, most: usize) -> Vec<VerdictRow> {
        let mut log = self.0.borrow_mut();
        let most = most.min(log.len());
        log.drain(..most).map(|judged| judged.row()).collect()
    }
}

impl Judged {
    fn row(self) -> VerdictRow {
        let Self { at_ms, table, conn_id, queue, epoch, redelivered, key, said } = self;
        let said: Vec<_> = table
            .routes()
            .iter()
            .zip(said)
            .map(|(route, verdict)| {
                let (verdict, because) = match verdict {
                    None => ("unknown", "its declaration is refused, so its filter is not known".to_owned()),
                    Some(Verdict::Match) => ("match", String::new()),
                    Some(Verdict::Miss(clause)) => ("miss", clause.to_string()),
                    Some(Verdict::Error(reason)) => ("error", reason.to_string()),
                };
                let subscription = &route.subscription;
                json!({
                    "subscription_id": subscription.id, "dag_id": subscription.dag_id.as_str(),
                    "takes_part": route.standing.takes_part(), "verdict": verdict, "because": because,
                })
            })
            .collect();
        VerdictRow { at_ms, conn_id, queue, epoch, redelivered, key, said: json!(said).to_string() }
    }
}

/// What an answer to a request for a run says, where it was no success.
pub(super) fn answer_text(answer: &TriggerAnswer) -> Option<String> {
    let (what, reason) = match answer {
        TriggerAnswer::Created => return None,
        TriggerAnswer::Conflict(reason) => ("the run id is taken", reason),
        TriggerAnswer::Refused(reason) => ("refused", reason),
        TriggerAnswer::TargetFault(reason) => ("the DAG cannot take runs", reason),
        TriggerAnswer::AccessFault(reason) => ("access refused", reason),
        TriggerAnswer::Unavailable { reason, .. } => ("no run", reason),
        TriggerAnswer::Ambiguous(reason) => ("answer lost", reason),
    };
    Some(bounded(what, reason))
}

/// What a look-up found.
pub(super) fn lookup_text(lookup: &RunLookup) -> String {
    match lookup {
        RunLookup::Found(run) => bounded("looked up", &format!("the run is there, {}", run.state)),
        RunLookup::Absent => "looked up: there is no such run".to_owned(),
        RunLookup::Unknown(reason) => bounded("looked up, not known", reason),
    }
}

fn bounded(what: &str, reason: &str) -> String {
    if reason.is_empty() {
        return what.to_owned();
    }
    format!("{what}: {reason}").chars().take(MAX_ANSWER).collect()
}

impl<R> Context<R> {
    /// Writes down what filters said since the last time. What the file refuses is lost: it is for people only.
    pub async fn flush_verdicts(&self) {
        loop {
            let rows = self.verdicts.take(AT_ONCE);
            if rows.is_empty() {
                return;
            }
            if let Err(error) = self.store.add_verdicts(rows).await {
                return tracing::debug!(%error, "what filters said was not written down");
            }
        }
    }

    async fn prune(&self) -> Result<(), StoreError> {
        let (kept, mut after) = (self.retention, i64::MIN);
        while let Pruned::UpTo(row) = self.store.prune_ledger(kept, after, self.now_ms()).await? {
            after = row;
            sleep(BETWEEN_STEPS).await;
        }
        while self.store.prune_kept(kept).await? {
            sleep(BETWEEN_STEPS).await;
        }
        while self.store.prune_epochs(kept, self.now_ms()).await? {
            sleep(BETWEEN_STEPS).await;
        }
        Ok(())
    }
}

/// Keeps the state file bounded and its history up to date. Does not return.
pub async fn tend_history<R>(context: Rc<Context<R>>) {
    loop {
        context.flush_verdicts().await;
        if let Err(error) = context.prune().await {
            tracing::warn!(
                event = events::STORE_NOT_PRUNED,
                "RMQ Watcher: old rows could not be removed from the state file: {error}; tried again in a minute"
            );
        }
        sleep(EVERY).await;
    }
}
