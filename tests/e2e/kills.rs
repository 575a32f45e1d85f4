//! Kills at every moment: one run per message, nothing lost, nothing left.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use serde_json::json;

use crate::support::{Broker, BrokerVersion, Dialect, Message, QueueKind, Setup, StubAirflow, long_round, seed};
use crate::waits::{LATER, SOON, assert_one_run_each};

const ARROWS: [&str; 6] = ["received", "recorded", "answered", "decided", "verb_sent", "settled"];

#[test]
fn real_kill_at_every_arrow_leaves_one_run_per_message() {
    let kinds = [QueueKind::Quorum, QueueKind::Classic];
    let rounds = if long_round() { &kinds[..] } else { &kinds[..1] };
    for version in BrokerVersion::for_this_round() {
        for kind in rounds {
            for with_id in [true, false] {
                kill_at_every_arrow(version, *kind, with_id);
            }
        }
    }
}

fn kill_at_every_arrow(version: BrokerVersion, kind: QueueKind, with_id: bool) {
    let (broker, stub) = (Broker::shared(version), StubAirflow::with_dag(Dialect::V2, "arrows"));
    broker.declare("arrows", kind, json!({}));
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &broker.url());
    setup.dag("arrows", "arrows", "rmq_default");
    for (done, arrow) in ARROWS.into_iter().enumerate() {
        let message = Message::to_queue("arrows", format!("message {done}"));
        broker.publish(&[if with_id { message.id(&format!("m{done}")) } else { message }]);
        let mut killed = setup.clone().env("RMQ_WATCHER_TEST_KILL_AT", &format!("{arrow}:1")).start();
        let ended = killed.wait_end(LATER);
        assert_eq!(ended.signal(), Some(9), "at {arrow}: {ended:?}\n{}", killed.lines().join("\n"));
        let mut watcher = setup.start();
        watcher.wait_event("consumer.attached", SOON);
        stub.wait_runs("arrows", done + 1, LATER);
        broker.wait_counts("arrows", 0, 0);
        assert!(watcher.stop(SOON).success());
        assert_eq!(stub.runs("arrows").len(), done + 1, "killed at {arrow}, {kind:?}, id: {with_id}");
    }
}

#[test]
fn real_ten_kills_and_two_broker_restarts_leave_two_hundred_runs() {
    for version in BrokerVersion::for_this_round() {
        ten_kills_and_two_restarts(version, QueueKind::Classic);
        if long_round() {
            ten_kills_and_two_restarts(version, QueueKind::Quorum);
        }
    }
}

/// A quorum queue that was declared seconds before its only node is killed may have no leader afterwards (seen on both
/// versions), so its node is only ever restarted in order.
fn ten_kills_and_two_restarts(version: BrokerVersion, kind: QueueKind) {
    const COUNT: usize = 200;
    let (broker, stub) = (Broker::own(version, &[]), StubAirflow::with_dag(Dialect::V2, "chaos"));
    broker.declare("chaos", kind, json!({}));
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path())
        .stub(&stub)
        .env("RMQ_WATCHER__AIRFLOW__MAX_IN_FLIGHT", "2")
        .connection("rmq_default", &broker.url());
    setup.dag("chaos", "chaos", "rmq_default");
    let messages: Vec<Message> = (0..COUNT)
        .map(|n| Message::to_queue("chaos", format!("{n}")).id(&format!("m{n}")).with(|p| p.with_delivery_mode(2)))
        .collect();
    broker.publish(&messages);
    let mut random = fastrand::Rng::with_seed(seed());
    // Each life is long enough to start some runs and too short for all of them.
    stub.always(crate::support::What::Trigger, crate::support::Fault::Late(Duration::from_millis(20)));
    for kill in 0..10 {
        let mut watcher = setup.start();
        watcher
            .announce("consumer.failed")
            .announce("delivery.held")
            .announce("airflow.")
            .announce("no messages of queue");
        watcher.wait_event("consumer.attached", LATER);
        let so_far = stub.runs("chaos").len();
        let more = random.usize(1..10);
        stub.wait_runs("chaos", (so_far + more).min(COUNT - 20 + kill), LATER);
        match (kill, kind) {
            // In order first: what was declared moments before a kill may not be on the broker's disk yet.
            (7, QueueKind::Classic) => {
                broker.kill();
                broker.start();
            }
            (3, _) | (7, QueueKind::Quorum) => {
                broker.stop();
                broker.start();
            }
            _ => {}
        }
        watcher.kill();
    }
    let mut watcher = setup.start();
    watcher.announce("consumer.failed");
    stub.wait_runs("chaos", COUNT, LATER);
    broker.wait_counts("chaos", 0, 0);
    assert!(watcher.stop(SOON).success());
    assert_one_run_each(&stub, "chaos", "chaos", COUNT);
}
