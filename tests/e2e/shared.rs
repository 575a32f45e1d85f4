//! Several subscriptions on one queue: none stops another.

use serde_json::json;

use crate::support::stub_airflow::StubDag;
use crate::support::{Broker, BrokerVersion, Dialect, Message, QueueKind, Setup, StubAirflow};
use crate::waits::{LATER, SOON};

pub(crate) const KINDS: [QueueKind; 2] = [QueueKind::Quorum, QueueKind::Classic];

/// A DAG that wants the messages of one kind.
pub(crate) fn wants(setup: &Setup, dag: &str, queue: &str, kind: &str, more: &str) {
    let text = format!(
        "from airflow.sdk import dag\nfrom airflow_rmq_watcher import rmq_trigger\n\n\n\
         @rmq_trigger(queue=\"{queue}\", filter_data={{\"filter_headers\": {{\"kind\": \"{kind}\"}}}}{more})\n\
         @dag(schedule=None)\ndef {dag}():\n    pass\n\n\n{dag}()\n"
    );
    setup.dag_file(&format!("{dag}.py"), &text);
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
