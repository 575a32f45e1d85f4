//! A message becomes a finished DAG run, on real parts.

use serde_json::json;

use crate::support::{Airflow, AirflowVersion, Broker, BrokerVersion, Message, QueueKind, Setup};
use crate::waits::{LATER, SOON, status, wait_status};

#[test]
fn real_message_becomes_a_finished_run_of_real_airflow() {
    for (airflow, broker) in [(AirflowVersion::V3, BrokerVersion::V4), (AirflowVersion::V2, BrokerVersion::V3)] {
        let (airflow, broker) = (Airflow::shared(airflow), Broker::shared(broker));
        airflow.wait_dag("e2e_orders", LATER);
        broker.declare("orders", QueueKind::Quorum, json!({}));
        let folder = tempfile::tempdir().unwrap();
        let setup = Setup::in_folder(folder.path())
            .airflow(airflow.url(), "admin", "admin")
            .env("RMQ_WATCHER__AIRFLOW__MAX_IN_FLIGHT", "1")
            .connection("rmq_default", &broker.url());
        setup.dag("e2e_orders", "orders", "rmq_default");
        let mut watcher = setup.start();
        watcher.wait_event("consumer.attached", SOON);
        let id = format!("e2e-{}", std::process::id());
        broker.publish(&[Message::to_queue("orders", "{\"order\": 7, \"naïve\": \"é\"}")
            .id(&id)
            .header("x-kind", "new")]);
        let run = airflow.wait_state("e2e_orders", &format!("rmq__orders__{id}"), "success", LATER);
        let conf = &run["conf"];
        assert_eq!(conf["body"], "{\"order\": 7, \"naïve\": \"é\"}");
        assert_eq!((&conf["headers"], &conf["routing_key"]), (&json!({"x-kind": "new"}), &json!("orders")));
        assert_eq!((&conf["source"], &conf["queue"]), (&json!("immediate"), &json!("orders")));
        broker.wait_counts("orders", 0, 0);
        wait_status(&setup.state_dir(), &["listening: "]);
        assert!(watcher.stop(SOON).success());
        assert!(status(&setup.state_dir()).starts_with("disconnected"));
        assert_eq!(broker.consumers("orders"), 0);
    }
}

#[test]
fn real_wrong_airflow_password_leaves_the_message_in_its_queue_and_says_so() {
    let (airflow, broker) = (Airflow::shared(AirflowVersion::V3), Broker::shared(BrokerVersion::V3));
    broker.declare("orders", QueueKind::Classic, json!({}));
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path())
        .airflow(airflow.url(), "admin", "S3CRET-PLANT")
        .connection("rmq_default", &broker.url());
    setup.dag("e2e_orders", "orders", "rmq_default");
    let mut watcher = setup.start();
    watcher.announce("dags.unread").announce("variable.unread").announce("airflow.");
    broker.publish(&[Message::to_queue("orders", "x").id("held")]);
    wait_status(&setup.state_dir(), &["error: ", "password"]);
    broker.wait_counts("orders", 1, 0);
    assert!(watcher.runs());
    assert!(!watcher.lines().iter().any(|line| line.contains("S3CRET-PLANT")));
    assert!(watcher.stop(SOON).success());
    broker.wait_counts("orders", 1, 0);
}
