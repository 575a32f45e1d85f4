//! What every test here uses: a single-threaded runtime, a pool over fixed settings, orders and what comes of them.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use rmq_watcher::broker::{LapinConsumer, Pool};
use rmq_watcher::domain::connection::{AmqpSettings, Secret};
use rmq_watcher::domain::envelope::Envelope;
use rmq_watcher::domain::fault::{BrokerFault, BrokerFaultKind};
use rmq_watcher::domain::ids::{ConnId, ConsumerTag, Epoch, QueueName};
use rmq_watcher::ports::{AttachOrder, Broker, ConnectionSource, Consumer};

use crate::footprint::{note_rest, wait_for_rest};
use crate::support::{BrokerVersion, long_round};

/// Tests that count threads run alone; all others side by side.
static ALONE: RwLock<()> = RwLock::new(());

fn run_to_its_end(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        tokio::time::timeout(Duration::from_secs(240), test).await.expect("the test must end within its time");
    });
}

/// Runs a test as the watcher runs: everything on one thread.
pub(crate) fn run(test: impl Future<Output = ()>) {
    note_rest();
    let _side_by_side = ALONE.read().unwrap_or_else(PoisonError::into_inner);
    run_to_its_end(test);
}

/// The same, with no other test of this process under way and nothing left of those before.
pub(crate) fn run_alone(test: impl Future<Output = ()>) {
    note_rest();
    let _alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
    wait_for_rest();
    run_to_its_end(test);
}

/// [`run`] on the given version, or on each of them in the long round.
pub(crate) fn run_on(plain: BrokerVersion, test: impl AsyncFn(BrokerVersion)) {
    for version in versions(plain) {
        run(test(version));
    }
}

/// [`run_alone`] on the given version, or on each of them in the long round.
pub(crate) fn run_alone_on(plain: BrokerVersion, test: impl AsyncFn(BrokerVersion)) {
    for version in versions(plain) {
        run_alone(test(version));
    }
}

fn versions(plain: BrokerVersion) -> Vec<BrokerVersion> {
    if long_round() { BrokerVersion::ALL.to_vec() } else { vec![plain] }
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

/// A password that no text may show.
pub(crate) const PLANTED: &str = "planted-secret";

/// Settings for a peer on this port that need not be a broker.
pub(crate) fn settings_for(port: u16) -> AmqpSettings {
    AmqpSettings {
        conn_id: ConnId::new("rmq_test"),
        hosts: vec!["127.0.0.1".to_owned()],
        port,
        login: "user".to_owned(),
        password: Secret::new(PLANTED),
        vhost: "/".to_owned(),
        tls: None,
        heartbeat_secs: 30,
        connect_timeout: Duration::from_secs(15),
        rpc_timeout: Duration::from_secs(30),
        management_url: None,
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

/// That a fault is of this kind and says these words.
pub(crate) fn check(fault: &BrokerFault, kind: BrokerFaultKind, says: &[&str]) {
    assert_eq!(fault.kind, kind, "{}", fault.text);
    for words in says {
        assert!(fault.text.contains(words), "{words:?} not in {:?}", fault.text);
    }
}
