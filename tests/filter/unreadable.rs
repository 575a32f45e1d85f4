//! Bodies that cannot be read, or not with a single meaning: an error of that message, with its reason.

use rmq_watcher::domain::envelope::Table;
use rmq_watcher::domain::filter::{Content, Filters, MAX_DIGITS, MAX_EXPLANATION, MAX_LEVELS, Message, Verdict};
use serde_json::{Value, json};

use crate::support::{evaluate, filter, on_body};

/// The code of the error of a condition on `body.a`.
fn error(body: &[u8]) -> &'static str {
    error_of(&json!({"body.a": 1}), body)
}

fn error_of(conditions: &Value, body: &[u8]) -> &'static str {
    match evaluate(conditions, &Table::new(), body) {
        Verdict::Error(reason) => {
            assert!(reason.to_string().chars().count() <= MAX_EXPLANATION, "{reason}");
            reason.code()
        }
        other @ (Verdict::Match | Verdict::Miss(_)) => other.code(),
    }
}

#[test]
fn empty_body_is_an_error() {
    assert_eq!(error(b""), "body_empty");
    assert_eq!(error(b" \n"), "body_not_json");
}

#[test]
fn byte_order_mark_is_an_error() {
    assert_eq!(error(b"\xef\xbb\xbf{\"a\": 1}"), "body_byte_order_mark");
    assert_eq!(error(b"\xff\xfe{\0}\0"), "body_not_utf8");
}

