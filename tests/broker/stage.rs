//! What most tests begin with: a queue on a real node, a client beside it, and a pool that leads to it.

use lapin::protocol::BasicProperties;
use rmq_watcher::broker::{LapinConsumer, Pool};
use rmq_watcher::domain::connection::{AmqpSettings, Secret};
use rmq_watcher::ports::Broker as _;

use crate::client::Client;
use crate::harness::{Fixed, order, settings_for, source};
use crate::support::{Broker, BrokerVersion, QueueKind};

/// Plain settings for a node's `guest`.
pub(crate) fn settings(node: &Broker) -> AmqpSettings {
    AmqpSettings {
        login: "guest".to_owned(),
        password: Secret::new("guest"),
        vhost: node.vhost().to_owned(),
        ..settings_for(node.address().port())
    }
}

/// Its parts end in this order, so the node outlives whatever is connected to it.
pub(crate) struct Stage {
    pub(crate) pool: Pool<Fixed>,
    /// Where the pool has its settings from.
    pub(crate) source: Fixed,
    pub(crate) client: Client,
    pub(crate) queue: String,
    pub(crate) node: Broker,
}

impl Stage {
    /// A queue in a virtual host of its own on the shared node.
    pub(crate) async fn shared(version: BrokerVersion, kind: QueueKind) -> Self {
        Self::on(Broker::shared(version), kind).await
    }

    /// A queue on this node.
    pub(crate) async fn on(node: Broker, kind: QueueKind) -> Self {
        let queue = declare(&node, kind, serde_json::Value::Null);
        Self::at(node, queue).await
    }

    /// A queue that is there already.
    pub(crate) async fn at(node: Broker, queue: String) -> Self {
        let client = Client::open(&node).await;
        let source = source(settings(&node));
        Self { pool: Pool::new(source.clone()), source, client, queue, node }
    }

    /// The same with a pool that has other settings; to be called before anything is attached.
    pub(crate) fn with(mut self, change: impl FnOnce(AmqpSettings) -> AmqpSettings) -> Self {
        self.source = source(change(settings(&self.node)));
        self.pool = Pool::new(self.source.clone());
        self
    }

    /// A consumer of the queue.
    pub(crate) async fn attach(&self, prefetch: u16) -> LapinConsumer {
        self.pool.attach(order(&self.queue, prefetch)).await.unwrap()
    }

    pub(crate) async fn publish(&self, text: &str) {
        self.client.publish(&self.queue, BasicProperties::default(), text.as_bytes()).await;
    }

    /// Publishes the numbers from 0 on, one message each.
    pub(crate) async fn publish_numbers(&self, count: u32) {
        for n in 0..count {
            self.publish(&n.to_string()).await;
        }
    }

    /// Messages ready and consumers.
    pub(crate) async fn counts(&self) -> (u32, u32) {
        self.client.counts(&self.queue).await
    }

    /// Waits until the queue has so many ready messages.
    pub(crate) async fn ready(&self, wanted: u32) {
        self.client.shows(&self.queue, |(ready, _)| ready == wanted).await;
    }

    /// Waits until the queue is empty and without consumers.
    pub(crate) async fn idle(&self) {
        self.client.shows(&self.queue, |counts| counts == (0, 0)).await;
    }
}

/// Declares a queue with a name of its own.
pub(crate) fn declare(node: &Broker, kind: QueueKind, arguments: serde_json::Value) -> String {
    let name = format!("q.{kind:?}.{:016x}", fastrand::u64(..)).to_lowercase();
    node.declare(&name, kind, arguments);
    name
}
