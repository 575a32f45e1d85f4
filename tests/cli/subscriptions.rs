//! `subscriptions`: listed, shown, and switched: over the socket of a watcher that runs, in the file of one that does not.

use std::sync::mpsc;
use std::time::Duration;

use rmq_watcher::domain::control::{Answer, Request};
use rmq_watcher::domain::ids::SubscriptionId;
use serde_json::json;

use crate::bench::SOON;
use crate::kept::{Kept, says};
use crate::support::wait::pause;
use crate::support::{Dialect, Setup, StubAirflow, eventually, eventually_some};

const REFUSED: &str = "a.py:1:1: subscription of DAG \"invalid\" refused";

/// Seven rows of every kind.
fn kept() -> Kept {
    let kept = Kept::new();
    kept.subscription(2, "two", "q", "listening");
    kept.subscription(3, "two", "r", "listening");
    kept.subscription(4, "off", "q", "disconnected");
    kept.subscription(5, "invalid", "q", "error");
    kept.subscription(6, "gone", "q", "disconnected");
    kept.sql(&format!(
        "UPDATE subscriptions SET enabled = 0 WHERE id = 4;
         UPDATE subscriptions SET invalid = '{REFUSED}' WHERE id = 5;
         UPDATE subscriptions SET deleted_at_ms = 1700000000000 WHERE id = 6;"
    ));
    kept
}

#[test]
fn dead_watchers_file_is_changed_under_its_lock() {
    let kept = kept();
    for (verb, id, part) in [
        (
            "disable",
            "orders",
            "subscription 1 (DAG orders, queue orders, connection rmq_default) is switched off; no watcher runs",
        ),
        ("disable", "1", "was switched off already"),
        ("enable", "orders/orders/rmq_default", "is switched on; no watcher runs"),
        ("enable", "1", "was switched on already"),
    ] {
        let said = kept.says(&["subscriptions", verb, id]);
        assert_eq!((said.code, said.error.as_str()), (Some(0), ""), "{said:?}");
        assert!(said.out.contains(part), "{part:?} in {}", said.out);
        assert_eq!(kept.is_enabled(1), verb == "enable");
        assert!(kept.is_enabled(2));
    }
    let said = kept.says(&["subscriptions", "disable", "two/r", "--json"]);
    assert_eq!(said.json(), json!({"id": 3, "enabled": false, "changed_by": "state_file"}));
    assert!(!kept.is_enabled(3) && kept.is_enabled(2));
    let said = kept.says(&["subscriptions", "disable", "two/r", "--json"]);
    assert_eq!(said.json(), json!({"id": 3, "enabled": false, "changed_by": null}));
    // The lock is free again, and the clean file is all that is left.
    drop(kept.hold());
    assert!(!kept.dir().join("state.db-wal").exists());
}

#[test]
fn running_watcher_is_asked_and_the_file_is_left_to_it() {
    let kept = kept();
    let (asked, requests) = mpsc::channel();
    let _alive = kept.alive(move |request| {
        asked.send(request).unwrap();
        Answer::Done
    });
    let said = kept.says(&["subscriptions", "disable", "orders"]);
    assert_eq!((said.code, said.error.as_str()), (Some(0), ""), "{said:?}");
    assert!(said.out.ends_with("is switched off\n"), "{}", said.out);
    let request = requests.recv_timeout(SOON).unwrap();
    assert_eq!(request, Request::SetEnabled { id: SubscriptionId(1), enabled: false });
    assert!(kept.is_enabled(1), "only the watcher writes while it runs");
    let said = kept.says(&["subscriptions", "enable", "off", "--json"]);
    assert_eq!(said.json(), json!({"id": 4, "enabled": true, "changed_by": "watcher"}));
    assert_eq!(requests.recv_timeout(SOON).unwrap(), Request::SetEnabled { id: SubscriptionId(4), enabled: true });
}

#[test]
fn what_the_watcher_refuses_is_told_in_its_words() {
    let kept = kept();
    let _alive = kept.alive(|_| Answer::Refused { sentence: "not today; nothing was changed".into() });
    let said = kept.says(&["subscriptions", "disable", "orders"]);
    assert_eq!((said.code, said.out.as_str(), said.error.as_str()), (Some(1), "", "not today; nothing was changed\n"));
}

#[test]
fn held_lock_without_an_answer_changes_nothing() {
    let kept = kept();
    let _lock = kept.hold();
    let said = kept.says(&["subscriptions", "disable", "orders"]);
    assert_eq!((said.code, said.out.as_str(), said.error.lines().count()), (Some(1), "", 1), "{said:?}");
    let pid = format!("PID {} (running) holds the state directory", std::process::id());
    assert!(
        said.error.contains("control.sock") && said.error.contains(&pid) && said.error.contains("nothing was changed"),
        "{said:?}"
    );
    assert!(kept.is_enabled(1));
}

