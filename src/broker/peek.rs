//! Taking one message off a queue and giving it back, for a person who wants to see it.
//!
//! The message is given back by closing its channel: on a quorum queue that counts, as every return does.

use lapin::options::BasicGetOptions;
use lapin::types::ShortString;
use tokio::time::timeout;

use super::connect::{self, Purpose};
use super::convert;
use super::fault;
use super::link::{Opened, close_channel};
use crate::domain::connection::AmqpSettings;
use crate::domain::envelope::Envelope;
use crate::domain::fault::{BrokerFault, BrokerFaultKind};
use crate::domain::ids::{ConsumerTag, Epoch, QueueName};
use crate::ports::AttachOrder;

const DOING: &str = "take a message from";

/// The message at the head of a queue; `None`: none is ready. It is back in its queue when this returns.
///
/// Bounded by the connect timeout, one rpc timeout, and 7 s for goodbye.
///
/// # Errors
/// The fault that stands in the way; nothing was taken, or it has gone back with its connection.
///
/// # Cancel safety
/// Dropping the future ends the connection, and with it gives back what was taken.
pub async fn peek(settings: &AmqpSettings, queue: &QueueName) -> Result<Option<Envelope>, BrokerFault> {
    let opened = connect::connect(settings, Purpose::Consume).await?;
    let got = get(settings, &opened, queue).await;
    opened.close().await;
    got
}

async fn get(settings: &AmqpSettings, opened: &Opened, queue: &QueueName) -> Result<Option<Envelope>, BrokerFault> {
    let place = &opened.place;
    let name = ShortString::try_new(queue.as_str()).map_err(|_| {
        let text = format!("{DOING} queue {queue:?}: its name is longer than 255 bytes; correct it");
        fault::fault(BrokerFaultKind::QueueMissing, text)
    })?;
    let calls = async {
        let channel = opened.connection.create_channel().await?;
        let got = channel.basic_get(name, BasicGetOptions::default()).await?;
        Ok::<_, lapin::Error>((channel, got))
    };
    match timeout(settings.rpc_timeout, calls).await {
        Ok(Ok((channel, got))) => {
            let (conn_id, queue, tag) = (settings.conn_id.clone(), queue.clone(), ConsumerTag::new(""));
            let order = AttachOrder { conn_id, queue, tag, epoch: Epoch(0), prefetch: 1 };
            let envelope = got.map(|got| convert::envelope(&order, got.delivery, &opened.stash));
            close_channel(&channel).await;
            Ok(envelope)
        }
        Ok(Err(error)) => Err(fault::channel(place, DOING, queue, &error)),
        Err(_) => Err(fault::call_timed_out(place, DOING, queue, settings.rpc_timeout)),
    }
}
