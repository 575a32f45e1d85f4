//! An AMQP client of the test's own that stays connected: publishes and counts without blocking the test's one thread.

use std::time::{Duration, Instant};

use lapin::protocol::BasicProperties;

use crate::support::{Broker, Message, publish};

/// A plain lapin client.
pub(crate) struct Client {
    connection: lapin::Connection,
    pub(crate) channel: lapin::Channel,
}

impl Client {
    pub(crate) async fn open(node: &Broker) -> Self {
        let (connection, channel) = publish::connect(&node.url()).await.unwrap();
        Self { connection, channel }
    }

    pub(crate) async fn publish(&self, queue: &str, properties: BasicProperties, body: &[u8]) {
        let message = Message::to_queue(queue, body).with(|_| properties);
        publish::send(&self.channel, &[message]).await.unwrap();
    }

    /// Messages ready and consumers.
    pub(crate) async fn counts(&self, queue: &str) -> (u32, u32) {
        publish::counts(&self.channel, queue).await.unwrap()
    }

    /// Waits until the queue has such counts; a quorum queue says so a moment after what changes them.
    pub(crate) async fn shows(&self, queue: &str, wanted: impl Fn((u32, u32)) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let counts = self.counts(queue).await;
            if wanted(counts) {
                return;
            }
            assert!(Instant::now() < deadline, "{queue} stays at {counts:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn close(&self) {
        self.connection.close(200, "OK".into()).await.unwrap();
    }
}
