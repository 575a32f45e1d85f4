//! The state file read by another process than the one that writes it: nothing changed, nothing held up, every trouble a sentence.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rmq_watcher::domain::ids::SubscriptionId;
use rmq_watcher::domain::view::{Facts, Lock, Process};
use rmq_watcher::store::lock::{Looked, look, try_lock};
use rmq_watcher::store::open::open_inline;
use rmq_watcher::store::{StoreError, view};
use rusqlite::Connection;
use serde_json::json;

fn state_in(dir: &Path) -> PathBuf {
    drop(open_inline(dir, 0).unwrap());
    dir.join("state.db")
}

fn add(connection: &Connection, ids: std::ops::Range<i64>) {
    let mut statement = connection
        .prepare(
            "INSERT INTO subscriptions VALUES (?1, 'dag' || ?1, 'q', 'c', 'dag_file', 'a.py:1:1', 'a.py', '{\"cooldown\":5}', 1, NULL, 2, \
             NULL, 5, 6)",
        )
        .unwrap();
    connection.execute_batch("SAVEPOINT adding").unwrap();
    for id in ids {
        statement.execute([id]).unwrap();
    }
    connection.execute_batch("RELEASE adding").unwrap();
}

fn ids(facts: &Facts) -> Vec<i64> {
    facts.subscriptions.iter().map(|row| row.id.0).collect()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_row_is_read_page_by_page() {
    let dir = tempfile::tempdir().unwrap();
    let connection = Connection::open(state_in(dir.path())).unwrap();
    add(&connection, 1..1_502);
    connection
        .execute_batch(
            "INSERT INTO subscription_status VALUES (7, 'listening', 'was lost', 'tag', 8);
             INSERT INTO connection_status VALUES ('', 'connected', NULL, 3, 4, 5), ('c', 'error', 'no', NULL, NULL, 5);
             INSERT INTO refusals VALUES (-3, 'b.py:1:1', 'b.py', NULL, NULL, NULL, NULL, 'no_queue', 'refused', 9);
             INSERT INTO watchers VALUES (1, 'host', 12, '1.0', 1, NULL, 60000, 300000, 'slow', '{\"a\":1}', NULL);",
        )
        .unwrap();
    drop(connection);
    let facts = view::read(dir.path()).unwrap();
    assert_eq!(ids(&facts), (1..1_502).collect::<Vec<_>>());
    let row = &facts.subscriptions[6];
    assert_eq!((row.id, row.dag_id.as_str(), row.absent_cycles, row.enabled), (SubscriptionId(7), "dag7", 2, true));
    assert_eq!(serde_json::Value::Object(row.options.clone()), json!({"cooldown": 5}));
    assert_eq!((row.status.as_deref(), row.last_error.as_deref()), (Some("listening"), Some("was lost")));
    assert_eq!((row.consumer_tag.as_deref(), row.status_at_ms), (Some("tag"), Some(8)));
    assert_eq!(facts.subscriptions[7].status, None);
    assert_eq!(facts.refusals[0].sentence, "refused");
    assert_eq!(facts.connections.last().unwrap().last_error.as_deref(), Some("no"));
    let watcher = facts.watcher.unwrap();
    assert_eq!((watcher.pid, watcher.budget_ms, watcher.counters), (12, 300_000, json!({"a": 1})));
    assert_eq!((watcher.last_error.as_deref(), watcher.last_cycle_at_ms), (Some("slow"), None));
}

#[test]
fn file_that_nobody_writes_is_left_as_it_is_and_nothing_is_made_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = state_in(dir.path());
    let (before, beside) = (fs::read(&file).unwrap(), names(dir.path()));
    assert_eq!(view::read(dir.path()).unwrap(), Facts::default());
    assert_eq!(names(dir.path()), beside);
    assert!(fs::read(&file).unwrap() == before);
}

/// What a kill leaves: the last commits stand in the log only, and the shared memory is of no use to anybody.
#[test]
fn killed_watchers_last_commits_are_read_also_without_the_shared_memory() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = state_in(dir.path());
    let writer = Connection::open(&file).unwrap();
    writer.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
    add(&writer, 1..4);
    for name in ["state.db", "state.db-wal"] {
        fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    }
    assert_eq!(ids(&view::read(copy.path()).unwrap()), [1, 2, 3]);
}

#[test]
fn watcher_that_writes_is_read_beside_and_not_held_up() {
    let dir = tempfile::tempdir().unwrap();
    let file = state_in(dir.path());
    let held = try_lock(dir.path()).unwrap().unwrap_or_else(|holder| panic!("{holder:?}"));
    let writer = Connection::open(&file).unwrap();
    add(&writer, 1..3);
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    add(&writer, 3..5);
    let facts = view::read(dir.path()).unwrap();
    assert_eq!(ids(&facts), [1, 2], "what is not committed is not there");
    let Lock::Held { pid, process, since_ms: Some(since_ms) } = facts.lock else { panic!("{:?}", facts.lock) };
    assert_eq!((pid, process), (i32::try_from(std::process::id()).ok(), Process::Running));
    assert!(since_ms > 1_700_000_000_000, "{since_ms}");
    writer.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    assert_eq!(ids(&view::read(dir.path()).unwrap()), [1, 2, 3, 4]);
    drop(held);
}

#[test]
fn odd_path_is_opened_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("a?b=c#d%41 é&");
    let connection = Connection::open(state_in(&odd)).unwrap();
    add(&connection, 1..2);
    assert_eq!(ids(&view::read(&odd).unwrap()), [1]);
}

