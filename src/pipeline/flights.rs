//! Rows that a task is driving now, so that a redelivery joins the task instead of starting a second one.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use tokio::sync::Notify;

use super::channel::Held;
use crate::store::ledger::RowId;

/// The place from which a delivery is settled in the end, with the rows that are driven from it.
pub(super) struct Seat<S> {
    held: RefCell<Option<Held<S>>>,
    rows: RefCell<Vec<RowId>>,
    /// The number of the copy that is in it; no number: the original.
    copy: Option<u32>,
    /// A later copy of its message has come.
    is_replaced: Cell<bool>,
    changed: Notify,
    landed: Notify,
}

impl<S> Seat<S> {
    pub(super) fn new(held: Held<S>, copy: Option<u32>) -> Rc<Self> {
        let (rows, is_replaced) = (RefCell::default(), Cell::default());
        let (changed, landed) = (Notify::new(), Notify::new());
        Rc::new(Self { held: RefCell::new(Some(held)), rows, copy, is_replaced, changed, landed })
    }

    /// Puts the newest delivery of the rows in place of an older one, whose channel is gone.
    fn hand_over(&self, held: Option<Held<S>>) {
        self.held.replace(held);
        self.changed.notify_one();
    }

    /// Whether a later copy of its message has come: this delivery is to be acknowledged.
    pub(super) fn is_replaced(&self) -> bool {
        self.is_replaced.get()
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

    /// Resolves when nothing is driven from here any more. Asked for right after [`Boarding::Taken`].
    pub(super) async fn landed(&self) {
        self.landed.notified().await;
    }
}

/// What became of boarding.
pub(super) enum Boarding<S> {
    /// The rows are driven from this seat now.
    Seated,
    /// Another task drives these very rows, and settles.
    Joined,
    /// Another task drives one of them, and not the same ones or not of the same copy: wait until it has landed.
    Taken(Rc<Seat<S>>),
}

/// All seats of one consumer.
pub(super) struct Flights<S>(RefCell<HashMap<RowId, Rc<Seat<S>>>>);

impl<S> Flights<S> {
    pub(super) fn new() -> Self {
        Self(RefCell::default())
    }

    /// Takes off with rows, or hands the delivery to the task that is driving them already.
    pub(super) fn board(&self, seat: &Rc<Seat<S>>, rows: &[RowId]) -> Boarding<S> {
        let mut flights = self.0.borrow_mut();
        if let Some(other) = rows.iter().find_map(|row| flights.get(row)) {
            let mut driven = other.rows.borrow().clone();
            let mut wanted = rows.to_vec();
            driven.sort_unstable();
            wanted.sort_unstable();
            if driven != wanted || other.copy != seat.copy {
                if other.copy < seat.copy {
                    other.is_replaced.set(true);
                    other.changed.notify_one();
                }
                return Boarding::Taken(Rc::clone(other));
            }
            other.hand_over(seat.take());
            return Boarding::Joined;
        }
        seat.rows.replace(rows.to_vec());
        flights.extend(rows.iter().map(|row| (*row, Rc::clone(seat))));
        Boarding::Seated
    }

    /// Nothing is driven from this seat any more. A later flight of a row has a seat of its own, which stays.
    pub(super) fn land(&self, seat: &Rc<Seat<S>>) {
        let mut flights = self.0.borrow_mut();
        for row in seat.rows.take() {
            if flights.get(&row).is_some_and(|current| Rc::ptr_eq(current, seat)) {
                flights.remove(&row);
            }
        }
        seat.landed.notify_waiters();
    }
}
