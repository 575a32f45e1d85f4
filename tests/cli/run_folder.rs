//! `run` and a DAG folder that changes under it.

use serde_json::json;

use crate::bench::{Bench, LATER, SOON};
use crate::state::wait_status;
use crate::support::stub_airflow::StubDag;
use crate::support::{BrokerVersion, Dialect, Message, QueueKind};

#[test]
fn real_subscription_written_while_it_runs_is_attached_and_a_broken_file_stops_none() {
    let bench = Bench::new(BrokerVersion::V4, Dialect::V2);
    let setup = bench.setup();
    let mut watcher = setup.start();
    watcher.announce("file.unreadable").announce("subscription.refused");
    watcher.wait_event("consumer.attached", SOON);
    setup.dag_file("broken.py", "from airflow_rmq_watcher import rmq_trigger\ndef broken(:\n");
    let said = watcher.wait_event("file.unreadable", SOON);
    assert!(said.contains("broken.py:2"), "{said}");
    let refused = "from airflow.sdk import dag\nfrom airflow_rmq_watcher import rmq_trigger\n\n\
                   @rmq_trigger(queue=Q)\n@dag(schedule=None)\ndef computed():\n    pass\n";
    setup.dag_file("computed.py", refused);
    watcher.wait_event("subscription.refused", SOON);
    bench.broker.declare("bills", QueueKind::Classic, json!({}));
    bench.stub.set_dag("bills", StubDag::default());
    setup.dag("bills", "bills", "rmq_default");
    watcher.wait_event("consumer.attached", SOON);
    for dag in ["orders", "bills"] {
        bench.broker.publish(&[Message::to_queue(dag, "x").id("m0")]);
        bench.stub.wait_runs(dag, 1, LATER);
    }
    assert_eq!((watcher.count_event("file.unreadable"), watcher.count_event("subscription.refused")), (1, 1));
    assert!(watcher.stop(SOON).success());
}

#[test]
fn real_dag_folder_that_vanishes_is_one_line_and_stops_nothing() {
    let bench = Bench::new(BrokerVersion::V3, Dialect::V2);
    let setup = bench.setup();
    let (here, away) = (bench.folder.path().join("dags"), bench.folder.path().join("away"));
    let mut watcher = setup.start();
    watcher.announce("scan.distrusted");
    watcher.wait_event("consumer.attached", SOON);
    std::fs::rename(&here, &away).unwrap();
    let said = watcher.wait_event("scan.distrusted", SOON);
    assert!(said.contains("} ERROR - ") && said.contains("subscriptions stay as they are"), "{said}");
    for n in 0..3 {
        bench.broker.publish(&[Message::to_queue("orders", "x").id(&format!("m{n}"))]);
        bench.stub.wait_runs("orders", n + 1, LATER);
    }
    assert_eq!(bench.broker.consumers("orders"), 1);
    std::fs::rename(&away, &here).unwrap();
    bench.broker.declare("bills", QueueKind::Classic, json!({}));
    bench.stub.set_dag("bills", StubDag::default());
    setup.dag("bills", "bills", "rmq_default");
    watcher.wait_event("consumer.attached", SOON);
    wait_status(&setup.state_dir(), "orders", &["listening: "]);
    assert_eq!(watcher.count_event("scan.distrusted"), 1, "{:#?}", watcher.lines());
    // Vanished a second time it is news again.
    std::fs::rename(&here, &away).unwrap();
    watcher.wait_event("scan.distrusted", SOON);
    assert!(watcher.stop(SOON).success());
}
