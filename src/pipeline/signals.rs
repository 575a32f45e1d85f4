//! What a worker listens to besides its consumer: the stop, its orders, and what becomes of its DAG.

use std::rc::Rc;

use tokio::sync::watch;

use crate::domain::dag_state::DagView;
use crate::domain::shutdown::Phase;
use crate::domain::subscription::Subscription;

/// What a worker is told.
#[derive(Clone, Debug)]
pub struct Order {
    /// What it serves. Its key and its number never change; its options count for deliveries that are received from now on.
    pub subscription: Rc<Subscription>,
    /// It is to give everything back and end.
    pub leave: bool,
}

/// The worker's end of all of them.
pub(super) struct Signals {
    phase: watch::Receiver<Phase>,
    orders: watch::Receiver<Order>,
    dag: watch::Receiver<DagView>,
}

impl Signals {
    pub(super) fn new(
        phase: watch::Receiver<Phase>,
        orders: watch::Receiver<Order>,
        dag: watch::Receiver<DagView>,
    ) -> Self {
        Self { phase, orders, dag }
    }

    /// What is served, with the options that count now.
    pub(super) fn subscription(&self) -> Rc<Subscription> {
        Rc::clone(&self.orders.borrow().subscription)
    }

    /// What Airflow says of the DAG.
    pub(super) fn view(&self) -> DagView {
        self.dag.borrow().clone()
    }

    /// Whether the worker is to end.
    pub(super) fn must_leave(&self) -> bool {
        *self.phase.borrow() == Phase::Stopping || self.orders.borrow().leave
    }

    /// Resolves once the worker is to end.
    ///
    /// # Cancel safety
    /// Cancel safe; it takes no change away from [`Signals::changed`].
    pub(super) async fn left(&self) {
        let (mut phase, mut orders) = (self.phase.clone(), self.orders.clone());
        tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase == Phase::Stopping) => {}
            Ok(_) = orders.wait_for(|order| order.leave) => {}
            else => {}
        }
    }

    /// Resolves when anything changed, or the worker is to end. Whoever gives the orders may be gone; the last one counts on.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            biased;
            _ = self.phase.wait_for(|phase| *phase == Phase::Stopping) => {}
            Ok(()) = self.orders.changed() => {}
            Ok(()) = self.dag.changed() => {}
            else => {}
        }
    }
}
