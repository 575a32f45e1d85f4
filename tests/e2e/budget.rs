//! What each return of a message costs on a quorum queue, and what is done when hardly any are left.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::stub_airflow::StubDag;
use crate::support::wait::pause;
use crate::support::{Broker, BrokerVersion, Dialect, Fault, Message, QueueKind, Setup, StubAirflow, Watcher, What};
use crate::support::{eventually, long_round};
use crate::waits::{LATER, SOON, sql, wait_status};

const QUEUE: &str = "worn";

/// A quorum queue with a limit, a DAG that takes nothing, and a watcher that knows the limit.
struct Scene {
    broker: Broker,
    stub: StubAirflow,
    setup: Setup,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(version: BrokerVersion, limit: u32, arguments: &str) -> Self {
        let (broker, stub) = (Broker::shared(version), StubAirflow::with_dag(Dialect::V2, "orders"));
        broker.declare(QUEUE, QueueKind::Quorum, json!({"x-delivery-limit": limit}));
        stub.always(What::Trigger, Fault::status(503));
        let url = broker.url();
        let (folder, setup) = Self::setup(&broker, &stub, &url, arguments);
        Self { broker, stub, setup, folder }
    }

    fn setup(broker: &Broker, stub: &StubAirflow, url: &str, arguments: &str) -> (tempfile::TempDir, Setup) {
        let folder = tempfile::tempdir().unwrap();
        let management = broker.management_url().replace(':', "%3A").replace('/', "%2F");
        let url = format!("{url}?management_url={management}");
        let setup = Setup::in_folder(folder.path()).stub(stub).connection("rmq_default", &url);
        let text = format!(
            "from airflow.sdk import dag\nfrom airflow_rmq_watcher import rmq_trigger\n\n\n\
             @rmq_trigger(queue=\"{QUEUE}\"{arguments})\n@dag(schedule=None)\ndef orders():\n    pass\n\n\norders()\n"
        );
        setup.dag_file("orders.py", &text);
        (folder, setup)
    }

    fn start(&self) -> Watcher {
        let mut watcher = self.setup.start();
        for expected in ["which are held", "consumer.failed", "gate.closed", "target.", "filter.missed", "airflow"] {
            watcher.announce(expected);
        }
        watcher.wait_event("consumer.attached", SOON);
        watcher
    }

    fn publish(&self) {
        self.broker.publish(&[Message::to_queue(QUEUE, "held").id("m0").header("kind", "mine")]);
    }

    /// Waits until the message is held.
    fn wait_held(&self) {
        self.broker.wait_counts(QUEUE, 0, 1);
        eventually(SOON, "Airflow was asked", || self.stub.count(What::Trigger) > 0);
    }

    /// How often the message in the queue has come back.
    fn count(&self) -> u64 {
        let mut messages = Vec::new();
        eventually(SOON, "it is back in the queue", || {
            messages = self.broker.take(QUEUE, 10);
            messages.iter().any(|one| one["payload"] == "held")
        });
        let held = messages.iter().find(|one| one["payload"] == "held").unwrap();
        held["properties"]["headers"]["x-delivery-count"].as_u64().unwrap_or(0)
    }
}

/// What a cause of a return costs a message that is held. The watcher is killed at the end to see it, which costs one.
fn costs(want: u64, arguments: &str, cause: impl Fn(&Scene, &mut Watcher)) {
    for version in BrokerVersion::for_this_round() {
        let scene = Scene::new(version, 20, arguments);
        let mut watcher = scene.start();
        scene.publish();
        scene.wait_held();
        cause(&scene, &mut watcher);
        if watcher.runs() {
            scene.broker.wait_counts(QUEUE, 0, scene.broker.queue(QUEUE)["messages"].as_u64().unwrap_or(1).max(1));
            watcher.kill();
        }
        assert_eq!(scene.count(), want, "{version:?}");
    }
}

#[test]
fn real_crash_costs_a_held_message_one_return() {
    costs(1, "", |_, _| {});
}

#[test]
fn real_stop_costs_a_held_message_one_return() {
    costs(1, "", |_, watcher| assert!(watcher.stop(SOON).success()));
}

#[test]
fn real_lost_channel_costs_a_held_message_one_return() {
    costs(2, "", |scene, watcher| {
        scene.broker.close_connections();
        watcher.wait_event("consumer.failed", SOON);
        watcher.wait_event("consumer.attached", LATER);
        scene.wait_held();
    });
}

