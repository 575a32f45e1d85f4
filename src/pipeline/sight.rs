//! What a consumer remembers of the messages that it looked at: how often each was seen, what its queue is, and which lines about
//! misses are due.

use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;
use std::time::Duration;

use super::queue_book::Page;
use crate::domain::budget::returns_so_far;
use crate::domain::envelope::Envelope;
use crate::domain::ids::QueueName;
use crate::domain::key::DeliveryKey;
use crate::domain::miss_series::{Due, MissSeries, Seen};
use crate::domain::park::{self, Sightings};
use crate::domain::queue_facts::{Limit, QueueFacts};
use crate::telemetry::events;

/// Kept across reconnects.
pub(super) struct Sight {
    sightings: RefCell<Sightings>,
    page: Rc<Page>,
    series: RefCell<MissSeries>,
    /// Deliveries that are held for blocked subscriptions alone.
    kept: Cell<usize>,
}

impl Sight {
    pub(super) fn new(page: Rc<Page>) -> Self {
        Self { sightings: RefCell::default(), page, series: RefCell::default(), kept: Cell::default() }
    }

    /// What is known of the queue.
    pub(super) fn facts(&self) -> QueueFacts {
        self.page.facts.borrow().clone()
    }

    /// How long a delivery may stay unsettled where so long is wanted.
    pub(super) fn ack_deadline(&self, wanted: Duration) -> Duration {
        self.page.facts.borrow().ack_deadline(wanted)
    }

    /// Learns from a delivery what its queue is.
    pub(super) fn learn(&self, envelope: &Envelope) {
        let is_known = self.page.facts.borrow().kind.is_some();
        if envelope.redelivered && !is_known {
            let learnt = self.page.facts.take().learn(true, envelope.delivery_count().is_some());
            self.page.facts.replace(learnt);
        }
    }

    /// Notes a message that starts nothing, and returns how often it was seen before. `carried`: before it was copied.
    pub(super) fn sighted(&self, envelope: &Envelope, key: &DeliveryKey, carried: u32) -> u32 {
        let counted = returns_so_far(envelope.redelivered, envelope.delivery_count());
        let seen = self.sightings.borrow_mut().note(number(key), envelope.redelivered, counted);
        seen.saturating_add(carried)
    }

    /// How long a message that starts nothing is kept.
    pub(super) fn pause(&self, seen: u32, ack_deadline: Duration) -> Duration {
        park::pause(seen, self.limit(), ack_deadline)
    }

    /// How many returns a message of the queue survives.
    pub(super) fn limit(&self) -> Limit {
        self.page.facts.borrow().limit(None)
    }

    /// Whether what is rejected is safe only with us.
    pub(super) fn must_keep_rejected(&self) -> bool {
        self.page.facts.borrow().must_keep_rejected(None)
    }

    /// Notes a judged delivery, and says what is due.
    pub(super) fn note(&self, queue: &QueueName, seen: Seen<'_>) {
        for due in self.series.borrow_mut().note(seen) {
            let line = due.text(queue.as_str());
            match due {
                Due::Misses { .. } => tracing::warn!(event = events::FILTER_MISSED, "RMQ Watcher: {line}"),
                Due::Dropped { .. } => tracing::warn!(event = events::FILTER_DROPPED, "RMQ Watcher: {line}"),
                Due::Errors { .. } => tracing::warn!(event = events::FILTER_FAILED, "RMQ Watcher: {line}"),
            }
        }
    }

    /// How many deliveries are held for blocked subscriptions alone.
    pub(super) fn kept(&self) -> usize {
        self.kept.get()
    }

    /// One more is, for as long as what is returned lives.
    pub(super) fn keep(&self) -> Kept<'_> {
        self.kept.set(self.kept.get() + 1);
        Kept(&self.kept)
    }
}

/// One delivery that is held for blocked subscriptions alone.
pub(super) struct Kept<'a>(&'a Cell<usize>);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A key as a number: it need only tell the messages of one queue apart, and a mistake costs one of them a longer pause.
fn number(key: &DeliveryKey) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, key.text()).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}
