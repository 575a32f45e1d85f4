//! What a worker listens to besides its consumer: the stop and its orders.

use tokio::sync::watch;

use crate::domain::plan::Place;
use crate::domain::shutdown::Phase;
use crate::domain::table::Table;

/// What a worker is told.
#[derive(Clone, Debug)]
pub struct Order {
    /// What it consumes. Never changes.
    pub place: Place,
    /// The rows it works by. Options count for deliveries that are received from now on, and so do filters.
    pub table: Table,
    /// It is to give everything back and end.
    pub leave: bool,
}

/// The worker's end of all of them.
pub(super) struct Signals {
    phase: watch::Receiver<Phase>,
    orders: watch::Receiver<Order>,
}

impl Signals {
    pub(super) fn new(phase: watch::Receiver<Phase>, orders: watch::Receiver<Order>) -> Self {
        Self { phase, orders }
    }

    /// The rows that count now.
    pub(super) fn table(&self) -> Table {
        self.orders.borrow().table.clone()
    }

    /// Whether the worker is to end; also when nobody is left who could tell it to.
    pub(super) fn must_leave(&self) -> bool {
        *self.phase.borrow() == Phase::Stopping || self.phase.has_changed().is_err() || self.orders.borrow().leave
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
            else => std::future::pending().await,
        }
    }
}
