//! `fires` and `why`: what became of messages, whether a watcher runs or not.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::json;

use crate::bench::assert_readable;
use crate::kept::{Kept, now_ms};
use crate::support::Setup;

/// Three messages: one started after a failed attempt, one refused and kept, one that waits; and one that a filter rejected.
fn with_history() -> Kept {
    let kept = Kept::new();
    let (now, old) = (now_ms(), now_ms() - 3 * 3_600_000);
    kept.sql(&format!(
        "INSERT INTO ledger (id, conn_id, queue, target, key_kind, key, n, state, outcome, reason, run_id, epoch, is_first_delivery, \
                             content, deliveries, subscription_id, created_at_ms, updated_at_ms, sent_at_ms, decided_at_ms, settled_at_ms)
         VALUES
            (1, 'rmq_default', 'orders', 'dag:orders', 'message_id', 'm-1', 1, 'settled', 'started', NULL, 'rmq__orders__m-1', 4, 0, 'c', 2, 1, \
             {old}, {old}, {old}, {old}, {old}),
            (2, 'rmq_default', 'orders', 'dag:orders', 'message_id', 'm-2', 1, 'settled', 'dlq', 'bad parameter', 'rmq__orders__m-2', 4, 1, 'c', \
             1, 1, {now}, {now}, {now}, {now}, {now}),
            (3, 'rmq_default', 'orders', 'dag:orders', 'fingerprint', 'f3', 1, 'sent', NULL, NULL, 'rmq__orders__f3', 4, 1, 'c', 1, 1, \
             {now}, {now}, {now}, NULL, NULL);
         INSERT INTO attempts VALUES (1, 1, {old}, 'rmq__orders__m-1', 'no run: Airflow answered 503');
         INSERT INTO kept VALUES (2, {now}, 4, '{{}}', x'626f6479');
         INSERT INTO verdicts VALUES (1, {now}, 'rmq_default', 'orders', 4, 0, 'message_id', 'm-9', \
            '[{{\"subscription_id\":1,\"dag_id\":\"orders\",\"takes_part\":true,\"verdict\":\"miss\",\"because\":\"`kind`: expected \\\"a\\\", found \\\"b\\\"\"}}]');"
    ));
    kept
}

#[test]
fn fires_shows_the_newest_first_within_eighty_columns() {
    let said = with_history().says(&["fires"]);
    assert_eq!((said.code, said.error.as_str()), (Some(0), ""));
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["DELIVERED", "OUTCOME", "DAG", "QUEUE", "RUN"]);
    for (line, part) in [(1, "open"), (2, "dlq"), (3, "bad parameter"), (4, "started")] {
        assert!(lines[line].contains(part), "{part}\n{}", said.out);
    }
    assert_readable(said.out.lines());
    assert_eq!(Kept::new().says(&["fires"]).out, "No fires.\n");
}

#[test]
fn fires_takes_a_subscription_an_outcome_a_moment_and_a_number() {
    let kept = with_history();
    kept.subscription(2, "other", "orders", "listening");
    let ids = |verb: &[&str]| -> Vec<i64> {
        let json = kept.says(&[&["fires", "--json"], verb].concat()).json();
        json.as_array().unwrap().iter().map(|fire| fire["id"].as_i64().unwrap()).collect()
    };
    assert_eq!(ids(&[]), [3, 2, 1]);
    assert_eq!(ids(&["--outcome", "dlq"]), [2]);
    assert_eq!(ids(&["--outcome", "open"]), [3]);
    assert_eq!(ids(&["--since", "1h"]), [3, 2]);
    assert_eq!(ids(&["--since", "1970-01-01T00:00:00Z", "--limit", "1"]), [3]);
    assert_eq!(ids(&["--subscription", "orders/orders"]), [3, 2, 1]);
    assert_eq!(ids(&["--subscription", "2"]), [0_i64; 0]);
    assert_eq!(ids(&["--subscription", "77"]), [0_i64; 0], "one that is deleted has its fires still");
}

