//! Rows that a task is driving now, so that a redelivery joins the task instead of starting a second one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tokio::sync::Notify;

use super::channel::Held;
use crate::store::ledger::RowId;

/// The place from which a row's delivery is settled in the end.
pub(super) struct Seat<S> {
    held: RefCell<Option<Held<S>>>,
    changed: Notify,
}

impl<S> Seat<S> {
    pub(super) fn new(held: Held<S>) -> Rc<Self> {
        Rc::new(Self { held: RefCell::new(Some(held)), changed: Notify::new() })
    }

    /// Puts the newest delivery of the row in place of an older one, whose channel is gone.
    fn hand_over(&self, held: Held<S>) {
        self.held.replace(Some(held));
        self.changed.notify_one();
    }

    /// Takes the delivery to settle it.
    pub(super) fn take(&self) -> Option<Held<S>> {
        self.held.take()
    }

    /// Looks at the delivery.
    pub(super) fn with<T>(&self, look: impl FnOnce(&Held<S>) -> T) -> Option<T> {
        self.held.borrow().as_ref().map(look)
    }

    /// Resolves when another delivery was put in place.
    ///
    /// # Cancel safety
    /// Cancel safe: a change in between is remembered.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// All seats of one consumer.
pub(super) struct Flights<S>(RefCell<HashMap<RowId, Rc<Seat<S>>>>);

impl<S> Flights<S> {
    pub(super) fn new() -> Self {
        Self(RefCell::default())
    }

    /// Takes off with a row, or joins the task that is driving it already: then `None`, and that task settles.
    pub(super) fn board(&self, row: RowId, held: Held<S>) -> Option<Rc<Seat<S>>> {
        let mut flights = self.0.borrow_mut();
        if let Some(seat) = flights.get(&row) {
            seat.hand_over(held);
            return None;
        }
        let seat = Seat::new(held);
        flights.insert(row, Rc::clone(&seat));
        Some(seat)
    }

    /// The row is not driven from this seat any more. A later flight of the row has a seat of its own, which stays.
    pub(super) fn land(&self, row: RowId, seat: &Rc<Seat<S>>) {
        let mut flights = self.0.borrow_mut();
        if flights.get(&row).is_some_and(|current| Rc::ptr_eq(current, seat)) {
            flights.remove(&row);
        }
    }
}
