//! Carrying a plan out, and the rows that say how things stand.

use std::collections::{BTreeSet, HashSet};

use crate::domain::ids::{ConnId, SubscriptionId};
use crate::domain::plan::{Action, Wish, Withheld, connections, plan};
use crate::domain::status::SubscriptionStatus;
use crate::domain::table::Table;
use crate::ports::{Broker, Consumer, Dags, Declarations, Runs};
use crate::store::watcher::CycleEnded;
use crate::telemetry::events;

use super::Flow;
use super::counters;
use super::pace::millis;

impl<R, B, D> Flow<R, B, D>
where
    R: Runs + Dags + 'static,
    B: Broker + 'static,
    <B::Consumer as Consumer>::Settler: 'static,
    D: Declarations + 'static,
{
    /// Plans from what was read last, and carries the plan out. Does not wait for consumers that leave: what comes after them is
    /// planned once they have.
    pub(super) async fn apply(&mut self) {
        let mut changed = false;
        for action in plan(&self.wishes, &self.tombstones, &self.consumers.observed()) {
            match action {
                Action::Start { place, table } => {
                    self.runs_again(&table);
                    self.consumers.start(&self.context, &self.broker, (place, table), &self.phase);
                }
                Action::Change { place, table } => {
                    self.runs_again(&table);
                    self.consumers.change(&place, &table);
                    changed = true;
                }
                Action::Stop { place, reason } => {
                    tracing::info!(
                        event = events::CONSUMER_LET_GO,
                        reason = reason.code(),
                        "RMQ Watcher: letting the consumer of queue '{}' (connection '{}') go",
                        place.queue,
                        place.conn_id
                    );
                    self.consumers.stop(&place);
                }
                Action::Withhold { id, why } => self.withhold(id, why).await,
            }
        }
        if changed {
            // A consumer that goes on for others writes their rows no more.
            let withheld = |wish: &Wish| wish.withheld.clone().map(|why| (wish.subscription().id, why));
            for (id, why) in self.wishes.iter().filter_map(withheld).collect::<Vec<_>>() {
                self.withhold(id, why).await;
            }
        }
        self.forget_withheld();
    }

    fn runs_again(&mut self, table: &Table) {
        table.taking_part().for_each(|route| drop(self.withheld.remove(&route.subscription.id)));
    }

    /// Says why a subscription does not run: in its row, and what somebody has to mend in the log; each once.
    async fn withhold(&mut self, id: SubscriptionId, why: Withheld) {
        // Its consumer writes the row until it has left.
        if self.consumers.serves(id) || self.withheld.get(&id) == Some(&why) {
            return;
        }
        let status = match &why {
            Withheld::Disabled => SubscriptionStatus::Disconnected,
            Withheld::Invalid(_) | Withheld::NotHandled(_) => SubscriptionStatus::Invalid,
            Withheld::NoCredentials => SubscriptionStatus::Error,
        };
        let reason = why.sentence();
        match (&why, self.wishes.iter().find(|wish| wish.subscription().id == id)) {
            // A refusal and missing credentials have lines of their own.
            (Withheld::NotHandled(_), Some(wish)) => {
                let (dag, queue) = (&wish.subscription().dag_id, &wish.subscription().queue);
                let reason = reason.clone().unwrap_or_default();
                tracing::error!(
                    event = events::SUBSCRIPTION_WITHHELD,
                    "RMQ Watcher: the subscription of DAG '{dag}' to queue '{queue}' does not run: {reason}"
                );
            }
            (Withheld::Disabled | Withheld::Invalid(_) | Withheld::NoCredentials, _) | (_, None) => {}
        }
        self.context.store.set_subscription_status(id, status, reason, None, self.now_ms()).await;
        self.withheld.insert(id, why);
    }

    fn forget_withheld(&mut self) {
        let wished: HashSet<SubscriptionId> = self.wishes.iter().map(|wish| wish.subscription().id).collect();
        self.withheld.retain(|id, _| wished.contains(id));
    }

    /// What proves that the loop is alive: one stamp for each connection in use, and one for the watcher.
    pub(super) async fn status_rows(&mut self, timed: bool) {
        let now_ms = self.now_ms();
        self.context.store.flush_statuses().await;
        let attached = &self.context.attached;
        // A consumer that leaves may hold its tag still, where no subscription names its connection any more.
        let in_use: BTreeSet<ConnId> = connections(&self.wishes).into_iter().chain(attached.connections()).collect();
        for conn_id in &in_use {
            let count = attached.count(conn_id);
            self.context.store.connection_cycle(conn_id.clone(), count, now_ms).await;
        }
        self.context.store.connections_left(in_use, now_ms).await;
        if timed {
            self.counters.add(counters::CYCLE_COMPLETED);
        }
        self.cycle_ended(now_ms).await;
    }

    pub(super) async fn cycle_ended(&mut self, now_ms: i64) {
        let cycle = CycleEnded {
            interval_ms: millis(self.settings.interval),
            budget_ms: millis(self.settings.budget),
            last_error: self.trouble.clone(),
            counters: self.counters.json(),
        };
        self.context.store.cycle_ended(cycle, now_ms).await;
    }
}
