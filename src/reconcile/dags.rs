//! What Airflow says of the DAGs that are recorded, read once a cycle, and what is written down of it.

use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;

use super::Flow;
use crate::domain::ids::DagId;
use crate::pipeline;
use crate::ports::{Broker, Consumer, Dags, Declarations, Runs};

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
    }

    /// Has Airflow asked for every DAG that is recorded, and does not wait for it: workers hear what it says from the book, and
    /// the next cycle writes down what was learnt. What it does not answer leaves what is known in force.
    pub(super) async fn ask_for_dags(&mut self) {
        self.write_down_learnt().await;
        if !self.pace.can_start {
            return;
        }
        let dags: BTreeSet<DagId> = self.wishes.iter().map(|wish| wish.subscription().dag_id.clone()).collect();
        let (context, now_ms) = (Rc::clone(&self.context), self.now_ms());
        let asked = self.steps.dags.begin(async move { pipeline::read_dags(&context, &dags).await });
        if asked {
            self.dags_since_ms = now_ms;
        } else {
            self.skipped("dags");
        }
    }

    async fn write_down_learnt(&mut self) {
        let (seen, gone): (Vec<_>, Vec<_>) = self.context.dags.take_learnt().into_iter().partition(|(_, seen)| *seen);
        let names = |dags: Vec<(DagId, bool)>| dags.into_iter().map(|(dag, _)| dag).collect::<Vec<_>>();
        let (seen, gone, now_ms) = (names(seen), names(gone), self.now_ms());
        let store = &self.context.store;
        // In this order: a DAG that went and came back is in both, and not to know it only keeps messages.
        let seen = if seen.is_empty() { Ok(()) } else { store.seen_unpaused(seen, now_ms).await };
        let gone = if gone.is_empty() { Ok(()) } else { store.forget_unpaused(gone).await };
        if let Err(error) = seen.and(gone) {
            self.sync_failed(&error.to_string());
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
