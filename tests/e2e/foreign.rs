//! Messages that are for no subscription: they stand in nobody's way and come back seldom.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::shared::{KINDS, wants};
use crate::support::wait::pause;
use crate::support::{
    Broker, BrokerVersion, Dialect, Message, QueueKind, Setup, StubAirflow, Watcher, eventually, long_round,
};
use crate::waits::{LATER, SOON};

const QUEUE: &str = "foreign";

/// What more a watcher may have in memory while foreign messages come and go than when the first match behind them ran.
const GROWTH_KIB: u64 = 6 * 1024;

/// A queue with foreign messages and one match behind them, and a watcher that has found it. A trace of the deliveries costs the
/// broker as much as these.
struct Found {
    broker: Broker,
    watcher: Watcher,
    /// From the consumer's start to the request for the match's run, less what the watcher waited for a processor: its threads
    /// follow one another here, and nothing of that is its own on an idle machine.
    after: Duration,
    _stub: StubAirflow,
    _folder: tempfile::TempDir,
}

impl Found {
    fn behind((foreign, body_bytes, traced): (usize, usize, bool), version: BrokerVersion, kind: QueueKind) -> Self {
        let (broker, stub) = (Broker::shared(version), StubAirflow::with_dag(Dialect::V2, "mine"));
        broker.declare(QUEUE, kind, json!({}));
        let folder = tempfile::tempdir().unwrap();
        let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &broker.url());
        wants(&setup, "mine", QUEUE, "mine", "");
        let filler = "x".repeat(body_bytes);
        let message = |n| Message::to_queue(QUEUE, format!("foreign {n} {filler}")).header("kind", "foreign");
        broker.publish(&(0..foreign).map(message).collect::<Vec<_>>());
        broker.publish(&[Message::to_queue(QUEUE, "mine").id("m0").header("kind", "mine")]);
        if traced {
            broker.trace(QUEUE);
        }
        let mut watcher = setup.start();
        watcher.announce("filter.missed");
        watcher.wait_event("consumer.attached", SOON);
        let (attached, waited) = (Instant::now(), waited_for_a_processor(&watcher));
        stub.wait_runs("mine", 1, LATER);
        let others = waited_for_a_processor(&watcher).saturating_sub(waited);
        let after = stub.asked("mine")[0].1.saturating_duration_since(attached).saturating_sub(others);
        Self { broker, watcher, after, _stub: stub, _folder: folder }
    }
}

#[test]
fn real_a_match_behind_a_hundred_foreign_messages_runs_at_once_and_these_come_back_seldom() {
    for version in BrokerVersion::for_this_round() {
        for kind in KINDS {
            a_hundred(version, kind);
        }
    }
}

fn a_hundred(version: BrokerVersion, kind: QueueKind) {
    let mut found = Found::behind((100, 0, true), version, kind);
    assert!(found.after < Duration::from_secs(1), "{version:?} {kind:?}: {:?}", found.after);
    // Each pause is twice the last one: six returns in the short time, nine in a minute.
    let (seconds, most) = if long_round() { (60, 15) } else { (8, 10) };
    pause(Duration::from_secs(seconds));
    assert!(found.watcher.stop(SOON).success());
    let deliveries = found.broker.deliveries(QUEUE);
    assert_eq!(deliveries.len(), 101, "{version:?} {kind:?}");
    for (body, times) in &deliveries {
        let redelivered = times - 1;
        let seldom = if body == "mine" { redelivered == 0 } else { (1..most).contains(&redelivered) };
        assert!(seldom, "{version:?} {kind:?}: {body} came back {redelivered} times in {seconds} s");
    }
    eventually(SOON, "all are in the queue", || found.broker.ready(QUEUE) == 100);
    // The broker's own count, where it has one. It counts what was on its way to us at the stop, too.
    for message in found.broker.take(QUEUE, 100) {
        let body = message["payload"].as_str().unwrap();
        let delivered = u64::from(deliveries[body]);
        let counted = message["properties"]["headers"]["x-delivery-count"].as_u64();
        let is_right = match kind {
            QueueKind::Quorum => counted.is_some_and(|counted| (delivered..=u64::from(most)).contains(&counted)),
            QueueKind::Classic => counted.is_none(),
        };
        assert!(is_right, "{version:?} {kind:?}: {body} was delivered {delivered} times, counted {counted:?}");
    }
}

#[test]
fn real_a_match_behind_five_thousand_foreign_messages_runs_soon_and_memory_stays_flat() {
    for version in BrokerVersion::for_this_round() {
        for kind in KINDS {
            five_thousand(version, kind);
        }
    }
}

fn five_thousand(version: BrokerVersion, kind: QueueKind) {
    let mut found = Found::behind((5000, 1024, false), version, kind);
    let then = resident_kib(&found.watcher);
    let end = Instant::now() + Duration::from_secs(if long_round() { 60 } else { 8 });
    let mut most = then;
    while Instant::now() < end {
        pause(Duration::from_millis(200));
        most = most.max(resident_kib(&found.watcher));
    }
    assert!(most <= then + GROWTH_KIB, "{version:?} {kind:?}: {then} KiB became {most} KiB");
    assert!(found.watcher.stop(SOON).success());
    assert!(found.after < Duration::from_secs(5), "{version:?} {kind:?}: {:?}", found.after);
}

/// What all of its threads together waited while others ran.
fn waited_for_a_processor(watcher: &Watcher) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", watcher.pid())).unwrap();
    let waited = tasks.filter_map(|task| {
        // A thread may end meanwhile.
        let schedstat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        schedstat.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    Duration::from_nanos(waited.sum())
}

fn resident_kib(watcher: &Watcher) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", watcher.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
