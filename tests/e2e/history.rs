//! What became of messages: a refused one that comes back, and what is told of it afterwards.

use serde_json::{Value, json};

use crate::support::stub_airflow::Reply;
use crate::support::{Broker, BrokerVersion, Dialect, Fault, Message, QueueKind, Setup, StubAirflow, What};
use crate::waits::{LATER, SOON};

fn told(setup: &Setup, verb: &[&str]) -> Value {
    let output = setup.command(verb).output().unwrap();
    assert!(output.status.success(), "{verb:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn real_refused_messages_that_come_back_start_once_and_are_told_from_end_to_end() {
    for version in BrokerVersion::for_this_round() {
        for kind in [QueueKind::Quorum, QueueKind::Classic] {
            refused_and_back(version, kind);
        }
    }
}

/// Refused messages lie in a dead-letter queue for a moment, from which the broker itself puts them back.
fn refused_and_back(version: BrokerVersion, kind: QueueKind) {
    let (broker, stub) = (Broker::shared(version), StubAirflow::with_dag(Dialect::V2, "strict"));
    let back = json!({"x-message-ttl": 500, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "again"});
    broker.declare("again-later", QueueKind::Classic, back);
    broker.declare("again", kind, json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "again-later"}));
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &broker.url());
    setup.dag("strict", "again", "rmq_default");
    let mut watcher = setup.start();
    watcher.announce("message.refused");
    watcher.wait_event("consumer.attached", SOON);
    let body = json!({"detail": "Invalid input for param n: 'x' is not of type 'integer'"});
    for _ in 0..2 {
        stub.next(What::Trigger, Fault::Answer(Reply::json(400, &body)));
    }
    broker.publish(&[Message::to_queue("again", "1").id("bad"), Message::to_queue("again", "2")]);
    let runs = stub.wait_runs("strict", 2, LATER);
    broker.wait_counts("again", 0, 0);
    broker.wait_counts("again-later", 0, 0);
    assert!(watcher.stop(SOON).success());
    let mut ids: Vec<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
    ids.sort_unstable();
    assert!(
        ids.iter().all(|id| id.ends_with("_r1")) && ids.contains(&"rmq__again__bad_r1"),
        "{version:?} {kind:?}: {ids:?}"
    );
    assert_eq!(stub.runs("strict").len(), 2);

    let known = told(&setup, &["why", "bad", "--json"]);
    let fire = &known[0]["fires"][0];
    let shown = ["run_id", "outcome", "state"].map(|name| fire[name].as_str().unwrap_or_default());
    assert_eq!(shown, ["rmq__again__bad_r1", "started", "settled"], "{known}");
    assert_eq!((&fire["replays"], &fire["deliveries"]), (&json!(1), &json!(2)));
    assert!(fire["failed_attempts"][0]["answer"].as_str().unwrap().contains("Invalid input for param n"), "{known}");
    assert_eq!(told(&setup, &["why", "rmq__again__bad", "--json"]), known, "by the run that was refused too");
    let fires = told(&setup, &["fires", "--outcome", "started", "--since", "1h", "--json"]);
    assert_eq!(fires.as_array().map(Vec::len), Some(2), "{fires}");
}