#[test]
fn real_ack_deadline_costs_a_held_message_one_return() {
    costs(2, ", ack_deadline_override=8", |scene, _| {
        eventually(LATER, "it was given back", || {
            scene.broker.queue(QUEUE)["message_stats"]["redeliver"].as_u64() == Some(1)
        });
    });
}

#[test]
fn real_open_breaker_costs_a_held_message_nothing() {
    costs(1, "", |scene, _| {
        scene.stub.go_down();
        pause(Duration::from_secs(4));
        scene.stub.come_up();
        pause(Duration::from_secs(2));
    });
}

#[test]
fn real_pause_of_the_dag_costs_a_held_message_nothing() {
    costs(1, ", on_paused=\"hold\"", |scene, watcher| {
        scene.stub.set_dag("orders", StubDag { paused: true, ..StubDag::default() });
        watcher.wait_event("gate.closed", LATER);
        pause(Duration::from_secs(2));
    });
}

#[test]
fn real_detach_costs_a_held_message_one_return() {
    costs(1, "", |scene, watcher| {
        let mut switch = scene.setup.command(&["subscriptions", "disable", "1"]);
        let done = switch.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        watcher.wait_event("consumer.let_go", SOON);
        scene.broker.wait_counts(QUEUE, 1, 0);
        assert!(watcher.stop(SOON).success());
    });
}

#[test]
fn real_roll_costs_a_held_message_nothing() {
    let filter = ", filter_data={\"filter_headers\": {\"kind\": \"mine\"}}";
    costs(1, filter, |scene, _| {
        let foreign = |n| Message::to_queue(QUEUE, format!("foreign {n}")).header("kind", "foreign");
        scene.broker.publish(&(0..60).map(foreign).collect::<Vec<_>>());
        // More than a window, so the consumer was rolled.
        eventually(SOON, "all were taken", || scene.broker.ready(QUEUE) == 0);
    });
}

#[test]
fn real_message_whose_target_stays_down_through_many_returns_is_copied_and_starts_one_run() {
    for version in BrokerVersion::ALL {
        let scene = Scene::new(version, 3, "");
        scene.publish();
        let mut copies = 0;
        for _ in 0..6 {
            let mut watcher = scene.start();
            scene.wait_held();
            pause(Duration::from_millis(1500));
            copies += watcher.count_event("message.copied");
            watcher.kill();
        }
        assert!(copies >= 2, "{version:?}: {copies} copies");
        scene.stub.heal();
        let mut watcher = scene.start();
        let runs = scene.stub.wait_runs("orders", 1, LATER);
        scene.broker.wait_counts(QUEUE, 0, 0);
        assert!(watcher.stop(SOON).success());
        assert_eq!(scene.stub.runs("orders").len(), 1, "{version:?}");
        assert_eq!(runs[0].run_id, format!("rmq__{QUEUE}__m0"));
        assert_eq!(runs[0].conf["body"], "held");
        assert!(!runs[0].conf["headers"].to_string().contains("x-rmq-watcher"), "{}", runs[0].conf);
        assert_eq!(sql(&scene.setup.state_dir(), "SELECT count(*) FROM ledger"), "1");
    }
}

#[test]
fn real_message_without_an_id_is_copied_and_starts_one_run_as_well() {
    for version in BrokerVersion::for_this_round() {
        let scene = Scene::new(version, 3, "");
        scene.broker.declare_exchange("shop", "topic");
        scene.broker.bind("shop", QUEUE, "orders.#");
        scene.broker.publish(&[Message::to_exchange("shop", "orders.new", "held").header("kind", "mine")]);
        for _ in 0..4 {
            let mut watcher = scene.start();
            scene.wait_held();
            pause(Duration::from_millis(1500));
            watcher.kill();
        }
        scene.stub.heal();
        let mut watcher = scene.start();
        let runs = scene.stub.wait_runs("orders", 1, LATER);
        scene.broker.wait_counts(QUEUE, 0, 0);
        assert!(watcher.stop(SOON).success());
        assert_eq!(scene.stub.runs("orders").len(), 1, "{version:?}");
        assert_eq!(runs[0].conf["routing_key"], "orders.new", "{version:?}");
    }
}

