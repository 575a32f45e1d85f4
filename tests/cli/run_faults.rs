//! `run` where it cannot run, or not fully: what it says, how it ends, what it leaves alone.

use crate::bench::{Bench, LATER, SOON, assert_readable};
use crate::state::{sql, wait_status};
use crate::support::stub_airflow::StubDag;
use crate::support::{BrokerVersion, Dialect, Message, QueueKind, Setup, StubAirflow, eventually};

#[test]
fn real_missing_credentials_attach_nothing_and_are_said_once() {
    let bench = Bench::new(BrokerVersion::V3, Dialect::V2);
    let setup = bench.setup().without("RMQ_WATCHER__AIRFLOW__USERNAME").without("RMQ_WATCHER__AIRFLOW__PASSWORD");
    let mut watcher = setup.start();
    watcher.announce("no Airflow credentials");
    wait_status(&setup.state_dir(), "orders", &["error: no Airflow credentials"]);
    // A row of a DAG that was written now is of a later cycle.
    setup.dag("later", "later", "rmq_default");
    wait_status(&setup.state_dir(), "later", &["error: no Airflow credentials"]);
    let errors = watcher.lines().into_iter().filter(|line| line.contains("} ERROR - ")).count();
    assert_eq!((errors, watcher.count_event("credentials.missing")), (1, 1), "{:#?}", watcher.lines());
    assert_eq!(bench.broker.consumers("orders"), 0);
    assert!(watcher.stop(SOON).success());
}

#[test]
fn wrong_settings_end_it_with_every_problem_logged() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path())
        .config("[consume]\nprefetch = 0")
        .env("RMQ_WATCHER__LOG__LEVEL", "loud")
        .env("RMQ_WATCHER__NO__KEY", "1");
    let mut watcher = setup.start();
    watcher.announce("RMQ Watcher");
    assert_eq!(watcher.wait_end(SOON).code(), Some(1));
    watcher.wait_line("3 settings are wrong", SOON);
    assert_eq!(watcher.count_event("config.invalid"), 3, "{:#?}", watcher.lines());
    let lines = watcher.lines();
    for key in ["consume.prefetch", "log.level", "RMQ_WATCHER__NO__KEY"] {
        assert!(lines.iter().any(|line| line.contains(key)), "{key} in {lines:#?}");
    }
    assert_readable(lines.iter().map(String::as_str));
    assert!(!setup.state_dir().exists());
}

#[test]
fn configuration_file_that_is_not_there_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path());
    let done = setup.command(&["run", "--standalone", "--config", "/no/such/file.toml"]).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("/no/such/file.toml cannot be read"), "{said}");
}

#[test]
fn state_directory_that_cannot_be_made_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("a-file/state").display().to_string();
    std::fs::write(folder.path().join("a-file"), "in the way").unwrap();
    let setup = Setup::in_folder(folder.path()).env("RMQ_WATCHER__STATE__DIR", &place);
    let mut watcher = setup.start();
    watcher.announce("RMQ Watcher process failed").announce("process").announce("lock the state directory");
    assert_eq!(watcher.wait_end(SOON).code(), Some(1));
    let said = watcher.wait_line(&place, SOON);
    assert!(said.contains("check that"), "{said}");
    assert_readable(watcher.lines().iter().map(String::as_str));
}

#[test]
fn state_file_of_a_newer_version_ends_it_and_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path());
    std::fs::create_dir_all(setup.state_dir()).unwrap();
    let path = setup.state_dir().join("state.db");
    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.execute_batch("PRAGMA user_version = 999; CREATE TABLE future (x)").unwrap();
    drop(newer);
    let before = std::fs::read(&path).unwrap();
    let mut watcher = setup.start();
    watcher.announce("process");
    assert_eq!(watcher.wait_end(SOON).code(), Some(1));
    let said = watcher.wait_line("999", SOON);
    assert!(said.contains("state.db"), "{said}");
    assert!(std::fs::read(&path).unwrap() == before, "the file was touched");
}

#[test]
fn real_broken_state_file_is_moved_aside_and_a_new_one_begun() {
    let bench = Bench::new(BrokerVersion::V3, Dialect::V1);
    let setup = bench.setup();
    std::fs::create_dir_all(setup.state_dir()).unwrap();
    let garbage = "this is no state file ".repeat(1000);
    std::fs::write(setup.state_dir().join("state.db"), &garbage).unwrap();
    let mut watcher = setup.start();
    watcher.announce("store.moved_aside").announce("store.restored");
    watcher.wait_event("store.moved_aside", SOON);
    watcher.wait_event("consumer.attached", SOON);
    let kept = std::fs::read_dir(setup.state_dir()).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        path.is_file() && std::fs::read(path).unwrap() == garbage.as_bytes()
    });
    assert!(kept, "the broken file was kept");
    bench.broker.publish(&[Message::to_queue("orders", "x").id("m0")]);
    bench.stub.wait_runs("orders", 1, LATER);
    eventually(SOON, "it is settled", || sql(&setup.state_dir(), "SELECT state FROM ledger") == "settled");
    assert!(watcher.stop(SOON).success());
}

/// The address is not ours to give: Airflow's own settings lead to it.
#[test]
fn real_airflow_is_found_by_its_own_settings() {
    for (name, suffix) in
        [("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "/execution/"), ("AIRFLOW__WEBSERVER__BASE_URL", "")]
    {
        let bench = Bench::new(BrokerVersion::V3, Dialect::V2);
        let elsewhere = StubAirflow::start(Dialect::V2);
        let setup = bench
            .setup()
            .without("RMQ_WATCHER__AIRFLOW__URL")
            .env("AIRFLOW__WEBSERVER__BASE_URL", &elsewhere.url())
            .env(name, &format!("{}{suffix}", bench.stub.url()));
        let mut watcher = setup.start();
        watcher.wait_event("consumer.attached", SOON);
        bench.broker.publish(&[Message::to_queue("orders", "x").id("m0")]);
        bench.stub.wait_runs("orders", 1, LATER);
        assert!(elsewhere.requests().is_empty());
        assert!(watcher.stop(SOON).success());
    }
}

#[test]
fn real_one_faulty_subscription_does_not_keep_another_waiting() {
    let bench = Bench::new(BrokerVersion::V3, Dialect::V2);
    let setup = bench.setup().connection("nowhere", "amqp://guest:guest@127.0.0.1:9/");
    setup.dag("lost", "lost", "nowhere");
    bench.broker.declare("bills", QueueKind::Classic, serde_json::json!({}));
    setup.dag("bills", "bills", "rmq_default");
    bench.stub.set_dag("bills", StubDag::default());
    setup.dag("absent", "no_such_queue", "rmq_default");
    for dag in ["lost", "absent"] {
        bench.stub.set_dag(dag, StubDag::default());
    }
    let mut watcher = setup.start();
    watcher.announce("consumer.failed");
    for dag in ["orders", "bills"] {
        wait_status(&setup.state_dir(), dag, &["listening: "]);
        bench.broker.publish(&[Message::to_queue(dag, "x").id("m0")]);
        bench.stub.wait_runs(dag, 1, LATER);
    }
    wait_status(&setup.state_dir(), "lost", &["error: ", "127.0.0.1:9"]);
    wait_status(&setup.state_dir(), "absent", &["error: ", "no_such_queue"]);
    assert!(watcher.stop(SOON).success());
}
