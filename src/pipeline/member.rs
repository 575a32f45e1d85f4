//! The subscriptions that a worker serves: each with its DAG's gate and its report.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::select_all;
use tokio::sync::{Notify, watch};

use super::context::Context;
use super::dags::Waiting;
use super::report::Report;
use super::signals::Order;
use crate::domain::dag_state::{DagState, DagView};
use crate::domain::gate::{Gate, gate};
use crate::domain::ids::{ConsumerTag, SubscriptionId};
use crate::domain::options::OnMissing;
use crate::domain::subscription::Subscription;
use crate::domain::table::{Route, Table};

/// One subscription that is served.
pub(super) struct Member {
    pub(super) report: Report,
    dag: RefCell<watch::Receiver<DagView>>,
    /// The DAG is waited for.
    waiting: RefCell<Option<(bool, Waiting)>>,
}

impl Member {
    fn new<R>(context: &Context<R>, subscription: &Rc<Subscription>, orders: watch::Receiver<Order>) -> Self {
        let dag = RefCell::new(context.dags.watch(&subscription.dag_id));
        Self { report: Report::new(Rc::clone(subscription), orders), dag, waiting: RefCell::default() }
    }

    /// Looks at the gate, says what changed, and has Airflow asked for the DAG while it is waited for. `tag`: of the consumer,
    /// where there is one.
    async fn tend<R>(
        &self,
        context: &Context<R>,
        route: &Route,
        (tag, recovered): (Option<&ConsumerTag>, &Notify),
    ) -> Gate {
        let (subscription, view) = (&route.subscription, self.dag.borrow_mut().borrow_and_update().clone());
        let gate = gate(&subscription.options, &view);
        let drops = subscription.options.on_missing == OnMissing::Ack;
        if gate == Gate::Open && view.state != DagState::Missing {
            self.waiting.replace(None);
        } else if self.waiting.borrow().as_ref().is_none_or(|(dropping, _)| *dropping != drops) {
            let waiting = context.dags.wait_for(&subscription.dag_id, drops);
            self.waiting.replace(Some((drops, waiting)));
        }
        match gate {
            Gate::Open => {
                if self.report.gate_opened(context, tag).await {
                    recovered.notify_one();
                }
            }
            Gate::Closed(closed) => {
                self.report.gate_closed(context, closed, closed.sentence(&subscription.dag_id, &view)).await;
            }
        }
        gate
    }
}

/// All members of a worker. Deliveries look one up by its number.
pub(super) struct Members {
    orders: watch::Receiver<Order>,
    all: RefCell<BTreeMap<SubscriptionId, Rc<Member>>>,
    /// One of them takes runs again.
    pub(super) recovered: Notify,
}

impl Members {
    pub(super) fn new(orders: watch::Receiver<Order>) -> Self {
        Self { orders, all: RefCell::default(), recovered: Notify::new() }
    }

    /// Takes in who takes part now.
    fn follow<R>(&self, context: &Context<R>, table: &Table) {
        let mut all = self.all.borrow_mut();
        all.retain(|id, _| table.takes_part(*id));
        for route in table.taking_part() {
            let make = || Rc::new(Member::new(context, &route.subscription, self.orders.clone()));
            all.entry(route.subscription.id).or_insert_with(make);
        }
    }

    /// Looks at every gate. Returns how many are open.
    pub(super) async fn tend<R>(&self, context: &Context<R>, table: &Table, tag: Option<&ConsumerTag>) -> usize {
        self.follow(context, table);
        let mut open = 0;
        for route in table.taking_part() {
            if let Some(member) = self.get(route.subscription.id)
                && member.tend(context, route, (tag, &self.recovered)).await == Gate::Open
            {
                open += 1;
            }
        }
        open
    }

    fn get(&self, id: SubscriptionId) -> Option<Rc<Member>> {
        self.all.borrow().get(&id).map(Rc::clone)
    }

    /// The member of a row; one that takes part no more, but has something under way, has one for that alone.
    pub(super) fn of<R>(&self, context: &Context<R>, subscription: &Rc<Subscription>) -> Rc<Member> {
        let make = || Rc::new(Member::new(context, subscription, self.orders.clone()));
        self.get(subscription.id).unwrap_or_else(make)
    }

    pub(super) fn all(&self) -> Vec<Rc<Member>> {
        self.all.borrow().values().map(Rc::clone).collect()
    }

    /// Resolves when something new is known of one of the DAGs.
    ///
    /// # Cancel safety
    /// Cancel safe: what changed since the last [`Members::tend`] counts.
    pub(super) async fn changed(&self) {
        let mut dags: Vec<_> = self.all.borrow().values().map(|member| member.dag.borrow().clone()).collect();
        if dags.is_empty() {
            std::future::pending::<()>().await;
        }
        drop(select_all(dags.iter_mut().map(|dag| Box::pin(dag.changed()))).await);
    }
}
