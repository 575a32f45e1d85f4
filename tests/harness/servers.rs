//! Real servers as the harness hands them out.

use std::time::Duration;

use serde_json::Value;

use crate::support::{Airflow, AirflowVersion, Broker, BrokerVersion, Message, QueueKind, eventually};

#[test]
fn real_shared_node_gives_each_test_a_virtual_host_of_its_own() {
    for version in BrokerVersion::ALL {
        let (one, two) = (Broker::shared(version), Broker::shared(version));
        for kind in [QueueKind::Classic, QueueKind::Quorum] {
            let queue = format!("{kind:?}");
            one.declare(&queue, kind, Value::Null);
            let message = Message::to_queue(&queue, "hello").id("m-1").header("h", "x");
            one.publish(&[message]);
            eventually(Duration::from_secs(20), "one message is ready", || one.ready(&queue) == 1);
            let taken = one.take(&queue, 5);
            assert_eq!(taken[0]["payload"], "hello");
            assert_eq!(taken[0]["properties"]["message_id"], "m-1");
            assert_eq!(taken[0]["properties"]["headers"]["h"], "x");
        }
        let path = format!("queues/{}", two.vhost());
        let others = two.management("GET", &path, None).json();
        assert_eq!(others.as_array().map(Vec::len), Some(0));
        let vhost = format!("vhosts/{}", one.vhost());
        drop(one);
        assert_eq!(two.management("GET", &vhost, None).status, 404);
    }
}

#[test]
fn real_own_node_is_killed_started_again_and_removed() {
    let broker = Broker::own(BrokerVersion::V3, &["heartbeat = 7"]);
    broker.declare("kept", QueueKind::Classic, Value::Null);
    broker.publish(&[Message::to_queue("kept", "before")]);
    broker.kill();
    assert!(std::net::TcpStream::connect(broker.address()).is_err());
    broker.start();
    assert_eq!(broker.ready("kept"), 1);
    let conf = std::fs::read_to_string(broker.folder().join("rabbitmq.conf")).unwrap();
    assert!(conf.contains("heartbeat = 7"));
    let (folder, address) = (broker.folder().to_owned(), broker.address());
    drop(broker);
    assert!(!folder.exists());
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn real_airflow_of_both_versions_answers_over_rest() {
    for version in AirflowVersion::ALL {
        let airflow = Airflow::shared(version);
        assert!(airflow.dags_folder().is_dir());
        let answer = airflow.rest("GET", "dags/no_such_dag", None);
        assert_eq!(answer.status, 404, "{}", answer.text());
        assert_eq!(airflow.run("no_such_dag", "r1"), None);
        let home = airflow.environment()["AIRFLOW_HOME"].clone();
        assert!(std::path::Path::new(&home).join("airflow.db").exists());
    }
}
