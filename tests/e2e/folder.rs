//! Subscriptions follow the DAG folder, and no accident of a folder costs one.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::support::stub_airflow::StubDag;
use crate::support::{
    Airflow, AirflowVersion, Broker, BrokerVersion, Dialect, Message, QueueKind, Setup, StubAirflow, Watcher,
    eventually,
};
use crate::waits::{LATER, SOON, sql, wait_status};

/// The smallest pace that a folder's accidents can be watched at.
const EVERY_SECOND: &str = "[reconcile]\ninterval_secs = 1";

#[test]
fn real_new_dag_file_in_a_running_airflow_loses_no_message() {
    for (airflow, broker) in [(AirflowVersion::V3, BrokerVersion::V4), (AirflowVersion::V2, BrokerVersion::V3)] {
        let (airflow, broker) = (Airflow::shared(airflow), Broker::shared(broker));
        broker.declare("dropped", QueueKind::Quorum, json!({}));
        let ids: Vec<String> = (0..20).map(|n| format!("m{n}")).collect();
        broker.publish(&ids.iter().map(|id| Message::to_queue("dropped", "x").id(id)).collect::<Vec<_>>());
        let folder = tempfile::tempdir().unwrap();
        let setup = Setup::in_folder(folder.path())
            .airflow(airflow.url(), "admin", "admin")
            .env("AIRFLOW__CORE__DAGS_FOLDER", &airflow.dags_folder().display().to_string())
            .env("RMQ_WATCHER__AIRFLOW__MAX_IN_FLIGHT", "1")
            .connection("rmq_dropped", &broker.url());
        let mut watcher = setup.start();
        watcher.wait_event("process.started", SOON);
        let dag = format!("dropped_{}", std::process::id());
        let file = airflow.dags_folder().join(format!("{dag}.py"));
        let text = format!(
            "from airflow.decorators import dag\nfrom airflow_rmq_watcher import rmq_trigger\n\n\n\
             @rmq_trigger(queue=\"dropped\", conn_id=\"rmq_dropped\")\n\
             @dag(schedule=None, is_paused_upon_creation=True)\ndef {dag}():\n    pass\n\n\n{dag}()\n"
        );
        fs::write(&file, text).unwrap();
        watcher.wait_event("subscription.added", SOON);
        wait_status(&setup.state_dir(), &["waiting_for_dag"]);
        // Airflow reads it, and creates it paused.
        wait_status(&setup.state_dir(), &["paused_dag"]);
        airflow.wait_dag(&dag, LATER);
        let waits = |seconds| {
            std::thread::sleep(Duration::from_secs(seconds));
            assert_eq!(
                (broker.ready("dropped"), airflow.runs(&dag).len()),
                (20, 0),
                "nothing was taken before it is unpaused"
            );
        };
        waits(7);
        airflow.set_paused(&dag, false);
        eventually(LATER, "every message has its run", || airflow.runs(&dag).len() == 20);
        broker.wait_counts("dropped", 0, 0);
        for id in &ids {
            assert!(airflow.run(&dag, &format!("rmq__dropped__{id}")).is_some(), "{id}");
        }
        assert!(watcher.stop(SOON).success());
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn real_poison_literal_in_one_file_stops_no_other_subscription() {
    let broker = Broker::shared(BrokerVersion::V4);
    let stub = StubAirflow::start(Dialect::V2);
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &broker.url());
    let poisons = [
        "filter_data={1, 2}".to_owned(),
        "conn_id=5".to_owned(),
        format!("queue=\"{}\"", "q".repeat(256)),
        "queue=\"a\\x00b\"".to_owned(),
        "queue=QUEUE".to_owned(),
        "cooldown=10**400".to_owned(),
        "filter_data={'a': '\\ud800'}".to_owned(),
    ];
    for (n, poison) in poisons.iter().enumerate() {
        let queue = if poison.starts_with("queue") { "" } else { "queue=\"poisoned\", " };
        let text = format!(
            "from airflow.sdk import dag\nfrom airflow_rmq_watcher import rmq_trigger\n\n\n\
             @rmq_trigger({queue}{poison})\n@dag(schedule=None)\ndef poison_{n}():\n    pass\n\n\npoison_{n}()\n"
        );
        setup.dag_file(&format!("poison_{n}.py"), &text);
    }
    for dag in ["good_a", "good_b"] {
        broker.declare(dag, QueueKind::Classic, json!({}));
        stub.set_dag(dag, StubDag::default());
        setup.dag(dag, dag, "rmq_default");
        broker.publish(&[Message::to_queue(dag, "x").id("m0")]);
    }
    let mut watcher = setup.start();
    watcher.announce("subscription.refused");
    eventually(SOON, "the others run", || ["good_a", "good_b"].iter().all(|dag| stub.runs(dag).len() == 1));
    assert_eq!(watcher.count_event("subscription.refused"), poisons.len());
    assert_eq!(sql(&setup.state_dir(), "SELECT count(*) FROM refusals"), poisons.len().to_string());
    assert!(watcher.stop(SOON).success());
}

/// A watcher over a folder with six subscriptions, and what the state file says of them.
struct Six {
    broker: Broker,
    stub: StubAirflow,
    setup: Setup,
    root: tempfile::TempDir,
}

impl Six {
    fn new() -> Self {
        let broker = Broker::shared(BrokerVersion::for_this_round()[0]);
        let stub = StubAirflow::start(Dialect::V2);
        let root = tempfile::tempdir().unwrap();
        let setup =
            Setup::in_folder(root.path()).stub(&stub).connection("rmq_default", &broker.url()).config(EVERY_SECOND);
        let six = Self { broker, stub, setup, root };
        for n in 0..6 {
            six.broker.declare(&format!("q{n}"), QueueKind::Classic, json!({}));
            six.stub.set_dag(&format!("dag{n}"), StubDag::default());
        }
        six.write();
        six
    }

    fn dags(&self) -> std::path::PathBuf {
        self.root.path().join("dags")
    }

    fn write(&self) {
        fs::create_dir_all(self.dags()).unwrap();
        (0..6).for_each(|n| self.setup.dag(&format!("dag{n}"), &format!("q{n}"), "rmq_default"));
    }

    fn start(&self) -> Watcher {
        let mut watcher = self.setup.start();
        for event in ["scan.", "subscription.missed", "subscription.deleted", "subscription.revived", "file.unreadable"]
        {
            watcher.announce(event);
        }
        self.wait_listening(6);
        watcher
    }

    fn ask(&self, query: &str) -> String {
        sql(&self.setup.state_dir(), query)
    }

    fn wait_listening(&self, count: usize) {
        eventually(LATER, "all are listening", || {
            self.ask("SELECT count(*) FROM subscription_status WHERE status = 'listening'") == count.to_string()
        });
    }

    /// Numbers, tags and flags of all rows: what an accident must not change.
    fn rows(&self) -> String {
        self.ask(
            "SELECT group_concat(id || ' ' || dag_id || ' ' || enabled || ' ' || coalesce(consumer_tag, '-'), ';') \
             FROM (SELECT * FROM subscriptions JOIN subscription_status ON subscription_id = id \
                   WHERE deleted_at_ms IS NULL ORDER BY id)",
        )
    }

    fn misses(&self) -> u32 {
        self.ask("SELECT max(absent_cycles) FROM subscriptions").parse().unwrap_or(0)
    }

    fn wait_distrusted(&self, watcher: &mut Watcher) {
        watcher.wait_line("event=scan.distrusted", SOON);
    }

    fn serves_all(&self, round: &str) {
        for n in 0..6 {
            self.broker.publish(&[Message::to_queue(&format!("q{n}"), "x").id(round)]);
        }
        eventually(SOON, "every queue is served", || {
            (0..6).all(|n| {
                let wanted = format!("rmq__q{n}__{round}");
                self.stub.runs(&format!("dag{n}")).iter().any(|run| run.run_id == wanted)
            })
        });
    }
}

fn restore(from: &Path, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).unwrap();
    }
    fs::rename(from, to).unwrap();
}

