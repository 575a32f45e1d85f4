//! Publishing real messages with everything a message can carry.

use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

/// No confirm takes longer on a machine that works.
const LIMIT: Duration = Duration::from_secs(60);

/// A message to publish.
#[derive(Clone, Debug)]
pub struct Message {
    /// The exchange; empty is the default exchange.
    pub exchange: String,
    /// The routing key; on the default exchange the queue's name.
    pub routing_key: String,
    /// The body.
    pub body: Vec<u8>,
    /// Everything else; persistent unless changed.
    pub properties: BasicProperties,
    headers: FieldTable,
}

impl Message {
    /// A persistent message for a queue, through the default exchange.
    pub fn to_queue(queue: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::to_exchange("", queue, body)
    }

    /// A persistent message for an exchange.
    pub fn to_exchange(exchange: &str, routing_key: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            exchange: exchange.to_owned(),
            routing_key: routing_key.to_owned(),
            body: body.into(),
            properties: BasicProperties::default().with_delivery_mode(2),
            headers: FieldTable::default(),
        }
    }

    /// Sets the message id.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.properties = self.properties.with_message_id(id.into());
        self
    }

    /// Sets a header to a text.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        self.header_value(name, AMQPValue::LongString(LongString::from(value)))
    }

    /// Sets a header to any AMQP value.
    #[must_use]
    pub fn header_value(mut self, name: &str, value: AMQPValue) -> Self {
        self.headers.insert(name.into(), value);
        self
    }

    /// Changes the properties by a function, such as `|p| p.with_priority(3)`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(BasicProperties) -> BasicProperties) -> Self {
        self.properties = change(self.properties);
        self
    }
}

/// Publishes messages in order over one connection and waits until the broker has confirmed them all.
///
/// # Panics
/// If the connection fails, or a message is not confirmed or cannot be routed.
pub fn publish(amqp_url: &str, messages: &[Message]) {
    over_one_connection(amqp_url, async |channel| send(channel, messages).await);
}

/// Ready messages and consumers of a queue, by a passive declare: exact, and as of now.
///
/// # Panics
/// If the connection fails or there is no such queue.
pub fn passive(amqp_url: &str, queue: &str) -> (u32, u32) {
    over_one_connection(amqp_url, async |channel| counts(channel, queue).await)
}

/// Does something over a connection that lasts as long, blocking.
fn over_one_connection<T>(amqp_url: &str, work: impl AsyncFnOnce(&Channel) -> lapin::Result<T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let all = async {
        let (connection, channel) = connect(amqp_url).await?;
        let made = work(&channel).await?;
        connection.close(200, "done".into()).await?;
        Ok::<_, lapin::Error>(made)
    };
    runtime
        .block_on(async { tokio::time::timeout(LIMIT, all).await })
        .expect("answered within the limit")
        .expect("a connection that works")
}

// --- for tests that are async themselves ------------------------------------------------------------------------------------

/// A connection, and a channel on which the broker confirms what is published.
///
/// # Errors
/// Whatever lapin reports.
pub async fn connect(amqp_url: &str) -> lapin::Result<(Connection, Channel)> {
    let runtime = async_rs::Runtime::tokio_current();
    let options = ConnectionProperties::default().with_connection_name("test client".into());
    let connection = Connection::connect_with_runtime(amqp_url, options, runtime).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok((connection, channel))
}

/// Publishes messages in order and waits until the broker has confirmed them all.
///
/// # Errors
/// Whatever lapin reports.
///
/// # Panics
/// If a message is not confirmed or cannot be routed.
pub async fn send(channel: &Channel, messages: &[Message]) -> lapin::Result<()> {
    let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let mut confirms = Vec::new();
    for message in messages {
        let properties = if message.headers.inner().is_empty() {
            message.properties.clone()
        } else {
            message.properties.clone().with_headers(message.headers.clone())
        };
        let confirm = channel
            .basic_publish(
                message.exchange.as_str().into(),
                message.routing_key.as_str().into(),
                mandatory,
                &message.body,
                properties,
            )
            .await?;
        confirms.push(confirm);
    }
    for confirm in confirms {
        let confirm = confirm.await?;
        // An acknowledged message may still have come back as unroutable.
        assert!(matches!(confirm, lapin::Confirmation::Ack(None)), "not taken by any queue: {confirm:?}");
    }
    Ok(())
}

/// Ready messages and consumers of a queue, by a passive declare: exact, and as of now.
///
/// # Errors
/// Whatever lapin reports; a queue that is not there closes the channel.
pub async fn counts(channel: &Channel, queue: &str) -> lapin::Result<(u32, u32)> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let found = channel.queue_declare(queue.into(), passive, FieldTable::default()).await?;
    Ok((found.message_count(), found.consumer_count()))
}