#[test]
fn bad_input_of_fires_is_told_with_two_and_what_can_be_written() {
    let kept = with_history();
    for (verb, part) in [
        (["--since", "yesterday"], "such as 90s, 30m, 2h, 7d"),
        (["--outcome", "bad\u{1b}[2J"], "there are started, duplicate, dropped, dlq, open, gone"),
        (["--subscription", "nobody"], "there is no single subscription nobody"),
        (["--limit", "0"], "0 is not in 1..=200000"),
    ] {
        let said = kept.says(&[&["fires"], &verb[..]].concat());
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{said:?}");
        assert!(said.error.contains(part) && !said.error.contains('\u{1b}'), "{said:?}");
    }
}

#[test]
fn fires_follows_what_is_new_and_what_ends() {
    let kept = with_history();
    let mut child = Setup::in_folder(kept.folder.path())
        .command(&["fires", "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> (i64, String) {
        let fire: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        (fire["id"].as_i64().unwrap(), fire["outcome"].to_string())
    };
    assert_eq!([next().0, next().0, next().0], [1, 2, 3], "what is there, the oldest first");
    kept.sql("UPDATE ledger SET state = 'started', outcome = 'started' WHERE id = 3");
    assert_eq!(next(), (3, "\"started\"".to_owned()));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn why_tells_the_chain_of_a_message_and_of_a_run() {
    let kept = with_history();
    for name in ["m-1", "rmq__orders__m-1"] {
        let said = kept.says(&["why", name]);
        assert_eq!((said.code, said.error.as_str()), (Some(0), ""), "{said:?}");
        for part in [
            "MESSAGE m-1 in queue orders, connection rmq_default",
            "started  DAG orders, subscription 1",
            "delivered, redelivered, matched",
            "told by its message id m-1",
            "2 deliveries in all; the last in epoch 4",
            "no run: Airflow answered 503",
            "run asked for: rmq__orders__m-1",
            "settled, confirmed by the broker",
        ] {
            assert!(said.out.contains(part), "{part:?} in\n{}", said.out);
        }
        assert_readable(said.out.lines());
    }
    let refused = kept.says(&["why", "m-2"]).out;
    assert!(
        refused.contains("dlq: bad parameter") && refused.contains("kept in the state file: row 2, 4 bytes"),
        "{refused}"
    );
    let waits = kept.says(&["why", "f3"]).out;
    assert!(waits.contains("MESSAGE without an id") && waits.contains("not settled: sent"), "{waits}");
    let missed = kept.says(&["why", "m-9"]).out;
    assert!(missed.contains("MESSAGE m-9 in queue orders"), "{missed}");
    assert!(missed.contains("subscription 1 (DAG orders): miss, `kind`: expected \"a\", found \"b\""), "{missed}");
    let json = kept.says(&["why", "m-1", "--json"]).json();
    assert_eq!(json[0]["fires"][0]["failed_attempts"][0]["number"], json!(1));
    assert_eq!(json[0]["fires"][0]["run_id"], json!("rmq__orders__m-1"));
}

#[test]
fn why_lists_every_message_that_goes_by_a_name() {
    let kept = with_history();
    kept.sql(
        "INSERT INTO ledger (conn_id, queue, target, key_kind, key, n, state, epoch, is_first_delivery, content, created_at_ms, updated_at_ms) \
         VALUES ('other', 'orders', 'dag:x', 'message_id', 'm-1', 1, 'received', 4, 1, 'c', 0, 0)",
    );
    let said = kept.says(&["why", "m-1"]);
    assert!(said.out.starts_with("2 messages go by this name."), "{}", said.out);
    assert!(said.out.contains("connection other"), "{}", said.out);
}

#[test]
fn why_says_with_one_that_nothing_is_known_and_with_two_that_there_is_no_file() {
    let said = with_history().says(&["why", "no\u{1b}[2Jbody"]);
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""));
    assert!(said.error.contains("nothing is known of no\\u{1b}[2Jbody"), "{said:?}");
    let folder = tempfile::tempdir().unwrap();
    for verb in [&["why", "m"][..], &["fires"]] {
        let said = crate::kept::says(&Setup::in_folder(folder.path()), verb);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
        assert!(said.error.contains("there is no state file"), "{said:?}");
    }
}
