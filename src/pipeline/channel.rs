//! One life of a consumer's channel: who may settle on it, what was settled, and what the broker has confirmed of it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::context::{Arrow, Context};
use super::member::Members;
use crate::domain::ids::{DeliveryTag, Epoch};
use crate::ports::{Settled, Settler, Verb};
use crate::store::ledger::{Read, RowId};

/// Verbs are confirmed by a round trip, at most one in this time.
const CONFIRM_EVERY: Duration = Duration::from_millis(100);

/// A channel while it lives, and the knowledge that it does not any more.
pub(super) struct Channel<S> {
    pub(super) epoch: Epoch,
    settler: S,
    ended: watch::Sender<bool>,
    unconfirmed: RefCell<Vec<(RowId, Read)>>,
    verb_sent: Notify,
}

/// A delivery that is ours to settle: its tag can only be used together with the channel it came from.
pub(super) struct Held<S> {
    pub(super) channel: Rc<Channel<S>>,
    tag: DeliveryTag,
    /// The consumer's turn on the channel in which it arrived.
    pub(super) turn: u32,
    pub(super) deadline: Instant,
}

impl<S: Settler> Channel<S> {
    pub(super) fn new(epoch: Epoch, settler: S) -> Self {
        Self {
            epoch,
            settler,
            ended: watch::Sender::new(false),
            unconfirmed: RefCell::default(),
            verb_sent: Notify::new(),
        }
    }

    /// The channel is gone, and all deliveries of it with it.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Resolves once the channel is gone.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn ended(&self) {
        // The sender lives as long as `self`, so this cannot fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Turns verbs that were sent into settlements, for as long as the channel lives, and says what was left out of the log
    /// meanwhile. Sleeps while there is nothing to do.
    pub(super) async fn confirm<R>(&self, context: &Context<R>, members: &Members) {
        loop {
            if !members.all().iter().any(|member| member.report.leaves_out()) {
                self.verb_sent.notified().await;
            }
            sleep(CONFIRM_EVERY).await;
            if !self.confirm_now(context).await {
                return;
            }
            members.all().iter().for_each(|member| member.report.say_left_out(context.now_ms()));
        }
    }

    /// One round trip for all that was sent. Returns whether the channel lives.
    pub(super) async fn confirm_now<R>(&self, context: &Context<R>) -> bool {
        let rows = self.unconfirmed.take();
        if rows.is_empty() {
            return true;
        }
        let confirmed = self.settler.barrier().await;
        if confirmed {
            context.store.settled(rows, context.now_ms()).await;
            context.at(Arrow::Settled);
        }
        confirmed
    }
}

impl<S: Settler> Held<S> {
    pub(super) fn new(channel: Rc<Channel<S>>, tag: DeliveryTag, turn: u32, ack_deadline: Duration) -> Self {
        Self { channel, tag, turn, deadline: Instant::now() + ack_deadline }
    }

    /// Its tag, for books that are kept of its channel.
    pub(super) fn tag(&self) -> DeliveryTag {
        self.tag
    }

    /// How long it may stay with us.
    pub(super) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether its channel lives.
    pub(super) fn can_be_settled(&self) -> bool {
        !*self.channel.ended.borrow()
    }

    /// Sends the verb; `rows` are remembered until the broker has confirmed it.
    pub(super) async fn settle(self, verb: Verb, rows: Vec<(RowId, Read)>) -> Settled {
        let settled = self.channel.settler.settle(self.tag, verb).await;
        if settled == Settled::Sent && !rows.is_empty() {
            self.channel.unconfirmed.borrow_mut().extend(rows);
            self.channel.verb_sent.notify_one();
        }
        settled
    }
}
