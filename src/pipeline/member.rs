//! The subscriptions that a worker serves: each with its DAG's gate and its report.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select_all;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::context::Context;
use super::dags::Waiting;
use super::places::Places;
use super::report::Report;
use super::signals::Order;
use super::targets::{Down, Target};
use crate::domain::dag_state::{DagState, DagView};
use crate::domain::gate::{Closed, Gate, gate};
use crate::domain::ids::{ConsumerTag, SubscriptionId};
use crate::domain::options::{OnMissing, Options};
use crate::domain::subscription::Subscription;
use crate::domain::table::{Route, Table};
use crate::domain::window::{self, Blocker};

/// One subscription that is served.
pub(super) struct Member {
    pub(super) report: Report,
    dag: RefCell<watch::Receiver<DagView>>,
    /// The DAG is waited for.
    waiting: RefCell<Option<(bool, Waiting)>>,
    target: Rc<Target>,
    /// The runs that it may have under way.
    pub(super) slots: Places,
    is_blocked: Cell<bool>,
}

impl Member {
    fn new<R>(
        context: &Context<R>,
        subscription: &Rc<Subscription>,
        (orders, freed): (watch::Receiver<Order>, Rc<Notify>),
    ) -> Self {
        let dag = RefCell::new(context.dags.watch(&subscription.dag_id));
        let target = context.targets.get(&subscription.dag_id);
        let slots = Places::new(most_runs(subscription), freed);
        let report = Report::new(Rc::clone(subscription), orders);
        Self { report, dag, waiting: RefCell::default(), target, slots, is_blocked: Cell::default() }
    }

    fn can_run(&self, options: &Options) -> bool {
        gate(options, &self.dag.borrow().borrow()) == Gate::Open && self.target.down().0.is_none()
    }

    /// Looks at all that may block it. Returns what does, and when that is to be looked at again.
    async fn blocker<R>(
        &self,
        context: &Context<R>,
        route: &Route,
        tag: Option<&ConsumerTag>,
    ) -> (Option<Blocker>, Option<i64>) {
        let gate = self.tend(context, route, tag).await;
        let (down, due_ms) = self.target.down();
        self.report.target_down(context, down.clone()).await;
        let runs = route.subscription.options.max_concurrent_runs;
        self.slots.set_most(most_runs(&route.subscription));
        let blocker = match (gate, down, runs) {
            (Gate::Closed(Closed::Paused | Closed::NeverUnpaused), _, _) => Some(Blocker::PausedDag),
            (Gate::Closed(Closed::NotKnown | Closed::Missing | Closed::Stale | Closed::ImportErrors), _, _) => {
                Some(Blocker::WaitingForDag)
            }
            (Gate::Open, Some(Down { trouble, reason, .. }), _) => {
                Some(Blocker::Target(format!("{}: {reason}", trouble.code())))
            }
            (Gate::Open, None, Some(runs)) if self.slots.free() == 0 => Some(Blocker::RunsUnderWay(runs)),
            (Gate::Open, None, _) => None,
        };
        (blocker, due_ms)
    }

    /// Looks at the gate, says what changed, and has Airflow asked for the DAG while it is waited for. `tag`: of the consumer,
    /// where there is one.
    async fn tend<R>(&self, context: &Context<R>, route: &Route, tag: Option<&ConsumerTag>) -> Gate {
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
            Gate::Open => self.report.gate_opened(context, tag).await,
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
    /// Those that take runs again, until they are taken.
    recovered: RefCell<BTreeSet<SubscriptionId>>,
    /// A target can be asked, or cannot any more.
    targets: RefCell<watch::Receiver<()>>,
    /// One of them has a run less under way, or takes runs again.
    stirred: Rc<Notify>,
    /// When to look again, if nothing happens before.
    due: Cell<Option<Instant>>,
}

/// How many runs a subscription may have under way.
fn most_runs(subscription: &Subscription) -> usize {
    subscription.options.max_concurrent_runs.map_or(usize::MAX, usize::from)
}

impl Members {
    pub(super) fn new<R>(context: &Context<R>, orders: watch::Receiver<Order>) -> Self {
        Self {
            orders,
            all: RefCell::default(),
            recovered: RefCell::default(),
            targets: RefCell::new(context.targets.changes()),
            stirred: Rc::default(),
            due: Cell::default(),
        }
    }

