//! No growth: fifty attempts to attach leave no more threads, descriptors or memory than the first ten did.

use serde_json::json;

use crate::bench::{Bench, LATER};
use crate::proc::Held;
use crate::state::{attempts, wait_status};
use crate::support::{BrokerVersion, Certificates, Dialect, ProxyMode, QueueKind, TcpProxy, eventually};

/// The first attempts fill caches and start threads that stay.
const WARM: u32 = 10;

/// After the warm ones.
const ATTEMPTS: u32 = 50;

/// What the allocator may keep on top, in KiB. A leaked connection has buffers of half a MiB and a thread.
const RSS_SLACK_KIB: u64 = 3 * 1024;

/// Runs a watcher against a fault, with pauses between attempts cut to a few hundredths of a second.
fn does_not_grow(bench: &Bench, amqp_url: &str, says: &[&str]) {
    let setup = bench.setup_with(amqp_url).env("RMQ_WATCHER_TEST_RETRY_SCALE", "0.001");
    let mut watcher = setup.start();
    watcher.announce("consumer.failed");
    let (pid, state) = (watcher.pid(), setup.state_dir());
    wait_status(&state, "orders", &[&["error: "], says].concat());
    let mut warm = Held::default();
    eventually(LATER, "the first attempts", || {
        warm = warm.max(Held::by(pid));
        attempts(&state) > WARM
    });
    eventually(LATER, "fifty more attempts", || attempts(&state) > WARM + ATTEMPTS);
    let mut now = Held::by(pid);
    // A look may fall into an attempt; between two of them there is less.
    eventually(LATER, "no more threads and descriptors than before", || {
        now = Held::by(pid);
        now.threads <= warm.threads && now.descriptors <= warm.descriptors
    });
    assert!(now.rss_kib <= warm.rss_kib + RSS_SLACK_KIB, "{warm:?} became {now:?}");
    assert!(watcher.runs());
    assert_eq!(watcher.count_event("consumer.failed"), 1, "said once: {:#?}", watcher.lines());
    assert!(watcher.stop(LATER).success());
}

/// Each fault on one version; in the long round on both.
fn on_each(dialect: Dialect, test: impl Fn(&Bench)) {
    for version in BrokerVersion::for_this_round() {
        test(&Bench::new(version, dialect));
    }
}

#[test]
fn real_fifty_attempts_with_a_wrong_password_leave_nothing() {
    on_each(Dialect::V2, |bench| does_not_grow(bench, &bench.broker.url_as("guest", "wrong"), &["refused"]));
}

#[test]
fn real_fifty_attempts_at_a_wrong_vhost_leave_nothing() {
    on_each(Dialect::V2, |bench| {
        let url = format!("amqp://guest:guest@{}/no_such_vhost", bench.broker.address());
        does_not_grow(bench, &url, &["no_such_vhost"]);
    });
}

#[test]
fn real_fifty_attempts_at_a_missing_queue_leave_nothing() {
    on_each(Dialect::V2, |bench| {
        bench.broker.delete_queue("orders");
        does_not_grow(bench, &bench.broker.url(), &["no such queue"]);
        // Mended, it is noticed within a minute; see `tests/e2e`.
        bench.broker.declare("orders", QueueKind::Classic, json!({}));
    });
}

#[test]
fn real_fifty_attempts_at_a_silent_peer_leave_nothing() {
    on_each(Dialect::V2, |bench| {
        let proxy = TcpProxy::to(bench.broker.address());
        proxy.set(ProxyMode::Freeze);
        let url = format!("amqp://guest:guest@{}/?connect_timeout=0.5", proxy.address());
        does_not_grow(bench, &url, &["within 0.5 s"]);
        assert!(proxy.accepted() >= (WARM + ATTEMPTS) as usize);
    });
}

#[test]
fn real_fifty_attempts_with_an_untrusted_certificate_leave_nothing() {
    // TLS ends before AMQP begins, so the version of the broker cannot matter.
    let (broker, port) = Certificates::make().node(BrokerVersion::V3, "server", false);
    let bench = Bench::on(broker, Dialect::V2);
    let url = format!("amqps://guest:guest@localhost:{port}/{}", bench.broker.vhost());
    does_not_grow(&bench, &url, &["certificate"]);
}
