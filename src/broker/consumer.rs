//! One consumer on a channel of its own: attach, deliveries in order, pause and resume, close.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use tokio::time::{sleep, timeout};

use super::convert;
use super::fault::{self, Place};
use super::link::{Link, close_channel};
use super::settle::{ChannelLife, LapinSettler};
use crate::domain::envelope::Envelope;
use crate::domain::fault::{BrokerFault, BrokerFaultKind};
use crate::domain::ids::ConsumerTag;
use crate::ports::{AttachOrder, Consumer};

const DOING: &str = "consume from";

/// A consumer that the broker has confirmed.
pub struct LapinConsumer {
    // Before the channel: dropped in this order, lapin cancels the consumer while its channel still stands.
    stream: lapin::Consumer,
    life: Rc<ChannelLife>,
    order: AttachOrder,
    state: State,
    /// What came after the broker was asked to stop.
    on_their_way: VecDeque<Envelope>,
    ended: Option<BrokerFault>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Consuming,
    /// The broker was asked to stop, and the stream has not ended yet.
    Pausing,
    Paused,
}

/// How often a channel without a consumer is looked at: nothing else tells of its end.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Channel → qos → consume, all within one rpc timeout.
pub(super) async fn attach(link: Rc<Link>, order: AttachOrder) -> Result<LapinConsumer, BrokerFault> {
    let place = link.place();
    let queue = ShortString::try_new(order.queue.as_str()).map_err(|_| too_long(place, &order, QUEUE))?;
    let tag = ShortString::try_new(order.tag.as_str()).map_err(|_| too_long(place, &order, TAG))?;
    let calls = async {
        let channel = link.connection().create_channel().await?;
        // From here on whatever happens closes the channel.
        let life = ChannelLife::new(channel, Rc::clone(&link), &order);
        life.channel.basic_qos(order.prefetch, BasicQosOptions::default()).await?;
        let options = BasicConsumeOptions::default();
        let stream = life.channel.basic_consume(queue, tag, options, FieldTable::default()).await?;
        Ok::<_, lapin::Error>((life, stream))
    };
    match timeout(link.rpc_timeout, calls).await {
        Ok(Ok((life, stream))) => {
            let (life, on_their_way) = (Rc::new(life), VecDeque::new());
            Ok(LapinConsumer { stream, life, order, state: State::Consuming, on_their_way, ended: None })
        }
        Ok(Err(error)) => Err(fault::channel(place, DOING, &order.queue, &error)),
        Err(_) => Err(fault::call_timed_out(place, DOING, &order.queue, link.rpc_timeout)),
    }
}

const QUEUE: &str = "the queue's name";
const TAG: &str = "the consumer tag";

fn too_long(place: &Place, order: &AttachOrder, what: &str) -> BrokerFault {
    let text = format!("{DOING} queue {:?} over {place}: {what} is longer than 255 bytes; shorten it", order.queue);
    fault::fault(BrokerFaultKind::PreconditionFailed, text)
}

impl Consumer for LapinConsumer {
    type Settler = LapinSettler;

    /// Every call after a fault repeats it. `Cancelled` leaves the channel standing: what was handed out stays settleable.
    async fn next(&mut self) -> Result<Envelope, BrokerFault> {
        if let Some(envelope) = self.on_their_way.pop_front() {
            return Ok(envelope);
        }
        if self.ended.is_none() && self.state == State::Pausing {
            self.drain().await;
            if let Some(envelope) = self.on_their_way.pop_front() {
                return Ok(envelope);
            }
        }
        while self.ended.is_none() && self.state == State::Paused {
            if self.life.is_open() {
                sleep(LOOK_EVERY).await;
            } else {
                self.ended = Some(fault::channel_lost(self.life.link.place(), &self.order.queue));
            }
        }
        if let Some(fault) = &self.ended {
            return Err(fault.clone());
        }
        self.receive().await
    }

    fn settler(&self) -> LapinSettler {
        LapinSettler(Rc::clone(&self.life))
    }

    async fn pause(&mut self) -> Vec<Envelope> {
        if self.ended.is_none() && self.state == State::Consuming {
            self.state = State::Pausing;
            let cancel = self.life.channel.basic_cancel(self.stream.tag(), BasicCancelOptions::default());
            // An error means that the channel is gone, which the end of the stream tells.
            drop(timeout(self.life.link.rpc_timeout, cancel).await);
        }
        if self.ended.is_none() && self.state == State::Pausing {
            // Without the broker's answer there may be no end of the stream either.
            drop(timeout(self.life.link.rpc_timeout, self.drain()).await);
        }
        self.on_their_way.drain(..).collect()
    }

    async fn resume(&mut self, tag: ConsumerTag, prefetch: u16) -> Result<(), BrokerFault> {
        if let Some(fault) = &self.ended {
            return Err(fault.clone());
        }
        match self.state {
            State::Consuming => return Ok(()),
            State::Pausing => drop(timeout(self.life.link.rpc_timeout, self.drain()).await),
            State::Paused => {}
        }
        // Whatever ends this call early ends the channel: whether the broker consumes for us is then unknown.
        let place = self.life.link.place();
        let lost = self.ended.get_or_insert_with(|| fault::channel_lost(place, &self.order.queue));
        if self.state != State::Paused {
            return Err(lost.clone());
        }
        let queue = ShortString::try_new(self.order.queue.as_str()).map_err(|_| too_long(place, &self.order, QUEUE))?;
        let short_tag = ShortString::try_new(tag.as_str()).map_err(|_| too_long(place, &self.order, TAG))?;
        let channel = &self.life.channel;
        let consume = async {
            if prefetch != self.order.prefetch {
                self.life.set_prefetch(prefetch).await?;
            }
            channel.basic_consume(queue, short_tag, BasicConsumeOptions::default(), FieldTable::default()).await
        };
        match timeout(self.life.link.rpc_timeout, consume).await {
            Ok(Ok(stream)) => {
                (self.stream, self.state, self.ended) = (stream, State::Consuming, None);
                (self.order.tag, self.order.prefetch) = (tag, prefetch);
                Ok(())
            }
            Ok(Err(error)) => Err(fault::channel(place, DOING, &self.order.queue, &error)),
            Err(_) => Err(fault::call_timed_out(place, DOING, &self.order.queue, self.life.link.rpc_timeout)),
        }
    }

    async fn close(self) {
        close_channel(&self.life.channel).await;
    }
}

impl LapinConsumer {
    /// The next delivery of the stream, or its end.
    async fn receive(&mut self) -> Result<Envelope, BrokerFault> {
        let place = self.life.link.place();
        let fault = match self.stream.next().await {
            Some(Ok(delivery)) => {
                let envelope = convert::envelope(&self.order, delivery, self.life.link.stash());
                self.life.handed_out(envelope.tag);
                return Ok(envelope);
            }
            Some(Err(error)) => fault::channel(place, DOING, &self.order.queue, &error),
            None => fault::cancelled(place, &self.order.queue),
        };
        self.ended = Some(fault.clone());
        Err(fault)
    }

    /// Takes what the stream still holds. Its end without an error is what was asked for.
    async fn drain(&mut self) {
        loop {
            match self.receive().await {
                Ok(envelope) => self.on_their_way.push_back(envelope),
                Err(fault) if fault.kind == BrokerFaultKind::Cancelled => {
                    (self.state, self.ended) = (State::Paused, None);
                    return;
                }
                Err(_) => return,
            }
        }
    }
}
