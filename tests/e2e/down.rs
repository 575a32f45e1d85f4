//! Airflow is away, for long or again and again: what came meanwhile runs afterwards, and hardly any of it was redelivered.

use std::time::Duration;

use serde_json::json;

use crate::support::wait::pause;
use crate::support::{Broker, BrokerVersion, Dialect, Message, QueueKind, Setup, StubAirflow, Watcher, long_round};
use crate::waits::{LATER, SOON, assert_one_run_each};

const QUEUE: &str = "away";
const DAG: &str = "away";

/// A watcher over a queue whose messages may come back three times, and are dead-lettered at the fourth.
struct Away {
    broker: Broker,
    stub: StubAirflow,
    watcher: Watcher,
    _folder: tempfile::TempDir,
}

impl Away {
    fn new(version: BrokerVersion, dialect: Dialect) -> Self {
        let (broker, stub) = (Broker::shared(version), StubAirflow::with_dag(dialect, DAG));
        broker.declare("dead", QueueKind::Classic, json!({}));
        let limit = json!({"x-delivery-limit": 3, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"});
        broker.declare(QUEUE, QueueKind::Quorum, limit);
        broker.trace(QUEUE);
        let folder = tempfile::tempdir().unwrap();
        let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &broker.url());
        setup.dag(DAG, QUEUE, "rmq_default");
        let mut watcher = setup.start();
        for event in ["delivery.held", "airflow.", "dags.unread", "variable.unread", "gate.", "target."] {
            watcher.announce(event);
        }
        watcher.wait_event("consumer.attached", SOON);
        Self { broker, stub, watcher, _folder: folder }
    }

    fn publish(&self, numbers: std::ops::Range<usize>) {
        let message = |n| Message::to_queue(QUEUE, format!("{n}")).id(&format!("m{n}"));
        self.broker.publish(&numbers.map(message).collect::<Vec<_>>());
    }

    /// Every one of `count` messages has run once, none is dead-lettered, and none came more than so often.
    fn all_ran(mut self, count: usize, deliveries: u32, what: &str) {
        self.stub.wait_runs(DAG, count, LATER);
        self.broker.wait_counts(QUEUE, 0, 0);
        assert!(self.watcher.stop(SOON).success());
        assert_eq!((self.broker.ready(QUEUE), self.broker.ready("dead")), (0, 0), "{what}");
        assert_one_run_each(&self.stub, DAG, QUEUE, count);
        let delivered = self.broker.deliveries(QUEUE);
        assert_eq!(delivered.len(), count, "{what}");
        let more: Vec<_> = delivered.iter().filter(|(_, times)| **times > deliveries).collect();
        assert!(more.is_empty(), "{what}: delivered more than {deliveries} times: {more:?}");
    }
}

#[test]
fn real_airflow_that_is_down_for_long_costs_no_run_and_at_most_one_redelivery() {
    for version in BrokerVersion::for_this_round() {
        let away = Away::new(version, Dialect::V2);
        away.stub.go_down();
        away.publish(0..50);
        pause(Duration::from_secs(if long_round() { 180 } else { 20 }));
        assert_eq!(away.stub.count_runs(DAG), 0);
        away.stub.come_up();
        away.all_ran(50, 2, &format!("{version:?}"));
    }
}

#[test]
fn real_airflow_that_flaps_costs_no_redelivery() {
    for version in BrokerVersion::for_this_round() {
        let away = Away::new(version, Dialect::V1);
        let turns = if long_round() { 18 } else { 3 };
        away.publish(0..5);
        for turn in 0..turns {
            let from = 5 + turn * 45 / turns;
            if turn % 2 == 0 {
                away.stub.go_down();
            } else {
                away.stub.come_up();
            }
            away.publish(from..5 + (turn + 1) * 45 / turns);
            pause(Duration::from_secs(10));
        }
        if turns % 2 == 1 {
            away.stub.come_up();
        }
        away.all_ran(50, 1, &format!("{version:?}"));
    }
}
