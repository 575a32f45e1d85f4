//! Filters that cannot be taken: where, and what to write instead.

use rmq_watcher::domain::filter::{Filter, MAX_PATTERN};
use serde_json::{Value, json};

fn refused(filter_data: &Value) -> (String, String) {
    match Filter::parse(filter_data) {
        Ok(filter) => panic!("{filter_data} was taken as {filter:?}"),
        Err(problem) => (problem.path, problem.sentence),
    }
}

/// The path of a problem whose sentence has these words.
fn says(filter_data: Value, words: &str) -> String {
    let (path, sentence) = refused(&filter_data);
    assert!(sentence.contains(words), "{filter_data}: {sentence}");
    path
}

fn inside(conditions: Value, words: &str) -> String {
    let path = says(json!({ "filter_headers": conditions }), words);
    path.strip_prefix(r#"["filter_headers"]"#).unwrap().to_owned()
}

#[test]
fn flat_dict_is_refused_with_the_form_it_should_have() {
    let (path, sentence) = refused(&json!({"event": "x", "body.n": 1}));
    assert_eq!(path, "");
    assert!(sentence.ends_with(r#"write {"filter_headers":{"event":"x","body.n":1}}"#), "{sentence}");
    let long = json!({"x".repeat(10_000): "y".repeat(10_000)});
    assert!(refused(&long).1.chars().count() < 400);
}

#[test]
fn keys_beside_filter_headers_are_refused() {
    assert_eq!(
        says(json!({"filter_headers": {"a": 1}, "filter_header": {}}), "only `filter_headers`"),
        r#"["filter_header"]"#
    );
}

#[test]
fn what_is_no_dict_is_refused() {
    for data in [json!([]), json!("x"), json!(1), json!(false), json!([{"filter_headers": {}}])] {
        assert_eq!(says(data, "a filter is a dict such as"), "");
    }
    for conditions in [json!([]), json!(""), json!(0), json!(false)] {
        assert_eq!(inside(conditions, "this is a dict of names and values"), "");
    }
}

#[test]
fn unknown_groups_and_operators_are_refused() {
    assert_eq!(
        inside(json!({"$or": [{"a": 1}]}), "`$any`, `$all` and `$not`; a header of that name is written `$$or`"),
        r#"["$or"]"#
    );
    assert_eq!(inside(json!({"a": {"$ne": 1}}), "there is no such operator"), r#"["a"]["$ne"]"#);
    assert_eq!(inside(json!({"a": {"$lt": 1, "b": 2}}), "a plain key stands beside operators"), r#"["a"]["b"]"#);
    assert_eq!(inside(json!({"a": {"b": {"$in": [1]}}}), "write the path to this place"), r#"["a"]["b"]["$in"]"#);
    assert_eq!(inside(json!({"a": [{"$in": [1]}]}), "inside a value"), r#"["a"][0]["$in"]"#);
    assert_eq!(inside(json!({"a": {"$": 1}}), "there is no such operator"), r#"["a"]["$"]"#);
}

#[test]
fn operators_take_what_they_take() {
    let operand = |name: &str, value: Value, words: &str| {
        assert_eq!(inside(json!({"a": {name: value}}), words), format!(r#"["a"]["{name}"]"#));
    };
    operand("$in", json!("eu"), "this has to be a list, and it is a string");
    operand("$in", json!([]), "the list is empty");
    operand("$exists", json!(1), "this has to be a bool");
    operand("$prefix", json!(null), "this has to be a string, and it is `None`");
    operand("$lt", json!("5"), "this has to be a number");
    operand("$lt", json!(true), "this has to be a number, and it is a bool");
    operand("$regex", json!(5), "this has to be a string");
    operand("$regex", json!("a(b"), "no regular expression that can be used: unclosed group");
    operand("$regex", json!("(?=a)"), "look-around");
    operand("$regex", json!("a".repeat(MAX_PATTERN + 1)), "at most 1000 bytes");
    operand("$regex", json!("(a{1000}){1000}"), "too much memory");
    for digits in [json!(5), json!(""), json!("-"), json!("1.5"), json!("007"), json!("+1"), json!("9".repeat(4301))] {
        operand("$int", digits, "digits of an integer in quotes");
    }
}

#[test]
fn groups_take_dicts_of_conditions() {
    assert_eq!(
        inside(json!({"$any": {"a": 1}}), "this is a list of dicts of conditions, at least one, and here is a dict"),
        r#"["$any"]"#
    );
    assert_eq!(inside(json!({"$all": []}), "an empty list"), r#"["$all"]"#);
    assert_eq!(inside(json!({"$any": [{"a": 1}, {}]}), "an empty dict"), r#"["$any"][1]"#);
    assert_eq!(inside(json!({"$not": [1]}), "here is a list"), r#"["$not"]"#);
    assert_eq!(inside(json!({"$any": [{"a": {"$x": 1}}]}), "no such operator"), r#"["$any"][0]["a"]["$x"]"#);
}

#[test]
fn paths_and_numbers_that_would_mean_something_else_are_refused() {
    assert_eq!(inside(json!({r"body.a\b": 1}), "a backslash stands before"), r#"["body.a\\b"]"#);
    inside(json!({format!("body.{}", ".".repeat(256)): 1}), "at most 256 parts");
    let number: Value = serde_json::from_str("12345678901234567890123").unwrap();
    assert_eq!(inside(json!({"a": [number]}), r#"{"$int": "…"}"#), r#"["a"][0]"#);
    let number: Value = serde_json::from_str("-9223372036854775809").unwrap();
    assert_eq!(inside(json!({"a": number}), "loses digits"), r#"["a"]"#);
}

#[test]
fn depth_is_bounded() {
    let mut value = json!(1);
    for _ in 0..99 {
        value = json!([value]);
    }
    assert!(Filter::parse(&json!({"filter_headers": {"a": value.clone()[0]}})).is_ok());
    assert_eq!(says(json!({"filter_headers": {"a": value}}), "deeper than 100 levels"), "");
    let mut group = json!({"a": 1});
    for _ in 0..200 {
        group = json!({ "$not": group });
    }
    assert_eq!(says(json!({ "filter_headers": group }), "deeper than 100 levels"), "");
}

#[test]
fn problem_reads_as_one_line() {
    let problem = Filter::parse(&json!({"filter_headers": {"a": {"$exists": 1}}})).unwrap_err();
    assert_eq!(
        problem.to_string(),
        r#"filter_data["filter_headers"]["a"]["$exists"]: this has to be a bool, and it is a number"#
    );
}
