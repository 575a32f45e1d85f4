//! A delivery as its matches see it, and how many of them wait for their target.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;

use super::budget::Spending;
use super::flights::Seat;
use crate::domain::copy::CopyHeader;
use crate::domain::envelope::Envelope;
use crate::domain::key::DeliveryKey;

/// A delivery as its matches see it.
pub(super) struct InHand<S> {
    /// As the message was published, where this is a copy.
    pub(super) envelope: Envelope,
    /// What it says as a copy.
    pub(super) copy: Option<CopyHeader>,
    pub(super) spending: Spending,
    pub(super) key: DeliveryKey,
    pub(super) seat: Rc<Seat<S>>,
    /// Matches that wait for their target.
    blocked: Cell<usize>,
    /// That number has changed.
    pub(super) changed: Notify,
}

impl<S> InHand<S> {
    pub(super) fn new((envelope, copy): (Envelope, Option<CopyHeader>), seat: Rc<Seat<S>>) -> Rc<Self> {
        let (key, spending) = (DeliveryKey::of(&envelope), Spending::default());
        Rc::new(Self { envelope, copy, spending, key, seat, blocked: Cell::default(), changed: Notify::new() })
    }

    pub(super) fn blocked(&self) -> usize {
        self.blocked.get()
    }

    pub(super) fn block(self: &Rc<Self>) -> Blocked<S> {
        self.blocked.set(self.blocked.get() + 1);
        self.changed.notify_one();
        Blocked(Rc::clone(self))
    }
}

/// One match waits for its target for as long as this lives.
pub(super) struct Blocked<S>(Rc<InHand<S>>);

impl<S> Drop for Blocked<S> {
    fn drop(&mut self) {
        self.0.blocked.set(self.0.blocked.get() - 1);
        self.0.changed.notify_one();
    }
}
