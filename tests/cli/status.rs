//! `status`: what it says of a watcher that runs, stalls or is dead, and of files that cannot be read; its form and its exit code.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::json;

use crate::bench::{SOON, assert_readable};
use crate::kept::{Kept, contents, now_ms, says};
use crate::support::{Setup, eventually_some};

const COLUMNS: usize = 80;

fn widest(text: &str) -> usize {
    text.lines().map(unicode_width::UnicodeWidthStr::width).max().unwrap_or(0)
}

#[test]
fn all_well_is_said_with_zero() {
    let kept = Kept::new();
    let _alive = kept.alive(|_| unreachable!("status asks nobody"));
    let said = kept.says(&["status"]);
    assert_eq!((said.code, said.error.as_str()), (Some(0), ""), "{said:?}");
    let pid = format!("PID {} on host, version 9.9.9", std::process::id());
    for part in ["WATCHER  running, for ", "last cycle 0 s ago", pid.as_str(), "1 subscription: 1 listening"] {
        assert!(said.out.contains(part), "{part:?} in\n{}", said.out);
    }
    let row = said.out.lines().find(|line| line.contains("orders")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["1", "orders", "orders", "rmq_default", "listening"]);
    assert_readable(said.out.lines());
}

#[test]
fn dead_watcher_is_said_with_one_and_nothing_is_green() {
    let kept = Kept::new();
    let said = kept.says(&["status"]);
    assert_eq!(said.code, Some(1));
    for part in
        ["WATCHER  dead; last seen at ", "did not stop in", "disconnected  was listening", "unknown", "was connected"]
    {
        assert!(said.out.contains(part), "{part:?} in\n{}", said.out);
    }
    kept.sql(&format!("UPDATE watchers SET stopped_at_ms = {}", now_ms()));
    let said = kept.says(&["status"]);
    assert!(said.out.contains("dead; stopped at ") && said.code == Some(1), "{said:?}");
    let said = Kept::empty().says(&["status"]);
    assert!(said.out.contains("dead; none has run on this state file") && said.code == Some(1), "{said:?}");
}

#[test]
fn stalled_watcher_is_said_with_one_and_nothing_is_green() {
    let kept = Kept::new();
    let _alive = kept.alive(|_| unreachable!("status asks nobody"));
    kept.sql("UPDATE watchers SET interval_ms = 0, budget_ms = 0");
    let said = eventually_some(SOON, "a millisecond has passed", || {
        Some(kept.says(&["status"])).filter(|said| said.out.contains("WATCHER  stalled, last cycle 0 s ago"))
    });
    assert_eq!(said.code, Some(1), "{said:?}");
    let row = said.out.lines().find(|line| line.contains("was listening")).unwrap();
    assert!(row.contains("error"), "{}", said.out);
}

#[test]
fn every_bad_row_makes_it_one_and_is_told_with_its_sentence() {
    let waiting = "UPDATE subscription_status SET status = 'waiting_for_dag', last_error = 'Airflow has no DAG'";
    let refusal = "INSERT INTO refusals VALUES (1, 'b.py:2:1', 'b.py', 'd', NULL, NULL, 'queue', 'not_literal', \
                   'b.py:2:1: subscription of DAG \"d\" refused', 5)";
    let unreadable = "INSERT INTO scan_baseline VALUES (1, '{\"unreadable\": [{\"file\": \"broken.py\", \"kind\": \"syntax\", \
                      \"sentence\": \"broken.py:3: invalid syntax\"}]}', 5)";
    for (change, code, part) in [
        (
            "UPDATE subscription_status SET status = 'error', last_error = 'no queue \"orders\"'",
            1,
            "no queue \"orders\"",
        ),
        ("UPDATE subscription_status SET status = 'failing', last_error = 'refused five'", 1, "refused five"),
        ("UPDATE subscriptions SET invalid = 'a.py:1:1: refused, `cooldown`'", 1, "a.py:1:1: refused, `cooldown`"),
        (unreadable, 1, "unread  broken.py:3: invalid syntax"),
        (unreadable, 1, "1 subscription: 1 listening; 1 unread"),
        (
            "UPDATE watchers SET last_error = 'the scan of the DAG folder is not believed'",
            1,
            "last cycle: the scan of the DAG folder is not believed",
        ),
        (refusal, 1, "invalid  b.py:2:1: subscription of DAG \"d\" refused"),
        ("UPDATE connection_status SET status = 'degraded'", 1, "degraded"),
        ("UPDATE connection_status SET last_reconcile_at_ms = 5", 1, "stale"),
        (waiting, 0, "Airflow has no DAG"),
        ("UPDATE subscription_status SET status = 'connecting'", 0, "connecting"),
        ("UPDATE subscriptions SET enabled = 0", 0, "disconnected  disabled"),
        ("UPDATE subscriptions SET absent_cycles = 2", 0, "missed 2/3"),
        ("UPDATE subscriptions SET deleted_at_ms = 5", 0, "No subscriptions."),
    ] {
        let kept = Kept::new();
        let _alive = kept.alive(|_| unreachable!("status asks nobody"));
        kept.sql(change);
        let said = kept.says(&["status"]);
        assert_eq!(said.code, Some(code), "{change}\n{}", said.out);
        assert!(said.out.contains(part), "{part:?} in\n{}", said.out);
    }
}

