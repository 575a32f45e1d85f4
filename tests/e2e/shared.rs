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
    // One is paused, and Airflow does not have the other.
    stub.set_dag("paused", StubDag { paused: true, ..StubDag::default() });
    wants(&setup, "paused", "three", "paused", ", on_paused=\"hold\"");
    wants(&setup, "missing", "three", "missing", "");
    let of = |kind: &str, n: usize| {
        Message::to_queue("three", format!("{n}")).id(&format!("{kind}-{n}")).header("kind", kind)
    };
    let all = |n| ["paused", "missing", "goes"].map(|kind| of(kind, n));
    broker.publish(&(0..50).flat_map(all).collect::<Vec<_>>());
    let mut watcher = setup.start();
    watcher.announce("gate.closed");
    stub.wait_runs("goes", 50, SOON);
    broker.publish(&(50..60).flat_map(all).collect::<Vec<_>>());
    stub.wait_runs("goes", 60, SOON);
    broker.wait_counts("three", 0, 120);
    for dag in ["paused", "missing"] {
        stub.set_dag(dag, StubDag::default());
    }
    for dag in ["paused", "missing"] {
        stub.wait_runs(dag, 60, LATER);
    }
    broker.wait_counts("three", 0, 0);
    assert!(watcher.stop(SOON).success());
    for dag in ["goes", "paused", "missing"] {
        let runs: std::collections::BTreeSet<_> = stub.runs(dag).into_iter().map(|run| run.run_id).collect();
        let wanted = (0..60).map(|n| format!("rmq__three__{dag}-{n}")).collect();
        assert_eq!((stub.count_runs(dag), runs), (60, wanted), "{version:?} {kind:?}");
    }
}
