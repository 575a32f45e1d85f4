//! Settling deliveries of one channel, each at most once.
//!
//! Verbs go straight to the channel, which costs half of what lapin's per-delivery acker does. lapin then guards nothing: a
//! tag settled twice would end the channel and give every other held delivery back. The set of unsettled tags kept here is
//! that guard. What verb means what is ADR 0006.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;

use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicNackOptions, BasicQosOptions, BasicRejectOptions};
use tokio::time::timeout;

use super::link::Link;
use crate::domain::ids::{DeliveryTag, Epoch, QueueName};
use crate::ports::{AttachOrder, Settled, Settler, Verb};
use crate::telemetry::events;

/// One life of one channel, shared by its consumer and all that settle on it. Closed when the last of them is gone, also
/// when attaching was given up half-way.
pub(super) struct ChannelLife {
    pub(super) channel: Channel,
    pub(super) link: Rc<Link>,
    queue: QueueName,
    epoch: Epoch,
    /// What holds for the next consumer: a round trip must not change it.
    prefetch: Cell<u16>,
    unsettled: RefCell<HashSet<DeliveryTag>>,
}

impl ChannelLife {
    pub(super) fn new(channel: Channel, link: Rc<Link>, order: &AttachOrder) -> Self {
        Self {
            channel,
            link,
            queue: order.queue.clone(),
            epoch: order.epoch,
            prefetch: Cell::new(order.prefetch),
            unsettled: RefCell::new(HashSet::new()),
        }
    }

    /// Notes a delivery as handed out.
    pub(super) fn handed_out(&self, tag: DeliveryTag) {
        self.unsettled.borrow_mut().insert(tag);
    }

    /// So many unsettled deliveries, for consumers that begin after it.
    pub(super) async fn set_prefetch(&self, prefetch: u16) -> lapin::Result<()> {
        self.prefetch.set(prefetch);
        self.channel.basic_qos(prefetch, BasicQosOptions::default()).await
    }

    /// Whether the channel lives, as far as was heard.
    pub(super) fn is_open(&self) -> bool {
        self.channel.status().connected() && self.link.is_connected()
    }

    async fn send(&self, tag: DeliveryTag, verb: Verb) -> lapin::Result<()> {
        match method(verb) {
            Method::Ack => self.channel.basic_ack(tag.0, BasicAckOptions { multiple: false }).await,
            Method::Reject { requeue } => self.channel.basic_reject(tag.0, BasicRejectOptions { requeue }).await,
            Method::Nack { requeue } => {
                let options = BasicNackOptions { requeue, multiple: false };
                self.channel.basic_nack(tag.0, options).await
            }
        }
    }
}

/// A settling method of AMQP; never of several deliveries at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Ack,
    Reject { requeue: bool },
    Nack { requeue: bool },
}

/// What a verb is on the wire.
fn method(verb: Verb) -> Method {
    match verb {
        Verb::Ack => Method::Ack,
        Verb::DeadLetter => Method::Reject { requeue: false },
        Verb::GiveBackTried => Method::Reject { requeue: true },
        Verb::GiveBackUntried => Method::Nack { requeue: true },
    }
}

impl Drop for ChannelLife {
    fn drop(&mut self) {
        self.link.close_channel(&self.channel);
    }
}

/// Settles deliveries of one channel. Clones settle on the same channel.
#[derive(Clone)]
pub struct LapinSettler(pub(super) Rc<ChannelLife>);

impl Settler for LapinSettler {
    /// `Lost` where nothing was sent: the channel is gone, or this delivery was settled before (which is a mistake of ours,
    /// and logged as an error). A peer that takes no bytes for the rpc timeout loses its connection, so that `Lost` is true.
    ///
    /// # Cancel safety
    /// Once polled, the verb may be sent; a dropped future counts as sent.
    async fn settle(&self, tag: DeliveryTag, verb: Verb) -> Settled {
        let life = &*self.0;
        if !life.unsettled.borrow_mut().remove(&tag) {
            tracing::error!(
                event = events::DELIVERY_SETTLED_TWICE,
                queue.name = %life.queue,
                delivery.tag = tag.0,
                epoch = life.epoch.0,
                "delivery {tag} of queue {} was to be settled again with {verb:?}; nothing was sent",
                life.queue,
            );
            return Settled::Lost;
        }
        match timeout(life.link.rpc_timeout, life.send(tag, verb)).await {
            Ok(Ok(())) => Settled::Sent,
            Ok(Err(_)) => Settled::Lost,
            Err(_) => {
                life.link.cut();
                Settled::Lost
            }
        }
    }

    /// `basic.qos` with the value that already holds: the cheapest method with an answer that changes nothing. Bounded by the
    /// rpc timeout; a broker that does not answer within it loses its connection, since no later answer could be told from the
    /// one that is missing.
    async fn barrier(&self) -> bool {
        let life = &*self.0;
        let round_trip = life.channel.basic_qos(life.prefetch.get(), BasicQosOptions::default());
        match timeout(life.link.rpc_timeout, round_trip).await {
            Ok(answer) => answer.is_ok(),
            Err(_) => {
                life.link.cut();
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_has_its_method() {
        for (verb, want) in [
            (Verb::Ack, Method::Ack),
            (Verb::DeadLetter, Method::Reject { requeue: false }),
            (Verb::GiveBackTried, Method::Reject { requeue: true }),
            (Verb::GiveBackUntried, Method::Nack { requeue: true }),
        ] {
            assert_eq!(method(verb), want);
        }
    }
}