#[test]
fn real_folder_that_is_away_for_a_while_costs_nothing() {
    let six = Six::new();
    let mut watcher = six.start();
    let (dags, aside) = (six.dags(), six.root.path().join("aside"));
    let before = six.rows();
    // Unmounted: the folder is not there, for as long as it likes.
    fs::rename(&dags, &aside).unwrap();
    six.wait_distrusted(&mut watcher);
    std::thread::sleep(Duration::from_secs(7));
    six.serves_all("away");
    restore(&aside, &dags);
    six.serves_all("back");
    // Emptied: for three cycles.
    fs::rename(&dags, &aside).unwrap();
    fs::create_dir(&dags).unwrap();
    six.wait_distrusted(&mut watcher);
    restore(&aside, &dags);
    eventually(SOON, "nothing is missing", || six.misses() == 0);
    // A checkout that was aborted: every file is there and is truncated.
    fs::create_dir(&aside).unwrap();
    for n in 0..6 {
        let file = format!("dag{n}.py");
        fs::copy(dags.join(&file), aside.join(&file)).unwrap();
        fs::write(dags.join(&file), "from airflow_rmq_watcher import (").unwrap();
    }
    six.wait_distrusted(&mut watcher);
    restore(&aside, &dags);
    // Half unreadable: links that lead nowhere, the way a volume that lost its backing looks.
    fs::create_dir(&aside).unwrap();
    for n in 0..4 {
        let file = format!("dag{n}.py");
        fs::rename(dags.join(&file), aside.join(&file)).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all.py", dags.join(&file)).unwrap();
    }
    six.wait_distrusted(&mut watcher);
    for n in 0..4 {
        let file = format!("dag{n}.py");
        fs::remove_file(dags.join(&file)).unwrap();
        fs::rename(aside.join(&file), dags.join(&file)).unwrap();
    }
    eventually(SOON, "nothing is missing", || six.misses() == 0);
    six.serves_all("mended");
    assert_eq!(six.rows(), before, "the same numbers, flags and consumers");
    assert_eq!(watcher.count_event("subscription.deleted"), 0);
    assert!(watcher.stop(SOON).success());
}