#[test]
fn real_without_the_right_to_publish_the_queue_is_held_back() {
    for version in BrokerVersion::ALL {
        let mut scene = Scene::new(version, 3, "");
        scene.broker.add_user("reader", "secret-word", "", "^only-this$", ".*");
        let user = json!({"password": "secret-word", "tags": "monitoring"});
        assert!(scene.broker.management("PUT", "users/reader", Some(&user)).status < 300);
        let url = scene.broker.url_as("reader", "secret-word");
        (scene.folder, scene.setup) = Scene::setup(&scene.broker, &scene.stub, &url, "");
        scene.publish();
        let mut watcher = scene.start();
        scene.wait_held();
        watcher.kill();
        let mut watcher = scene.setup.start();
        for expected in ["which are held", "copy.failed", "queue.held_back", "target."] {
            watcher.announce(expected);
        }
        watcher.wait_event("queue.held_back", LATER);
        wait_status(
            &scene.setup.state_dir(),
            &["error: budget: a message has 2 of 3 returns", "no copy of it can be published"],
        );
        scene.broker.publish(&[Message::to_queue(QUEUE, "waits").id("m1")]);
        pause(Duration::from_secs(2));
        scene.broker.wait_counts(QUEUE, 1, 1);
        scene.stub.heal();
        scene.stub.wait_runs("orders", 2, LATER);
        scene.broker.wait_counts(QUEUE, 0, 0);
        assert!(watcher.stop(SOON).success());
        assert_eq!(scene.stub.runs("orders").len(), 2, "{version:?}");
    }
}

#[test]
fn real_on_budget_dead_letter_rejects_what_a_dead_letter_exchange_takes() {
    for version in BrokerVersion::for_this_round() {
        let scene = Scene::new(version, 3, ", on_budget=\"dead_letter\"");
        scene.broker.delete_queue(QUEUE);
        scene.broker.declare("dead", QueueKind::Classic, Value::Null);
        let arguments =
            json!({"x-delivery-limit": 3, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"});
        scene.broker.declare(QUEUE, QueueKind::Quorum, arguments);
        scene.publish();
        let mut watcher = scene.start();
        scene.wait_held();
        watcher.kill();
        let mut watcher = scene.start();
        watcher.announce("message.refused");
        watcher.wait_event("message.refused", LATER);
        scene.broker.wait_counts("dead", 1, 0);
        scene.broker.wait_counts(QUEUE, 0, 0);
        assert!(watcher.stop(SOON).success());
        let dead = scene.broker.take("dead", 1);
        assert_eq!(
            dead[0]["properties"]["headers"]["x-death"][0]["reason"], "rejected",
            "{version:?}: by us, not by the limit"
        );
    }
}

#[test]
fn real_kill_while_a_message_is_copied_neither_loses_nor_doubles_it() {
    let ids: &[bool] = if long_round() { &[true, false] } else { &[false] };
    for version in BrokerVersion::for_this_round() {
        for &with_id in ids {
            for arrow in ["copying", "copied", "verb_sent"] {
                let scene = Scene::new(version, 3, "");
                let message = Message::to_queue(QUEUE, "held");
                scene.broker.publish(&[if with_id { message.id("m0") } else { message }]);
                let mut watcher = scene.start();
                scene.wait_held();
                watcher.kill();
                let mut killed = scene.setup.clone().env("RMQ_WATCHER_TEST_KILL_AT", &format!("{arrow}:1")).start();
                killed.announce("which are held").announce("target.");
                assert_eq!(killed.wait_end(LATER).signal(), Some(9), "{version:?} {arrow}");
                scene.stub.heal();
                let mut watcher = scene.start();
                scene.stub.wait_runs("orders", 1, LATER);
                scene.broker.wait_counts(QUEUE, 0, 0);
                assert!(watcher.stop(SOON).success());
                assert_eq!(scene.stub.runs("orders").len(), 1, "{version:?} {arrow}, id: {with_id}");
            }
        }
    }
}

#[test]
fn real_message_for_nobody_is_never_lost_to_our_looking() {
    for version in BrokerVersion::ALL {
        let scene = Scene::new(version, 3, ", filter_data={\"filter_headers\": {\"kind\": \"other\"}}");
        scene.publish();
        for _ in 0..5 {
            let mut watcher = scene.start();
            scene.broker.wait_counts(QUEUE, 0, 1);
            pause(Duration::from_millis(1500));
            watcher.kill();
        }
        eventually(SOON, "it is back in the queue", || scene.broker.ready(QUEUE) > 0);
        let left = scene.broker.take(QUEUE, 10);
        // A crash between a copy's confirm and the acknowledgement leaves both.
        assert!((1..=2).contains(&left.len()), "{version:?}: {} are there", left.len());
        let count = |one: &Value| one["properties"]["headers"]["x-delivery-count"].as_u64().unwrap_or(0);
        assert!(left.iter().all(|one| count(one) < 3), "{version:?}: {left:?}");
        assert!(
            left.iter().all(|one| one["payload"] == "held" && one["properties"]["message_id"] == "m0"),
            "{version:?}"
        );
    }
}