#[test]
fn text_that_is_not_json_is_an_error() {
    let bodies = [
        "hello",
        "{",
        "}",
        "{\"a\": 1",
        "{\"a\": 1,}",
        "{a: 1}",
        "{'a': 1}",
        "{\"a\" 1}",
        "[1,]",
        "[1 2]",
        "{} x",
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e",
        "1e+",
        "0x1",
        "tru",
        "\"a",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\",
        "\"\t\"",
        "\u{a0}1",
        "{\"a\":}",
        "{\"a\": 1}}",
        "[",
        "]",
        ",",
        "nulll",
        "--1",
        "-a",
        "\"\\ud8",
    ];
    for body in bodies {
        assert_eq!(error(body.as_bytes()), "body_not_json", "{body}");
        let within = format!("{{\"a\": 1, \"b\": {body}}}");
        assert_eq!(error(within.as_bytes()), "body_not_json", "{within}");
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_an_error_unlike_in_the_provider() {
    assert_eq!(error(b"{\"a\": 1, \"b\": \"\xff\"}"), "body_not_utf8");
    assert_eq!(error(b"{\"a\": 1, \"b\": \"\xed\xa0\x80\"}"), "body_not_utf8");
}

#[test]
fn depth_is_bounded_exactly_and_on_every_way_through_a_body() {
    let lists = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let objects = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    assert_eq!(error(lists(MAX_LEVELS).as_bytes()), "miss");
    assert_eq!(error(lists(MAX_LEVELS + 1).as_bytes()), "body_too_deep");
    assert_eq!(error(objects(MAX_LEVELS).as_bytes()), "miss");
    assert_eq!(error(objects(MAX_LEVELS + 1).as_bytes()), "body_too_deep");
    assert_eq!(error(format!("{{\"b\": {}, \"a\": 1}}", lists(MAX_LEVELS - 1)).as_bytes()), "match");
    assert_eq!(error(format!("{{\"b\": {}, \"a\": 1}}", lists(MAX_LEVELS)).as_bytes()), "body_too_deep");
    assert_eq!(error("[".repeat(200_000).as_bytes()), "body_too_deep");
    assert_eq!(error("{\"a\":".repeat(200_000).as_bytes()), "body_too_deep");
    let long = "body.".to_owned() + &vec!["a"; MAX_LEVELS].join(".");
    assert_eq!(on_body(json!({long.clone(): 1}), &objects(MAX_LEVELS)), "match");
    assert_eq!(error_of(&json!({long: 1}), objects(200_000).as_bytes()), "body_too_deep");
}

#[test]
fn integers_beyond_the_limit_are_an_error_wherever_they_stand() {
    let (most, more) = ("9".repeat(MAX_DIGITS), "9".repeat(MAX_DIGITS + 1));
    assert_eq!(error(format!("{{\"a\": 1, \"b\": -{most}}}").as_bytes()), "match");
    assert_eq!(error(format!("{{\"a\": 1, \"b\": -{more}}}").as_bytes()), "body_long_integer");
    assert_eq!(error(format!("{{\"a\": {more}}}").as_bytes()), "body_long_integer");
    assert_eq!(error(format!("{{\"a\": 1, \"b\": {more}.5}}").as_bytes()), "match");
    assert_eq!(error(format!("{{\"a\": {more}e0}}").as_bytes()), "miss");
}

#[test]
fn key_that_stands_twice_is_an_error_where_it_decides() {
    assert_eq!(error(br#"{"a": 1, "a": 1}"#), "body_key_twice");
    assert_eq!(error(br#"{"a": 1, "\u0061": 2}"#), "body_key_twice");
    assert_eq!(error(br#"{"a": 1, "a": 2, "a": 3}"#), "body_key_twice");
    assert_eq!(error(br#"{"a": 1, "b": 2, "b": 3}"#), "match");
    let nested = json!({"body.a.b": 1});
    assert_eq!(error_of(&nested, br#"{"a": {"b": 1}, "a": 2}"#), "body_key_twice");
    assert_eq!(error_of(&nested, br#"{"a": 2, "a": {"b": 1}}"#), "body_key_twice");
    assert_eq!(error_of(&nested, br#"{"a": {"b": 1, "c": 1, "c": 2}}"#), "match");
    let whole = json!({"body.a": {"x": 1, "y": 2}});
    assert_eq!(error_of(&whole, br#"{"a": {"x": 1, "y": 1, "y": 2}}"#), "body_key_twice");
    assert_eq!(error_of(&whole, br#"{"a": {"x": 2, "y": 1, "y": 2}}"#), "miss", "x decides");
    assert_eq!(error_of(&whole, br#"{"a": {"x": 1, "y": 1, "y": 2, "z": 3}}"#), "miss", "three keys are not two");
    assert_eq!(error_of(&whole, br#"{"a": {"z": 1, "z": 1, "x": 1, "y": 2}}"#), "miss");
}

#[test]
fn key_that_stands_twice_exists() {
    assert_eq!(on_body(json!({"body.a": {"$exists": true}}), r#"{"a": 1, "a": 2}"#), "match");
    assert_eq!(on_body(json!({"body.a": {"$exists": false}}), r#"{"a": 1, "a": 2}"#), "miss");
    assert_eq!(on_body(json!({"body.a.b": {"$exists": true}}), r#"{"a": {"b": 1}, "a": 2}"#), "error");
}

#[test]
fn half_a_surrogate_pair_is_an_error_where_it_decides() {
    for half in [r"\ud800", r"\udc00", r"\ud800\ud800", r"\ud800x", r"\ud800\n", r"\ud800\\udc00", r"\udc00\ud800"] {
        assert_eq!(error(format!("{{\"a\": \"{half}\"}}").as_bytes()), "body_surrogate", "{half}");
        assert_eq!(error(format!("{{\"a\": 1, \"b\": \"{half}\"}}").as_bytes()), "match", "{half}");
        assert_eq!(error(format!("{{\"a\": 1, \"{half}\": 2}}").as_bytes()), "match", "{half}");
    }
    assert_eq!(error_of(&json!({"body.a": {"\u{fffd}": 1}}), br#"{"a": {"\ud800": 1}}"#), "body_surrogate");
    assert_eq!(error_of(&json!({"body.\u{fffd}": 1}), br#"{"\ud800": 1}"#), "body_surrogate");
}

#[test]
fn body_that_is_not_there_is_an_error_only_where_it_is_asked_for() {
    let message = Message { headers: &Table::new(), body: Content::Unreadable("gzip: unexpected end") };
    let Verdict::Error(reason) = filter(&json!({"body.a": 1})).evaluate(&message) else { panic!("an error") };
    assert_eq!(
        (reason.code(), reason.to_string().as_str()),
        ("body_unreadable", "the body cannot be read: gzip: unexpected end")
    );
    assert_eq!(filter(&json!({"h": null})).evaluate(&message).code(), "match");
}

#[test]
fn one_condition_that_does_not_hold_decides_beside_an_error() {
    assert_eq!(on_body(json!({"body.a": 1, "body.b": 1}), r#"{"a": 1, "a": 1, "b": 2}"#), "miss");
    assert_eq!(on_body(json!({"body.a": 1, "body.b": 2}), r#"{"a": 1, "a": 1, "b": 2}"#), "error");
}

#[test]
fn filters_together_say_what_each_alone_says() {
    let conditions = [
        json!({"body.a": {"x": [1]}}),
        json!({"body.a.x": 1, "body.a.x.0": 1}),
        json!({"body.a": 1}),
        json!({"body.a": {"$exists": true}, "body.b.c": 2}),
        json!({"h": 1}),
        json!({}),
    ];
    let filters = Filters::new(conditions.iter().map(filter));
    let bodies = [
        r#"{"a": {"x": [1]}, "b": {"c": 2}}"#,
        r#"{"a": {"x": [1], "x": 2}}"#,
        r#"{"a": {"x": 1}, "b": {"c": 2, "d": {"e": 1, "e": 2}}}"#,
        r#"{"a": 1, "a": 1}"#,
        r#"{"a": {"x": [1, 2], "y": {"z": 1, "z": 2}}}"#,
        "[]",
        "x",
        "",
    ];
    for body in bodies {
        let message = Message { headers: &Table::new(), body: Content::Bytes(body.as_bytes()) };
        let alone: Vec<_> = conditions.iter().map(|conditions| filter(conditions).evaluate(&message)).collect();
        assert_eq!(filters.evaluate(&message), alone, "{body}");
    }
}