    fn make<R>(&self, context: &Context<R>, subscription: &Rc<Subscription>) -> Rc<Member> {
        Rc::new(Member::new(context, subscription, (self.orders.clone(), Rc::clone(&self.stirred))))
    }

    /// This one takes runs again: what is parked for it may come.
    pub(super) fn recovers(&self, id: SubscriptionId) {
        self.recovered.borrow_mut().insert(id);
        self.stirred.notify_one();
    }

    /// Those that take runs again since the last call.
    pub(super) fn take_recovered(&self) -> BTreeSet<SubscriptionId> {
        self.recovered.take()
    }

    /// Takes in who takes part now.
    fn follow<R>(&self, context: &Context<R>, table: &Table) {
        let mut all = self.all.borrow_mut();
        all.retain(|id, _| table.takes_part(*id));
        for route in table.taking_part() {
            all.entry(route.subscription.id).or_insert_with(|| self.make(context, &route.subscription));
        }
    }

    /// Looks at all that may block each of them, and says what does.
    pub(super) async fn tend<R>(
        &self,
        context: &Context<R>,
        table: &Table,
        tag: Option<&ConsumerTag>,
    ) -> Vec<window::Member> {
        self.follow(context, table);
        self.targets.borrow_mut().borrow_and_update();
        let (mut found, mut due_ms) = (Vec::new(), None);
        for route in table.taking_part() {
            let id = route.subscription.id;
            let Some(member) = self.get(id) else { continue };
            let (blocker, again_ms) = member.blocker(context, route, tag).await;
            if member.is_blocked.replace(blocker.is_some()) && blocker.is_none() {
                self.recovers(id);
            }
            due_ms = due_ms.into_iter().chain(again_ms).min();
            found.push(window::Member { subscription: id, blocker });
        }
        let left = due_ms.map(|due_ms| u64::try_from(due_ms - context.now_ms()).unwrap_or(0));
        self.due.set(left.map(|left| Instant::now() + Duration::from_millis(left)));
        found
    }

    pub(super) fn get(&self, id: SubscriptionId) -> Option<Rc<Member>> {
        self.all.borrow().get(&id).map(Rc::clone)
    }

    /// The member of a row; one that takes part no more, but has something under way, has one for that alone.
    pub(super) fn of<R>(&self, context: &Context<R>, subscription: &Rc<Subscription>) -> Rc<Member> {
        self.get(subscription.id).unwrap_or_else(|| self.make(context, subscription))
    }

    pub(super) fn all(&self) -> Vec<Rc<Member>> {
        self.all.borrow().values().map(Rc::clone).collect()
    }

    /// Whether any of them could take a run now, or could once one of its own runs is done.
    pub(super) fn can_any_run(&self, table: &Table) -> bool {
        let can_run = |route: &Rc<Route>| {
            self.get(route.subscription.id).is_some_and(|member| member.can_run(&route.subscription.options))
        };
        table.taking_part().any(can_run)
    }

    /// How many more runs a subscription may begin now.
    pub(super) fn free_slots(&self, id: SubscriptionId) -> usize {
        self.get(id).map_or(0, |member| member.slots.free())
    }

    /// Resolves when something new is known of what may block one of them.
    ///
    /// # Cancel safety
    /// Cancel safe: what changed since the last [`Members::tend`] counts.
    pub(super) async fn changed(&self) {
        let mut dags: Vec<_> = self.all.borrow().values().map(|member| member.dag.borrow().clone()).collect();
        let (mut targets, due) = (self.targets.borrow().clone(), self.due.get());
        let dags = async {
            if dags.is_empty() {
                std::future::pending::<()>().await;
            }
            drop(select_all(dags.iter_mut().map(|dag| Box::pin(dag.changed()))).await);
        };
        tokio::select! {
            () = dags => {}
            Ok(()) = targets.changed() => {}
            () = self.stirred.notified() => {}
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }
}