#[test]
fn lock_that_is_let_go_meanwhile_is_waited_for() {
    let kept = kept();
    let lock = kept.hold();
    let setup = Setup::in_folder(kept.folder.path());
    let thread = std::thread::spawn(move || says(&setup, &["subscriptions", "disable", "orders"]));
    // Whether it comes before or after, the verb ends well.
    pause(Duration::from_millis(300));
    drop(lock);
    let said = thread.join().unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(!kept.is_enabled(1));
}

#[test]
fn what_cannot_be_switched_is_said_and_nothing_is_changed() {
    let kept = kept();
    let (asked, requests) = mpsc::channel::<Request>();
    let _alive = kept.alive(move |request| {
        asked.send(request).unwrap();
        Answer::Done
    });
    for (id, parts) in [
        ("99", &["there is no subscription 99"][..]),
        ("nobody", &["there is no subscription nobody"]),
        ("two", &["two may be any of these", "2  two/q/rmq_default", "3  two/r/rmq_default"]),
        ("invalid", &["subscription 5 is invalid", REFUSED]),
        ("gone", &["subscription 6 was deleted at 2023-11-14T22:13:20Z"]),
        ("6", &["subscription 6 was deleted at"]),
    ] {
        for verb in ["enable", "disable"] {
            let said = kept.says(&["subscriptions", verb, id]);
            assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{said:?}");
            assert!(parts.iter().all(|part| said.error.contains(part)), "{parts:?} in {}", said.error);
        }
    }
    assert!(requests.try_recv().is_err(), "nothing was asked");
}

#[test]
fn list_and_show_say_what_status_says() {
    let kept = kept();
    kept.sql("UPDATE subscriptions SET options = '{\"on_paused\":\"hold\"}', absent_cycles = 2 WHERE id = 1");
    let said = kept.says(&["subscriptions", "list"]);
    assert_eq!(said.code, Some(0));
    assert!(said.out.contains("disconnected  was listening") && said.out.contains("missed 2/3"), "{}", said.out);
    let listed = kept.says(&["subscriptions", "list", "--json"]).json();
    assert_eq!(listed, kept.says(&["status", "--json"]).json()["subscriptions"]);
    assert_eq!(listed.as_array().unwrap().len(), 5);
    let said = kept.says(&["subscriptions", "show", "orders"]);
    for part in [
        "id           1",
        "option       on_paused = \"hold\"",
        "why          no watcher runs",
        "said last    listening",
        "2 of 3 scans",
    ] {
        assert!(said.out.contains(part), "{part:?} in\n{}", said.out);
    }
    let shown = kept.says(&["subscriptions", "show", "1", "--json"]).json();
    assert_eq!(shown, *listed.as_array().unwrap().iter().find(|row| row["id"] == 1).unwrap());
    let said = kept.says(&["subscriptions", "show", "two"]);
    assert!(said.code == Some(1) && said.error.contains("two may be any of these"), "{said:?}");
    assert_eq!(kept.says(&["subscriptions", "list", "x"]).code, Some(2));
}

#[test]
fn watcher_that_runs_answers_on_its_socket_and_takes_it_away() {
    use std::io::{BufRead as _, BufReader, Write as _};
    let (folder, stub) = (tempfile::tempdir().unwrap(), StubAirflow::start(Dialect::V2));
    let setup = Setup::in_folder(folder.path()).stub(&stub);
    let mut watcher = setup.start();
    watcher.wait_event("process.started", SOON);
    let socket = setup.state_dir().join("control.sock");
    let mut stream = eventually_some(SOON, "the socket takes a connection", || {
        std::os::unix::net::UnixStream::connect(&socket).ok()
    });
    stream.write_all(b"{\"request\":\"ping\"}\n").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer, json!({"answer": "pong", "pid": watcher.pid(), "version": env!("CARGO_PKG_VERSION")}));
    let said = says(&setup, &["status", "--json"]).json();
    assert_eq!(said["watcher"]["pid"], json!(watcher.pid()));
    assert!(["starting", "running"].contains(&said["watcher"]["state"].as_str().unwrap()), "{said}");
    assert!(watcher.stop(SOON).success());
    assert!(!socket.exists());
    assert_eq!(says(&setup, &["status", "--json"]).json()["watcher"]["state"], json!("dead"));
}

#[test]
fn socket_of_a_killed_watcher_is_no_answer_and_the_next_one_replaces_it() {
    let (folder, stub) = (tempfile::tempdir().unwrap(), StubAirflow::start(Dialect::V2));
    let setup = Setup::in_folder(folder.path()).stub(&stub);
    let mut watcher = setup.start();
    let socket = setup.state_dir().join("control.sock");
    eventually(SOON, "the socket is there", || socket.exists());
    watcher.kill();
    assert!(socket.exists());
    assert_eq!(says(&setup, &["status", "--json"]).json()["watcher"]["state"], json!("dead"));
    let mut second = setup.start();
    eventually(SOON, "the socket takes a connection", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    assert!(second.stop(SOON).success());
}
