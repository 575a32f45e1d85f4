//! What every test here uses: a single-threaded runtime, a pool over fixed settings, a raw lapin client, counting of threads
//! and sockets.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::protocol::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use rmq_watcher::broker::{LapinConsumer, Pool};
use rmq_watcher::domain::connection::AmqpSettings;
use rmq_watcher::domain::envelope::Envelope;
use rmq_watcher::domain::fault::BrokerFault;
use rmq_watcher::domain::ids::{ConnId, ConsumerTag, Epoch, QueueName};
use rmq_watcher::ports::{AttachOrder, Broker, ConnectionSource, Consumer};

use crate::node::Node;

/// Tests that count threads run alone; all others side by side.
static ALONE: RwLock<()> = RwLock::new(());

fn runtime(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        tokio::time::timeout(Duration::from_secs(240), test).await.expect("the test must end within its time");
    });
}

/// Runs a test as the watcher runs: everything on one thread.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let _side_by_side = ALONE.read().unwrap_or_else(PoisonError::into_inner);
    runtime(test);
}

/// The same, with no other test of this process under way.
pub(crate) fn run_alone(test: impl Future<Output = ()>) {
    let _alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
    runtime(test);
}

/// Hands out the same settings each time and counts.
#[derive(Clone)]
pub(crate) struct Fixed {
    pub(crate) settings: Rc<AmqpSettings>,
    pub(crate) resolved: Rc<Cell<u32>>,
    pub(crate) refused: Rc<Cell<u32>>,
}

impl ConnectionSource for Fixed {
    async fn resolve(&self, _conn: &ConnId) -> Result<AmqpSettings, BrokerFault> {
        self.resolved.set(self.resolved.get() + 1);
        Ok((*self.settings).clone())
    }

    fn login_refused(&self, _conn: &ConnId) {
        self.refused.set(self.refused.get() + 1);
    }
}

pub(crate) fn source(settings: AmqpSettings) -> Fixed {
    Fixed { settings: Rc::new(settings), resolved: Rc::default(), refused: Rc::default() }
}

pub(crate) fn pool(settings: AmqpSettings) -> Pool<Fixed> {
    Pool::new(source(settings))
}

/// An order for a queue with a tag of its own.
pub(crate) fn order(queue: &str, prefetch: u16) -> AttachOrder {
    AttachOrder {
        conn_id: ConnId::new("rmq_test"),
        queue: QueueName::new(queue),
        tag: ConsumerTag::new(format!("tag.{:016x}", fastrand::u64(..))),
        epoch: Epoch(7),
        prefetch,
    }
}

/// The fault of an attach that must fail.
pub(crate) async fn refusal(pool: &Pool<Fixed>, queue: &str) -> BrokerFault {
    match pool.attach(order(queue, 1)).await {
        Ok(_) => panic!("attaching to {queue:?} must fail"),
        Err(fault) => fault,
    }
}

/// The next delivery, at most 20 s away.
pub(crate) async fn next(consumer: &mut LapinConsumer) -> Envelope {
    within(20, consumer.next()).await.unwrap()
}

/// The fault a consumer ends with.
pub(crate) async fn end_of(consumer: &mut LapinConsumer, secs: u64) -> BrokerFault {
    match within(secs, consumer.next()).await {
        Ok(envelope) => panic!("a delivery instead of the end: {:?}", envelope.tag),
        Err(fault) => fault,
    }
}

pub(crate) async fn within<T>(secs: u64, what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(secs), what).await.expect("must happen within its time")
}

/// Waits for a condition, looking ten times a second.
pub(crate) async fn eventually(secs: u64, what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(secs);
    while !condition() {
        assert!(Instant::now() < deadline, "not within {secs} s: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A plain lapin client that declares and publishes.
pub(crate) struct Client {
    connection: lapin::Connection,
    pub(crate) channel: lapin::Channel,
}

impl Client {
    pub(crate) async fn open(node: &Node) -> Self {
        let uri = format!("amqp://guest:guest@127.0.0.1:{}/{}", node.port, node.vhost);
        let connection = lapin::Connection::connect(&uri, lapin::ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Self { connection, channel }
    }

    /// Declares a queue with a name of its own.
    pub(crate) async fn queue(&self, kind: &str, arguments: &[(&str, AMQPValue)]) -> String {
        let name = format!("q.{kind}.{:016x}", fastrand::u64(..));
        let mut table = FieldTable::default();
        table.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
        for (key, value) in arguments {
            table.insert((*key).into(), value.clone());
        }
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(name.as_str().into(), options, table).await.unwrap();
        name
    }

    pub(crate) async fn publish(&self, queue: &str, properties: BasicProperties, body: &[u8]) {
        let confirm = self
            .channel
            .basic_publish("".into(), queue.into(), BasicPublishOptions::default(), body, properties)
            .await
            .unwrap()
            .await
            .unwrap();
        assert!(confirm.is_ack());
    }

    pub(crate) async fn publish_text(&self, queue: &str, text: &str) {
        self.publish(queue, BasicProperties::default(), text.as_bytes()).await;
    }

    /// Messages ready and consumers, by a passive declare.
    pub(crate) async fn counts(&self, queue: &str) -> (u32, u32) {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let found = self.channel.queue_declare(queue.into(), options, FieldTable::default()).await.unwrap();
        (found.message_count(), found.consumer_count())
    }

    /// Waits until the queue has so many ready messages.
    pub(crate) async fn ready(&self, queue: &str, wanted: u32) {
        self.shows(queue, |(ready, _)| ready == wanted).await;
    }

    /// Waits until the queue is empty and without consumers; a quorum queue says so a moment after its channel closed.
    pub(crate) async fn idle(&self, queue: &str) {
        self.shows(queue, |counts| counts == (0, 0)).await;
    }

    async fn shows(&self, queue: &str, wanted: impl Fn((u32, u32)) -> bool) {
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

    pub(crate) async fn close(self) {
        self.connection.close(200, "OK".into()).await.unwrap();
    }
}

/// Threads of lapin and open sockets of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footprint {
    pub(crate) lapin_threads: usize,
    pub(crate) sockets: usize,
}

pub(crate) fn footprint() -> Footprint {
    let lapin_threads = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter(|t| {
            let comm = t.as_ref().unwrap().path().join("comm");
            std::fs::read_to_string(comm).is_ok_and(|c| c.starts_with("lapin"))
        })
        .count();
    let sockets = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter(|f| {
            std::fs::read_link(f.as_ref().unwrap().path()).is_ok_and(|l| l.to_string_lossy().starts_with("socket:"))
        })
        .count();
    Footprint { lapin_threads, sockets }
}

/// Waits until the footprint is what it was.
pub(crate) async fn no_growth(before: Footprint) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while footprint() != before {
        let now = footprint();
        assert!(Instant::now() < deadline, "{before:?} has become {now:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
