//! How long a broker waits for an acknowledgement, as its management API says: a held message goes back before that.

use serde_json::json;

use crate::support::{Broker, BrokerVersion, Dialect, Fault, Message, QueueKind, Setup, StubAirflow, What, eventually};
use crate::waits::{LATER, assert_one_run_each};

#[test]
fn real_held_message_goes_back_before_the_broker_loses_patience() {
    for version in BrokerVersion::ALL {
        let (broker, folder) = (Broker::shared(version), tempfile::tempdir().unwrap());
        // Without our looking it would be held for 25 minutes.
        broker.declare("orders", QueueKind::Quorum, json!({"x-consumer-timeout": 12_000}));
        let stub = StubAirflow::with_dag(Dialect::V2, "orders");
        stub.always(What::Trigger, Fault::status(503));
        let management = broker.management_url().replace(':', "%3A").replace('/', "%2F");
        let url = format!("{}?management_url={management}", broker.url());
        let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &url);
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
