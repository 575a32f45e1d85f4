//! Airflow in every bad mood: one run, nothing redelivered.

use serde_json::json;

use crate::support::{Broker, BrokerVersion, Dialect, Fault, Message, QueueKind, Setup, StubAirflow, What};
use crate::waits::{LATER, SOON, wait_status};

#[test]
fn real_bad_moods_of_airflow_cost_one_run_and_no_redelivery() {
    for version in BrokerVersion::for_this_round() {
        for dialect in Dialect::ALL {
            one_run_and_no_redelivery(version, dialect);
        }
    }
}

fn one_run_and_no_redelivery(version: BrokerVersion, dialect: Dialect) {
    let (broker, stub) = (Broker::shared(version), StubAirflow::with_dag(dialect, "moody"));
    broker.declare("moods", QueueKind::Quorum, json!({}));
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &broker.url());
    setup.dag("moody", "moods", "rmq_default");
    let mut watcher = setup.start();
    watcher.announce("delivery.held").announce("airflow.");
    watcher.wait_event("consumer.attached", SOON);
    stub.next(What::Trigger, Fault::status(503));
    stub.next(What::Trigger, Fault::conflict(dialect));
    stub.next(What::Trigger, Fault::Drop);
    stub.next(What::Trigger, Fault::login_page());
    broker.publish(&[Message::to_queue("moods", "{}")]);
    let runs = stub.wait_runs("moody", 1, LATER);
    broker.wait_counts("moods", 0, 0);
    assert_eq!((runs.len(), stub.faults_left()), (1, 0));
    assert_eq!(runs[0].conf["redelivered"], false);
    assert!(runs[0].conf["headers"].get("x-delivery-count").is_none(), "{}", runs[0].conf);
    let redelivered = broker.queue("moods")["message_stats"]["redeliver"].as_u64().unwrap_or(0);
    assert_eq!(redelivered, 0);
    wait_status(&setup.state_dir(), &["listening: "]);
    assert!(watcher.stop(SOON).success());
}

#[test]
fn real_refusal_of_a_message_dead_letters_it() {
    let version = BrokerVersion::V3;
    let (broker, stub) = (Broker::shared(version), StubAirflow::with_dag(Dialect::V2, "strict"));
    broker.declare("dead", QueueKind::Classic, json!({}));
    let arguments = json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"});
    broker.declare("strict", QueueKind::Classic, arguments);
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &broker.url());
    setup.dag("strict", "strict", "rmq_default");
    let mut watcher = setup.start();
    watcher.announce("message.refused");
    watcher.wait_event("consumer.attached", SOON);
    let body = json!({"detail": "Invalid input for param n: 'x' is not of type 'integer'"});
    stub.next(What::Trigger, Fault::Answer(crate::support::stub_airflow::Reply::json(400, &body)));
    broker.publish(&[Message::to_queue("strict", "bad").id("bad"), Message::to_queue("strict", "good").id("good")]);
    stub.wait_runs("strict", 1, LATER);
    broker.wait_counts("strict", 0, 0);
    broker.wait_counts("dead", 1, 0);
    assert!(watcher.stop(SOON).success());
}
