//! What Airflow says of the DAGs that are recorded, read once a cycle, and what is written down of it.

use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;

use super::Flow;
use crate::domain::ids::DagId;
use crate::pipeline::{self, Context};
use crate::ports::{Broker, Consumer, Dags, Declarations, Runs};

/// The pause before what was learnt is written down again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

impl<R, B, D> Flow<R, B, D>
where
    R: Runs + Dags + 'static,
    B: Broker + 'static,
    <B::Consumer as Consumer>::Settler: 'static,
    D: Declarations + 'static,
{
    /// What an earlier life of the watcher has learnt.
    pub(super) async fn remember_dags(&mut self) {
        match self.context.store.load_seen_unpaused().await {
            Ok(dags) => self.context.dags.remember_unpaused(dags),
            Err(error) => self.sync_failed(&error.to_string()),
        }
        match self.context.store.load_not_ready().await {
            Ok(since) => self.context.remember_not_ready(since),
            Err(error) => self.sync_failed(&error.to_string()),
        }
    }

    /// Has Airflow asked for every DAG that is recorded, and does not wait for it: workers hear what it says from the book. What it
    /// does not answer leaves what is known in force.
    pub(super) fn ask_for_dags(&mut self) {
        if !self.pace.can_start {
            return;
        }
        let dags: BTreeSet<DagId> = self.wishes.iter().map(|wish| wish.subscription().dag_id.clone()).collect();
        let (context, now_ms) = (Rc::clone(&self.context), self.now_ms());
        let asked = self.steps.dags.begin(async move { pipeline::read_dags(&context, &dags).await });
        if asked {
            self.dags_since_ms = now_ms;
        } else {
            tracing::debug!("Airflow is still being asked for the DAGs of an earlier cycle");
        }
    }

    /// The DAGs of recorded subscriptions that Airflow may have; `None`: nothing is recorded yet. One of which it has not said
    /// otherwise since it was last asked counts as one that it has.
    pub(super) fn active(&self) -> Option<HashSet<DagId>> {
        if self.wishes.is_empty() {
            return None;
        }
        let dags = self.wishes.iter().map(|wish| &wish.subscription().dag_id);
        let active = dags.filter(|dag| self.context.dags.is_active(dag, self.dags_since_ms) != Some(false));
        Some(active.cloned().collect())
    }
}

/// Writes down which DAGs were seen unpaused, and which are gone, as soon as it is learnt: a DAG of that name that Airflow creates
/// later begins paused, and must not lose its messages for it. Does not return.
pub async fn record_learnt<R>(context: Rc<Context<R>>) {
    loop {
        context.dags.has_learnt().await;
        while !write_down_learnt(&context).await {
            sleep(TRY_AGAIN).await;
        }
    }
}

/// Returns whether the state file took it.
async fn write_down_learnt<R>(context: &Context<R>) -> bool {
    let learnt = context.dags.take_learnt();
    let (seen, gone): (Vec<_>, Vec<_>) = learnt.iter().cloned().partition(|(_, seen)| *seen);
    let names = |dags: Vec<(DagId, bool)>| dags.into_iter().map(|(dag, _)| dag).collect::<Vec<_>>();
    let (seen, gone, now_ms) = (names(seen), names(gone), (context.clock)());
    // In this order: a DAG that went and came back is in both, and not to know it only keeps messages.
    let seen = if seen.is_empty() { Ok(()) } else { context.store.seen_unpaused(seen, now_ms).await };
    let gone = if gone.is_empty() { Ok(()) } else { context.store.forget_unpaused(gone).await };
    let Err(error) = seen.and(gone) else { return true };
    tracing::debug!(%error, "what was learnt of DAGs is kept for the next try");
    context.dags.put_back(learnt);
    false
}
