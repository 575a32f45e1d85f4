//! One consumer on a channel of its own: attach, deliveries in order, cancel, close.

use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use tokio::time::timeout;

use super::convert;
use super::fault;
use super::link::Link;
use super::settle::{ChannelLife, LapinSettler};
use crate::domain::envelope::Envelope;
use crate::domain::fault::{BrokerFault, BrokerFaultKind};
use crate::ports::{AttachOrder, Consumer};

const DOING: &str = "consume from";

/// Bound of closing a channel; what is unsettled goes back with it, or with the connection later.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

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
        channel.basic_qos(order.prefetch, BasicQosOptions::default()).await?;
        let stream = channel.basic_consume(queue, tag, BasicConsumeOptions::default(), FieldTable::default()).await?;
        Ok::<_, lapin::Error>((channel, stream))
    };
    let (channel, stream) = match timeout(link.rpc_timeout, calls).await {
        Ok(outcome) => outcome.map_err(|e| fault::channel(link.place(), DOING, &order.queue, &e))?,
        Err(_) => {
            return Err(fault::call_timed_out(link.place(), DOING, &order.queue, link.rpc_timeout));
        }
    };
    let life = ChannelLife::new(channel, link, order.queue.clone(), order.epoch, order.prefetch);
    Ok(LapinConsumer { stream, life: Rc::new(life), order, cancelled: false, ended: None })
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
                let envelope = convert::envelope(&self.order, delivery);
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
        if self.life.channel.status().connected() {
            let close = self.life.channel.close(200, "OK".into());
            drop(timeout(CLOSE_TIMEOUT, close).await);
        }
    }
}
