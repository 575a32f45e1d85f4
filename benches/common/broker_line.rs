//! One open AMQP channel of the benchmark's own, so that publishing and looking cost no new connection each time.

use std::time::{Duration, Instant};

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use tokio::runtime::{Builder, Runtime};

/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// An open channel.
pub struct BrokerLine {
    runtime: Runtime,
    channel: Channel,
    _connection: Connection,
}

impl BrokerLine {
    /// Connects.
    ///
    /// # Panics
    /// If it cannot.
    pub fn open(amqp_url: &str) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (connection, channel) = runtime.block_on(async {
            let on = async_rs::Runtime::tokio_current();
            let connection =
                Connection::connect_with_runtime(amqp_url, ConnectionProperties::default(), on).await.unwrap();
            let channel = connection.create_channel().await.unwrap();
            channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
            (connection, channel)
        });
        Self { runtime, channel, _connection: connection }
    }

    /// Publishes one persistent message and returns the moment before it was handed to the channel.
    pub fn publish(&self, queue: &str, id: &str, body: &[u8]) -> Instant {
        self.runtime.block_on(async {
            let properties = BasicProperties::default().with_delivery_mode(2).with_message_id(id.into());
            let options = BasicPublishOptions::default();
            let began = Instant::now();
            let confirm = self.channel.basic_publish("".into(), queue.into(), options, body, properties).await.unwrap();
            confirm.await.unwrap();
            began
        })
    }

    /// Ready messages and consumers of a queue, now: a passive declare.
    pub fn counts(&self, queue: &str) -> (u32, u32) {
        self.runtime.block_on(async {
            let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
            let found = self.channel.queue_declare(queue.into(), passive, FieldTable::default()).await.unwrap();
            (found.message_count(), found.consumer_count())
        })
    }

    /// Waits until the queue has so many consumers, looking each millisecond, and returns the moment it was seen.
    ///
    /// # Panics
    /// If it has not within a minute.
    pub fn wait_consumers(&self, queue: &str, count: u32) -> Instant {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let found = self.counts(queue).1;
            let now = Instant::now();
            if found == count {
                return now;
            }
            assert!(now < end, "{queue} has {found} consumers, not {count}");
            crate::support::wait::pause(LOOK_EVERY);
        }
    }
}
