//! The consumers that run: started, let go, and noticed when they end.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::timeout;

use crate::domain::ids::SubscriptionId;
use crate::domain::plan::{Observed, Place};
use crate::domain::shutdown::{CONSUMER_BUDGET, Phase};
use crate::domain::table::Table;
use crate::pipeline::{self, Context, Order};
use crate::ports::{Broker, Consumer, Dags, Runs};

/// One consumer's worker, seen from outside.
struct Running {
    place: Place,
    orders: watch::Sender<Order>,
    leaving: bool,
}

/// All workers.
pub(super) struct Consumers {
    workers: JoinSet<()>,
    running: HashMap<Id, Running>,
    /// Places whose worker met a defect, until the next timed cycle: one that meets it at once must not spin.
    broken: HashSet<Place>,
}

/// How a worker ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// It was asked to.
    Left,
    /// By a defect of this program.
    Broke(Place, Vec<SubscriptionId>),
}

impl Consumers {
    pub(super) fn new() -> Self {
        Self { workers: JoinSet::new(), running: HashMap::new(), broken: HashSet::new() }
    }

    /// What the plan needs to know.
    pub(super) fn observed(&self) -> HashMap<Place, Observed> {
        let running = self.running.values().map(|running| {
            let seen = match running.leaving {
                true => Observed::Unknown,
                false => Observed::Running(running.orders.borrow().table.clone()),
            };
            (running.place.clone(), seen)
        });
        let broken = self.broken.iter().map(|place| (place.clone(), Observed::Unknown));
        broken.chain(running).collect()
    }

    /// What met a defect may be tried again.
    pub(super) fn forgive(&mut self) {
        self.broken.clear();
    }

    pub(super) fn start<R, B>(
        &mut self,
        context: &Rc<Context<R>>,
        broker: &Rc<B>,
        (place, table): (Place, Table),
        phase: &watch::Receiver<Phase>,
    ) where
        R: Runs + Dags + 'static,
        B: Broker + 'static,
        <B::Consumer as Consumer>::Settler: 'static,
    {
        let order = Order { place: place.clone(), table, leave: false };
        let (orders, heard) = watch::channel(order);
        let worker = pipeline::run(Rc::clone(context), Rc::clone(broker), heard, phase.clone());
        let worker = self.workers.spawn_local(worker);
        self.running.insert(worker.id(), Running { place, orders, leaving: false });
    }

    /// Hands a new table to the consumer of a place.
    pub(super) fn change(&mut self, place: &Place, table: &Table) {
        for running in self.running.values_mut().filter(|running| running.place == *place) {
            running.orders.send_modify(|order| order.table = table.clone());
        }
    }

    /// Whether a worker, also one that leaves, writes the row of this subscription.
    pub(super) fn serves(&self, id: SubscriptionId) -> bool {
        self.running.values().any(|running| running.orders.borrow().table.takes_part(id))
    }

    /// Asks the consumer of a place to leave; it does so within its own bounds.
    pub(super) fn stop(&mut self, place: &Place) {
        for running in self.running.values_mut().filter(|running| running.place == *place) {
            running.orders.send_modify(|order| order.leave = true);
            running.leaving = true;
        }
    }

    /// The next worker that has ended. Never resolves while there is none.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn ended(&mut self) -> Ended {
        loop {
            let Some(ended) = self.workers.join_next_with_id().await else {
                std::future::pending::<()>().await;
                continue;
            };
            let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
            if let Some(running) = self.running.remove(&id) {
                if running.leaving && ended.is_ok() {
                    return Ended::Left;
                }
                let ids = running.orders.borrow().table.taking_part().map(|route| route.subscription.id).collect();
                self.broken.insert(running.place.clone());
                return Ended::Broke(running.place, ids);
            }
        }
    }

    /// Every worker leaves by itself once the stop is asked for, within its bounds; one that does not is cut off.
    pub(super) async fn leave(mut self) {
        let all_left = async { while self.workers.join_next().await.is_some() {} };
        if timeout(CONSUMER_BUDGET, all_left).await.is_err() {
            self.workers.shutdown().await;
        }
    }
}