#[test]
fn values_that_no_program_of_ours_writes_hide_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let connection = Connection::open(state_in(dir.path())).unwrap();
    add(&connection, 1..3);
    connection
        .execute_batch(
            "UPDATE subscriptions SET dag_id = CAST(x'64ff' AS TEXT), absent_cycles = -5 WHERE id = 1;
             INSERT INTO connection_status VALUES ('c', 'connected', NULL, 99999999999, 4, 5);",
        )
        .unwrap();
    let facts = view::read(dir.path()).unwrap();
    assert_eq!(ids(&facts), [1, 2]);
    assert_eq!((facts.subscriptions[0].dag_id.as_str(), facts.subscriptions[0].absent_cycles), ("d\u{fffd}", 0));
    assert_eq!(facts.connections[0].consumer_count, Some(u32::MAX));
}

#[test]
fn what_the_last_believed_scan_could_not_read_is_read_from_the_baseline() {
    let dir = tempfile::tempdir().unwrap();
    let connection = Connection::open(state_in(dir.path())).unwrap();
    let files = || view::read(dir.path()).unwrap().unreadable.into_iter().map(|one| one.file).collect::<Vec<_>>();
    assert_eq!(files(), Vec::<String>::new(), "before the first scan");
    let one = r#"{"file": "broken.py", "kind": "syntax", "sentence": "broken.py:3: invalid syntax"}"#;
    for (baseline, expected) in
        [(format!(r#"{{"unreadable": [{one}]}}"#), vec!["broken.py"]), ("oh".to_owned(), vec![])]
    {
        connection.execute("INSERT OR REPLACE INTO scan_baseline VALUES (1, ?1, 1)", [baseline]).unwrap();
        assert_eq!(files(), expected);
    }
}

#[test]
fn text_that_is_no_json_object_is_shown_as_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    let connection = Connection::open(state_in(dir.path())).unwrap();
    add(&connection, 1..2);
    connection.execute_batch("UPDATE subscriptions SET options = 'oh'").unwrap();
    drop(connection);
    let facts = view::read(dir.path()).unwrap();
    assert_eq!(serde_json::Value::Object(facts.subscriptions[0].options.clone()), json!({"unreadable": "oh"}));
}

#[test]
fn what_cannot_be_read_is_told_apart_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let missing = view::read(dir.path()).unwrap_err();
    assert!(matches!(missing, StoreError::Missing { .. }), "{missing}");
    assert!(matches!(view::read(&dir.path().join("none")), Err(StoreError::Missing { .. })));
    assert_eq!(names(dir.path()), Vec::<String>::new());

    let file = state_in(dir.path());
    let version = |version: i64| {
        Connection::open(&file).unwrap().pragma_update(None, "user_version", version).unwrap();
        view::read(dir.path()).unwrap_err()
    };
    let newer = version(99);
    assert!(matches!(newer, StoreError::NewerSchema { found: 99, .. }), "{newer}");
    let older = version(1);
    assert!(matches!(older, StoreError::OlderSchema { found: 1, .. }), "{older}");
    assert!(older.to_string().contains("brings it up to date when it starts"), "{older}");

    let spoiled = "this is not a database, whatever its name says";
    fs::write(&file, spoiled).unwrap();
    let broken = view::read(dir.path()).unwrap_err();
    assert!(matches!(broken, StoreError::Broken { .. }), "{broken}");
    assert_eq!(
        (fs::read_to_string(&file).unwrap().as_str(), names(dir.path())),
        (spoiled, vec!["state.db".to_owned()])
    );
    fs::write(&file, "").unwrap();
    assert!(matches!(view::read(dir.path()), Err(StoreError::OlderSchema { found: 0, .. })));
}

#[test]
fn look_at_the_lock_says_that_its_holder_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let held = try_lock(dir.path()).unwrap().unwrap_or_else(|holder| panic!("{holder:?}"));
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    fs::write(dir.path().join("lock"), pid.to_string()).unwrap();
    let process = || match view::read_lock(dir.path()).unwrap() {
        Lock::Held { process, .. } => process,
        Lock::Free => panic!("it is held"),
    };
    kill(pid, Signal::SIGSTOP).unwrap();
    assert_eq!(waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap(), WaitStatus::Stopped(pid, Signal::SIGSTOP));
    assert_eq!(process(), Process::Stopped);
    kill(pid, Signal::SIGCONT).unwrap();
    waitpid(pid, Some(WaitPidFlag::WCONTINUED)).unwrap();
    assert_eq!(process(), Process::Running);
    child.kill().unwrap();
    child.wait().unwrap();
    drop(held);
}

#[test]
fn look_at_the_lock_makes_and_takes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(look(dir.path()).unwrap(), Looked::Free);
    assert_eq!(names(dir.path()), Vec::<String>::new());
    let held = try_lock(dir.path()).unwrap().unwrap_or_else(|holder| panic!("{holder:?}"));
    let Looked::Held { holder, since } = look(dir.path()).unwrap() else { panic!("it is held") };
    assert_eq!(holder.pid, i32::try_from(std::process::id()).ok());
    assert!(since.is_some());
    drop(held);
    assert_eq!(look(dir.path()).unwrap(), Looked::Free);
    assert!(try_lock(dir.path()).unwrap().is_ok());
}
