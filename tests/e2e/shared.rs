//! Several subscriptions on one queue, and messages that are for none of them.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::stub_airflow::StubDag;
use crate::support::wait::pause;
use crate::support::{Broker, BrokerVersion, Dialect, Fault, Message, QueueKind, Setup, StubAirflow, What};
use crate::support::{long_round, seed};
use crate::waits::{LATER, SOON, assert_one_run_each};

const KINDS: [QueueKind; 2] = [QueueKind::Quorum, QueueKind::Classic];

/// A DAG that wants the messages of one kind.
fn wants(setup: &Setup, dag: &str, queue: &str, kind: &str, more: &str) {
    let text = format!(
        "from airflow.sdk import dag\nfrom airflow_rmq_watcher import rmq_trigger\n\n\n\
         @rmq_trigger(queue=\"{queue}\", filter_data={{\"filter_headers\": {{\"kind\": \"{kind}\"}}}}{more})\n\
         @dag(schedule=None)\ndef {dag}():\n    pass\n\n\n{dag}()\n"
    );
    setup.dag_file(&format!("{dag}.py"), &text);
}

fn foreign(queue: &str, count: usize) -> Vec<Message> {
    (0..count).map(|n| Message::to_queue(queue, format!("foreign {n}")).header("kind", "foreign")).collect()
}

#[test]
fn real_two_dags_on_a_queue_get_every_message_once_through_kills() {
    for version in BrokerVersion::for_this_round() {
        for kind in KINDS {
            two_dags(version, kind);
        }
    }
}

fn two_dags(version: BrokerVersion, kind: QueueKind) {
    let (count, kills) = if long_round() { (1000, 20) } else { (120, 5) };
    let (broker, stub) = (Broker::shared(version), StubAirflow::start(Dialect::V2));
    broker.declare("both", kind, json!({}));
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &broker.url());
    for dag in ["first", "second"] {
        stub.set_dag(dag, StubDag::default());
        setup.dag(dag, "both", "rmq_default");
    }
    let message = |n| Message::to_queue("both", format!("{n}")).id(&format!("m{n}")).with(|p| p.with_delivery_mode(2));
    broker.publish(&(0..count).map(message).collect::<Vec<_>>());
    let mut random = fastrand::Rng::with_seed(seed());
    stub.always(What::Trigger, Fault::Late(Duration::from_millis(20)));
    for _ in 0..kills {
        let mut watcher = setup.start();
        watcher.wait_event("consumer.attached", LATER);
        let so_far = stub.runs("first").len();
        stub.wait_runs("first", (so_far + random.usize(1..count / kills)).min(count - kills), LATER);
        watcher.kill();
    }
    let mut watcher = setup.start();
    for dag in ["first", "second"] {
        stub.wait_runs(dag, count, LATER);
    }
    broker.wait_counts("both", 0, 0);
    assert!(watcher.stop(SOON).success());
    for dag in ["first", "second"] {
        assert_one_run_each(&stub, dag, "both", count);
    }
}

#[test]
fn real_a_match_behind_a_hundred_foreign_messages_runs_at_once_and_these_come_back_seldom() {
    for version in BrokerVersion::for_this_round() {
        for kind in KINDS {
            foreign_ahead(version, kind);
        }
    }
}

fn foreign_ahead(version: BrokerVersion, kind: QueueKind) {
    let (broker, stub) = (Broker::shared(version), StubAirflow::with_dag(Dialect::V2, "mine"));
    broker.declare("foreign", kind, json!({}));
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &broker.url());
    wants(&setup, "mine", "foreign", "mine", "");
    broker.publish(&foreign("foreign", 100));
    broker.publish(&[Message::to_queue("foreign", "x").id("m0").header("kind", "mine")]);
    let mut watcher = setup.start();
    watcher.announce("filter.missed");
    watcher.wait_event("consumer.attached", SOON);
    let attached = Instant::now();
    stub.wait_runs("mine", 1, SOON);
    // The stand-in is looked at a few times a second.
    assert!(attached.elapsed() < Duration::from_millis(1500), "{version:?} {kind:?}: {:?}", attached.elapsed());
    pause(Duration::from_secs(if long_round() { 60 } else { 12 }));
    let redelivered = broker.queue("foreign")["message_stats"]["redeliver"].as_u64().unwrap_or(0);
    assert!(redelivered < 100 * 15, "{version:?} {kind:?}: {redelivered}");
    assert!(watcher.stop(SOON).success());
    broker.wait_counts("foreign", 100, 0);
}

#[test]
fn real_two_subscriptions_that_wait_never_stop_a_third() {
    for version in BrokerVersion::for_this_round() {
        for kind in KINDS {
            two_wait(version, kind);
        }
    }
}

fn two_wait(version: BrokerVersion, kind: QueueKind) {
    let (broker, stub) = (Broker::shared(version), StubAirflow::with_dag(Dialect::V2, "goes"));
    broker.declare("three", kind, json!({}));
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &broker.url());
    wants(&setup, "goes", "three", "goes", "");
    for dag in ["waits_1", "waits_2"] {
        stub.set_dag(dag, StubDag { paused: true, ..StubDag::default() });
        wants(&setup, dag, "three", dag, ", on_paused=\"hold\"");
    }
    let of = |kind: &str, n: usize| {
        Message::to_queue("three", format!("{n}")).id(&format!("{kind}-{n}")).header("kind", kind)
    };
    let waiting: Vec<Message> = (0..50).flat_map(|n| [of("waits_1", n), of("waits_2", n)]).collect();
    broker.publish(&waiting);
    broker.publish(&[of("goes", 0)]);
    let mut watcher = setup.start();
    watcher.announce("gate.closed");
    stub.wait_runs("goes", 1, SOON);
    broker.wait_counts("three", 0, 100);
    for dag in ["waits_1", "waits_2"] {
        stub.set_dag(dag, StubDag::default());
    }
    stub.wait_runs("waits_1", 50, LATER);
    stub.wait_runs("waits_2", 50, LATER);
    broker.wait_counts("three", 0, 0);
    assert!(watcher.stop(SOON).success());
    assert_eq!(stub.runs("goes").len(), 1, "{version:?} {kind:?}");
}
