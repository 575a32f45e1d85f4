//! What is wrong at the broker is said in its own words, tried again, and over once it is mended.

use serde_json::json;

use crate::support::{Broker, BrokerVersion, Certificates, Dialect, Message, QueueKind, Setup, StubAirflow, Watcher};
use crate::waits::{LATER, SOON, wait_status};

struct Bench {
    broker: Broker,
    stub: StubAirflow,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(broker: Broker) -> Self {
        Self { broker, stub: StubAirflow::with_dag(Dialect::V2, "bench"), folder: tempfile::tempdir().unwrap() }
    }

    fn setup(&self, amqp_url: &str) -> Setup {
        let setup = Setup::in_folder(self.folder.path()).stub(&self.stub).connection("rmq_default", amqp_url);
        setup.dag("bench", "bench", "rmq_default");
        setup
    }

    /// Starts it, waits for the status, and for a second failed attempt after it.
    fn expect_fault(&self, setup: &Setup, parts: &[&str]) -> Watcher {
        let mut watcher = setup.start();
        watcher.announce("consumer.failed").announce("connection.doubted");
        wait_status(&setup.state_dir(), &[&["error: "], parts].concat());
        let attempts =
            || crate::waits::sql(&setup.state_dir(), "SELECT seq FROM sqlite_sequence WHERE name = 'epochs'");
        let first: u32 = attempts().parse().unwrap();
        let again = || attempts().parse::<u32>().is_ok_and(|now| now > first);
        crate::support::eventually(LATER, "another attempt", again);
        assert!(watcher.runs());
        assert_eq!(watcher.count_event("consumer.failed"), 1, "said once: {:#?}", watcher.lines());
        assert!(!watcher.lines().iter().any(|line| line.contains("S3CRET-PLANT")));
        watcher
    }

    fn expect_recovery(&self, setup: &Setup, mut watcher: Watcher) {
        wait_status(&setup.state_dir(), &["listening: "]);
        self.broker.publish(&[Message::to_queue("bench", "x").id("m0")]);
        self.stub.wait_runs("bench", 1, LATER);
        assert!(watcher.stop(SOON).success());
    }
}

#[test]
fn real_wrong_password_is_told_and_over_when_it_is_right() {
    let bench = Bench::new(Broker::shared(BrokerVersion::V3));
    bench.broker.declare("bench", QueueKind::Classic, json!({}));
    let user = format!("u{}", std::process::id());
    bench.broker.add_user(&user, "right", ".*", ".*", ".*");
    let setup = bench.setup(&bench.broker.url_as(&user, "S3CRET-PLANT"));
    let watcher = bench.expect_fault(&setup, &["refused", user.as_str()]);
    bench.broker.add_user(&user, "S3CRET-PLANT", ".*", ".*", ".*");
    bench.expect_recovery(&setup, watcher);
    bench.broker.management("DELETE", &format!("/api/users/{user}"), None);
}

#[test]
fn real_wrong_vhost_is_told() {
    let bench = Bench::new(Broker::shared(BrokerVersion::V4));
    let setup = bench.setup(&format!("amqp://guest:guest@{}/no_such_vhost", bench.broker.address()));
    let mut watcher = bench.expect_fault(&setup, &["no_such_vhost"]);
    assert!(watcher.stop(SOON).success());
}

#[test]
fn real_missing_queue_is_told_and_over_when_it_is_made() {
    let bench = Bench::new(Broker::shared(BrokerVersion::V4));
    let setup = bench.setup(&bench.broker.url());
    let watcher = bench.expect_fault(&setup, &["queue", "bench"]);
    bench.broker.declare("bench", QueueKind::Classic, json!({}));
    bench.expect_recovery(&setup, watcher);
}

#[test]
fn real_frozen_broker_is_told_and_over_when_it_wakes() {
    let bench = Bench::new(Broker::own(BrokerVersion::V3, &[]));
    bench.broker.declare("bench", QueueKind::Classic, json!({}));
    let url = format!("{}?heartbeat=4&connect_timeout=5&rpc_timeout=5", bench.broker.url());
    let setup = bench.setup(&url);
    bench.broker.pause();
    let watcher = bench.expect_fault(&setup, &["within"]);
    bench.broker.resume();
    bench.expect_recovery(&setup, watcher);
}

#[test]
fn real_untrusted_certificate_is_told() {
    let certificates = Certificates::make();
    let (broker, port) = certificates.node(BrokerVersion::V3, "server", false);
    let bench = Bench::new(broker);
    bench.broker.declare("bench", QueueKind::Classic, json!({}));
    let url = format!("amqps://guest:guest@localhost:{port}/{}", bench.broker.vhost());
    let setup = bench.setup(&url);
    let mut watcher = bench.expect_fault(&setup, &["certificate"]);
    assert!(watcher.stop(SOON).success());
    let ca = certificates.path("ca.pem").display().to_string();
    let setup = bench.setup(&format!("{url}?ca_certs={}", ca.replace('/', "%2F")));
    bench.expect_recovery(&setup, setup.start());
}
