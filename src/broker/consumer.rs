//! One consumer on a channel of its own: attach, deliveries in order, cancel, close.

use std::rc::Rc;

use futures_util::StreamExt;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use tokio::time::timeout;

use super::convert;
use super::fault;
use super::link::{Link, close_channel};
use super::settle::{ChannelLife, LapinSettler};
use crate::domain::envelope::Envelope;
use crate::domain::fault::{BrokerFault, BrokerFaultKind};
use crate::ports::{AttachOrder, Consumer};

const DOING: &str = "consume from";

/// A consumer that the broker has confirmed.
pub struct LapinConsumer {
    // Before the channel: dropped in this order, lapin cancels the consumer while its channel still stands.
    stream: lapin::Consumer,
    life: Rc<ChannelLife>,
    order: AttachOrder,
    cancelled: bool,
    ended: Option<BrokerFault>,
}

/// Channel → qos → consume, all within one rpc timeout.
pub(super) async fn attach(link: Rc<Link>, order: AttachOrder) -> Result<LapinConsumer, BrokerFault> {
    let too_long = |what: &str| {
        let text = format!(
            "{DOING} queue {:?} over {}: {what} is longer than 255 bytes; shorten it",
            order.queue,
            link.place()
        );
        fault::fault(BrokerFaultKind::PreconditionFailed, text)
    };
    let queue = ShortString::try_new(order.queue.as_str()).map_err(|_| too_long("the queue's name"))?;
    let tag = ShortString::try_new(order.tag.as_str()).map_err(|_| too_long("the consumer tag"))?;
    let calls = async {
        let channel = link.connection().create_channel().await?;
        // From here on whatever happens closes the channel.
        let life = ChannelLife::new(channel, Rc::clone(&link), &order);
        life.channel.basic_qos(order.prefetch, BasicQosOptions::default()).await?;
        let options = BasicConsumeOptions::default();
        let stream = life.channel.basic_consume(queue, tag, options, FieldTable::default()).await?;
        Ok::<_, lapin::Error>((life, stream))
    };
    let place = link.place();
    match timeout(link.rpc_timeout, calls).await {
        Ok(Ok((life, stream))) => {
            Ok(LapinConsumer { stream, life: Rc::new(life), order, cancelled: false, ended: None })
        }
        Ok(Err(error)) => Err(fault::channel(place, DOING, &order.queue, &error)),
        Err(_) => Err(fault::call_timed_out(place, DOING, &order.queue, link.rpc_timeout)),
    }
}

impl Consumer for LapinConsumer {
    type Settler = LapinSettler;

    /// After [`Consumer::cancel`] the deliveries already on their way still come, then `Cancelled`. `Cancelled` leaves the
    /// channel standing: what was handed out stays settleable. Every later call repeats the same fault.
    async fn next(&mut self) -> Result<Envelope, BrokerFault> {
        if let Some(fault) = &self.ended {
            return Err(fault.clone());
        }
        let place = self.life.link.place();
        let fault = match self.stream.next().await {
            Some(Ok(delivery)) => {
                let envelope = convert::envelope(&self.order, delivery, self.life.link.stash());
                self.life.handed_out(envelope.tag);
                return Ok(envelope);
            }
            Some(Err(error)) => fault::channel(place, DOING, &self.order.queue, &error),
            None if self.cancelled => fault::cancelled_by_us(place, &self.order.queue),
            None => fault::cancelled(place, &self.order.queue),
        };
        self.ended = Some(fault.clone());
        Err(fault)
    }

    fn settler(&self) -> LapinSettler {
        LapinSettler(Rc::clone(&self.life))
    }

    async fn cancel(&mut self) {
        if self.cancelled || self.ended.is_some() {
            return;
        }
        self.cancelled = true;
        let cancel = self.life.channel.basic_cancel(self.stream.tag(), BasicCancelOptions::default());
        // An error means that the channel is gone, which the next call of `next` reports.
        drop(timeout(self.life.link.rpc_timeout, cancel).await);
    }

    async fn close(self) {
        close_channel(&self.life.channel).await;
    }
}
