//! `rmq-watcher filter test` from outside: answers, exit codes, and what it says to wrong input.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Exit code and output of a filter over a message.
fn run(filter: &str, message: &str, more: &[&str]) -> (i32, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("message.json");
    fs::write(&path, message).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rmq-watcher"))
        .args(["filter", "test", "--filter", filter, "--message"])
        .arg(path)
        .args(more)
        .output()
        .unwrap();
    let (answer, complaint) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(answer.is_empty() || complaint.is_empty(), "{answer}{complaint}");
    (output.status.code().unwrap(), answer + &complaint)
}

const FILTER: &str = r#"{"filter_headers": {"region": "eu", "body.n": {"$lt": 5}}}"#;

#[test]
fn match_is_0_and_lists_the_conditions() {
    let message = json!({"body": "{\"n\": 3}", "headers": {"region": "eu"}, "properties": {}, "routing_key": "k"});
    let (code, text) = run(FILTER, &message.to_string(), &[]);
    assert_eq!(
        (code, text.as_str()),
        (
            0,
            "match\n\nmatch  `region`: expected \"eu\", found \"eu\"\nmatch  `body.n`: expected a number < 5, found 3\n"
        )
    );
}

#[test]
fn miss_is_1_and_names_what_did_not_hold() {
    let message = json!({"body_b64": "eyJuIjogN30=", "body": "ignored", "headers": {"region": "eu"}});
    let (code, text) = run(FILTER, &message.to_string(), &[]);
    assert_eq!(code, 1);
    assert_eq!(text.lines().next(), Some("miss   `body.n`: expected a number < 5, found 7"));
}

#[test]
fn error_is_3_and_says_why() {
    let message = json!({"body": "no json", "headers": {"region": "eu"}});
    let (code, text) = run(FILTER, &message.to_string(), &[]);
    assert_eq!(code, 3);
    assert!(text.starts_with("error  the body is not JSON at byte 0\n"), "{text}");
}

#[test]
fn json_answers_the_same() {
    let message = json!({"headers": {"region": "us"}});
    let (code, text) = run(FILTER, &message.to_string(), &["--json"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, 1);
    assert_eq!(answer["verdict"], "miss");
    assert_eq!(answer["why"], "`region`: expected \"eu\", found \"us\"");
    assert_eq!(answer["conditions"][0]["found"], "\"us\"");
    assert_eq!(answer["conditions"][1]["reason"], "body_empty");
}

#[test]
fn filter_is_read_from_a_file_too_and_a_conf_is_a_message() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("filter.json");
    fs::write(&path, r#"{"filter_headers": {"b": "x", "t": {"$not": 5}, "l": [{"c": 1.5}], "n": null, "body.a": 1}}"#)
        .unwrap();
    let conf = json!({
        "source": "immediate", "body": "{\"a\": 1}", "routing_key": "rk", "queue": "q", "subscription_id": 42, "conn_id": "c",
        "headers": {"b": {"base64": "eA=="}, "t": {"timestamp": 5, "iso": "1970-01-01T00:00:05Z"}, "l": [{"c": 1.5}], "n": null, "u": u64::MAX},
        "message_id": null, "redelivered": false, "properties": {"message_id": "m"},
    });
    let (code, text) = run(&format!("@{}", path.display()), &conf.to_string(), &[]);
    assert_eq!(code, 1);
    let miss: Vec<_> = text.lines().skip(2).filter(|line| line.starts_with("miss")).collect();
    assert_eq!(miss, ["miss   `b`: expected \"x\", found bytes"]);
}

#[test]
fn wrong_input_is_2_and_one_sentence() {
    for (filter, message, words) in [
        ("{", "{}", "--filter: this is not JSON"),
        (r#"{"a": 1}"#, "{}", r#"--filter: filter_data: conditions stand inside `filter_headers`"#),
        ("@/nowhere/f.json", "{}", "--filter: read /nowhere/f.json: "),
        ("{}", "[]", "a message is a JSON object"),
        ("{}", "x", "is not JSON"),
        ("{}", r#"{"boby": "x"}"#, "a message has no \"boby\""),
        ("{}", r#"{"body": {"a": 1}}"#, "body has to be a string"),
        ("{}", r#"{"body_b64": "?"}"#, "body_b64 is not base64"),
        ("{}", r#"{"headers": []}"#, "headers has to be an object"),
    ] {
        let (code, text) = run(filter, message, &[]);
        assert_eq!((code, text.lines().count()), (2, 1), "{text}");
        assert!(text.contains(words), "{text}");
    }
}