#[test]
fn real_folder_that_goes_slice_by_slice_is_measured_by_what_it_held() {
    let six = Six::new();
    let mut watcher = six.start();
    for n in 0..3 {
        fs::remove_file(six.dags().join(format!("dag{n}.py"))).unwrap();
        let gone = n + 1;
        eventually(SOON, "the miss is counted", || {
            six.ask("SELECT count(*) FROM subscriptions WHERE absent_cycles > 0 OR deleted_at_ms IS NOT NULL")
                == gone.to_string()
        });
    }
    // Three of six are gone by ones and twos; one more, and less than half of what it held is there.
    fs::remove_file(six.dags().join("dag3.py")).unwrap();
    six.wait_distrusted(&mut watcher);
    six.write();
    eventually(SOON, "nothing is missing", || six.misses() == 0);
    six.wait_listening(6);
    assert!(watcher.stop(SOON).success());
}

#[test]
fn real_folder_that_emptied_for_good_is_believed_after_three_cycles_and_a_return_keeps_the_flag() {
    let six = Six::new();
    let mut watcher = six.start();
    let disabled = six.setup.command(&["subscriptions", "disable", "dag0"]).output().unwrap();
    assert!(disabled.status.success(), "{disabled:?}");
    six.wait_listening(5);
    for n in 0..6 {
        fs::remove_file(six.dags().join(format!("dag{n}.py"))).unwrap();
    }
    watcher.wait_line("event=scan.believed", SOON);
    eventually(LATER, "all are deleted", || {
        six.ask("SELECT count(*) FROM subscriptions WHERE deleted_at_ms IS NULL") == "0"
    });
    for n in 0..6 {
        let queue = format!("q{n}");
        eventually(SOON, "no consumer is left", || six.broker.consumers(&queue) == 0);
    }
    assert_eq!(watcher.count_event("subscription.deleted"), 6);
    six.write();
    six.wait_listening(5);
    assert_eq!(six.ask("SELECT enabled || id FROM subscriptions WHERE dag_id = 'dag0'"), "01");
    assert_eq!(six.broker.consumers("q0"), 0);
    assert!(watcher.stop(SOON).success());
}

#[test]
fn real_restart_into_a_folder_that_is_half_there_is_no_new_beginning() {
    let six = Six::new();
    let mut watcher = six.start();
    assert!(watcher.stop(SOON).success());
    drop(watcher);
    for n in 0..5 {
        fs::remove_file(six.dags().join(format!("dag{n}.py"))).unwrap();
    }
    let mut watcher = six.start();
    six.wait_distrusted(&mut watcher);
    six.write();
    eventually(SOON, "nothing is missing", || six.misses() == 0);
    six.serves_all("again");
    assert!(watcher.stop(SOON).success());
}