#[test]
fn long_and_hostile_names_fit_eighty_columns_and_rule_no_terminal() {
    let kept = Kept::new();
    for id in 2..30 {
        let dag = format!("team_{}_{id}", "very_long_dag_name_".repeat(10));
        kept.subscription(id, &dag, &"queue.of.somebody.".repeat(12), "waiting_for_dag");
    }
    kept.subscription(
        1000,
        "日本語のとても長いダグの名前がここにある_1000",
        "evil\n\u{1b}[2Jqueue\u{202e}",
        "paused_target",
    );
    kept.sql(
        "UPDATE subscriptions SET absent_cycles = 3; UPDATE subscription_status SET last_error = hex(zeroblob(900))",
    );
    let said = kept.says(&["status"]);
    assert!(widest(&said.out) <= COLUMNS, "{} columns:\n{}", widest(&said.out), said.out);
    assert!(said.out.contains('…') && said.out.contains("evil\\n"), "{}", said.out);
    assert!(!said.out.contains('\u{1b}') && !said.out.contains('\u{202e}'), "{}", said.out);
    // In full elsewhere.
    let full = kept.says(&["subscriptions", "show", "29"]);
    assert!(full.out.contains(&"queue.of.somebody.".repeat(12)), "{}", full.out);
}

#[test]
fn json_has_the_documented_shape() {
    let kept = Kept::new();
    let _alive = kept.alive(|_| unreachable!("status asks nobody"));
    kept.sql(
        "UPDATE subscriptions SET options = '{\"on_paused\":\"hold\"}';
         INSERT INTO refusals VALUES (1, 'b.py:2:1', 'b.py', 'd', NULL, NULL, 'queue', 'not_literal', 'b.py:2:1: refused', 5);
         INSERT INTO scan_baseline VALUES (1, '{\"unreadable\": [{\"file\": \"c.py\", \"kind\": \"syntax\", \"sentence\": \"c.py:1: no\"}]}', 5)",
    );
    let said = kept.says(&["status", "--json"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let json = said.json();
    // The page that documents it has one example, which is this shape to the last name.
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/status-json.md")).unwrap();
    let (_, example) = page.split_once("```json\n").expect("the page has an example");
    let example: serde_json::Value = serde_json::from_str(example.split_once("```").unwrap().0).unwrap();
    assert_eq!(shape(&json), shape(&example));
    assert_eq!((&json["is_well"], &json["watcher"]["state"]), (&json!(false), &json!("running")));
    let row = &json["subscriptions"][0];
    assert_eq!((&row["status"], &row["options"]), (&json!("listening"), &json!({"on_paused": "hold"})));
    assert_eq!((&row["consumer_tag"], &row["reason"]), (&json!("the-tag"), &json!(null)));
    assert_eq!(json["refusals"][0]["status"], json!("invalid"));
}

/// The names of a JSON value, below each other; of a list, those of its first item.
fn shape(value: &serde_json::Value) -> Vec<String> {
    if let Some(items) = value.as_array() {
        return items.first().map(shape).unwrap_or_default();
    }
    match value.as_object() {
        Some(object) => {
            let inner = object.iter().filter(|(name, _)| !["options", "counters"].contains(&name.as_str()));
            let inner =
                inner.flat_map(|(name, value)| shape(value).into_iter().map(move |rest| format!("{name}.{rest}")));
            object.keys().cloned().chain(inner).collect()
        }
        None => vec![],
    }
}

#[test]
fn file_that_cannot_be_shown_is_one_sentence_and_two() {
    let fresh = || Setup::in_folder(tempfile::tempdir().unwrap().keep().as_path());
    let said = says(&fresh(), &["status"]);
    assert!(said.code == Some(2) && said.error.starts_with("there is no state file"), "{said:?}");
    for (spoil, part) in [
        ("PRAGMA user_version = 99", "schema version 99, newer than the"),
        ("PRAGMA user_version = 1", "schema version 1, older than the"),
    ] {
        let kept = Kept::new();
        kept.sql(spoil);
        let before = contents(&kept.dir());
        for verb in [&["status"][..], &["subscriptions", "list"], &["subscriptions", "disable", "1"]] {
            let said = kept.says(verb);
            assert_eq!((said.code, said.out.as_str(), said.error.lines().count()), (Some(2), "", 1), "{said:?}");
            assert!(said.error.contains(part) && said.error.contains("state.db"), "{said:?}");
        }
        assert!(contents(&kept.dir()) == before, "a file was changed");
    }
    let kept = Kept::new();
    std::fs::write(kept.dir().join("state.db"), "no database, whatever its name says").unwrap();
    let said = kept.says(&["status"]);
    assert!(said.code == Some(2) && said.error.contains("is broken") && said.error.lines().count() == 1, "{said:?}");
    assert_eq!(std::fs::read(kept.dir().join("state.db")).unwrap(), b"no database, whatever its name says");
}

#[test]
fn neither_credentials_nor_other_settings_matter() {
    let kept = Kept::new();
    let setup = Setup::in_folder(kept.folder.path()).config("[consume]\nprefetch = 0\n[nonsense]\nx = 1");
    let said = says(&setup, &["status"]);
    assert!(said.code == Some(1) && said.out.contains("was listening"), "{said:?}");
    let said = says(&setup.without("RMQ_WATCHER__STATE__DIR").config("[state]\ndri = \"/x\""), &["status"]);
    assert!(said.code == Some(2) && said.error.contains("did you mean state.dir"), "{said:?}");
}

#[test]
fn watch_shows_plain_lines_again_and_again() {
    let kept = Kept::new();
    let mut command = Setup::in_folder(kept.folder.path()).command(&["status", "--watch", "--json"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(2);
    let ids: Vec<String> = lines
        .map(|line| {
            let json: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            kept.sql("UPDATE subscriptions SET dag_id = 'other'");
            json["subscriptions"][0]["dag_id"].as_str().unwrap().to_owned()
        })
        .collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ids, ["orders", "other"]);
}
