//! What hangs on the management API of a real broker: when a held message goes back, and what a single active consumer may take.

use serde_json::json;

use crate::support::{Broker, BrokerVersion, Dialect, Fault, Message, QueueKind, Setup, StubAirflow, What, eventually};
use crate::waits::{LATER, assert_one_run_each};

fn with_management(broker: &Broker) -> String {
    let management = broker.management_url().replace(':', "%3A").replace('/', "%2F");
    format!("{}?management_url={management}", broker.url())
}

#[test]
fn real_held_message_goes_back_before_the_broker_loses_patience() {
    for version in BrokerVersion::ALL {
        let (broker, folder) = (Broker::shared(version), tempfile::tempdir().unwrap());
        // Without our looking it would be held for 25 minutes.
        broker.declare("orders", QueueKind::Quorum, json!({"x-consumer-timeout": 12_000}));
        let stub = StubAirflow::with_dag(Dialect::V2, "orders");
        stub.always(What::Trigger, Fault::status(503));
        let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &with_management(&broker));
        setup.dag("orders", "orders", "rmq_default");
        let mut watcher = setup.start();
        watcher.announce("which are held: Airflow answered 503");
        broker.publish(&[Message::to_queue("orders", "{}").id("m0")]);
        eventually(LATER, "it was given back twice", || {
            broker.queue("orders")["message_stats"]["redeliver"].as_u64().is_some_and(|times| times >= 2)
        });
        assert_eq!(watcher.count_event("consumer.failed"), 0, "the channel was never lost");
        assert_eq!(watcher.count_event("management.failed"), 0);
        stub.heal();
        stub.wait_runs("orders", 1, LATER);
        assert_one_run_each(&stub, "orders", "orders", 1);
    }
}

const FILTERED: &str = "from airflow.sdk import dag\nfrom airflow_rmq_watcher import rmq_trigger\n\n\n\
     @rmq_trigger(queue=\"orders\", filter_data={\"filter_headers\": {\"kind\": \"ours\"}})\n@dag(schedule=None)\n\
     def orders():\n    pass\n\n\norders()\n";

#[test]
fn real_single_active_consumer_reaches_a_match_behind_a_hundred_foreign_messages_and_is_never_rolled() {
    for version in BrokerVersion::ALL {
        let (broker, folder) = (Broker::shared(version), tempfile::tempdir().unwrap());
        broker.declare("orders", QueueKind::Quorum, json!({"x-single-active-consumer": true}));
        let mut messages: Vec<_> =
            (0..100).map(|_| Message::to_queue("orders", "{}").header("kind", "theirs")).collect();
        messages.push(Message::to_queue("orders", "{}").id("m0").header("kind", "ours"));
        broker.publish(&messages);
        let stub = StubAirflow::with_dag(Dialect::V2, "orders");
        let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &with_management(&broker));
        setup.dag_file("orders.py", FILTERED);
        let mut watcher = setup.start();
        watcher.announce("filter");
        stub.wait_runs("orders", 1, LATER);
        assert_one_run_each(&stub, "orders", "orders", 1);
        let attached = watcher.wait_event("consumer.attached", LATER);
        let consumers = || broker.queue("orders")["consumer_details"].as_array().cloned().unwrap_or_default();
        eventually(LATER, "the broker tells of its consumer", || !consumers().is_empty());
        let consumers = consumers();
        assert_eq!(consumers.len(), 1, "{consumers:?}");
        assert_eq!(consumers[0]["prefetch_count"], 10_000);
        let tag = consumers[0]["consumer_tag"].as_str().unwrap();
        assert!(attached.contains(tag), "it has the tag that it began with: {tag} {attached}");
    }
}
