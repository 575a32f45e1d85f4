//! The comparison table of the Python provider, a test for each row. Where we differ on purpose, the name says so.

use rmq_watcher::domain::envelope::{Field, Table};
use rmq_watcher::domain::filter::{Content, Filter, Message};
use serde_json::{Value, json};

use crate::support::{evaluate, on_body, on_header, table, text};

#[test]
fn one_equals_true_and_one_point_zero() {
    assert_eq!(on_header(json!(1), Field::Boolean(true)), "match");
    assert_eq!(on_header(json!(true), Field::I8(1)), "match");
    assert_eq!(on_header(json!(1), Field::F64(1.0)), "match");
    assert_eq!(on_header(json!(1.0), Field::I64(1)), "match");
    assert_eq!(on_header(json!(false), Field::F32(-0.0)), "match");
    assert_eq!(on_header(json!(true), Field::I8(2)), "miss");
    assert_eq!(on_body(json!({"body.a": 1}), r#"{"a": true}"#), "match");
    assert_eq!(on_body(json!({"body.a": true}), r#"{"a": 1.0}"#), "match");
    assert_eq!(on_body(json!({"body.a": 0}), r#"{"a": -0.0}"#), "match");
}

#[test]
fn text_of_a_number_is_not_the_number() {
    assert_eq!(on_header(json!("1"), Field::I32(1)), "miss");
    assert_eq!(on_header(json!(1), text("1")), "miss");
    assert_eq!(on_body(json!({"body.a": "1"}), r#"{"a": 1}"#), "miss");
    assert_eq!(on_body(json!({"body.a": "true"}), r#"{"a": true}"#), "miss");
}

#[test]
fn bytes_are_not_the_text() {
    assert_eq!(on_header(json!("ab"), Field::Bytes(b"ab".to_vec())), "miss");
    assert_eq!(on_header(json!("ab"), text("ab")), "match");
    assert_eq!(on_header(json!("\u{fffd}"), Field::Text(vec![0xff])), "miss");
}

#[test]
fn missing_header_is_none_and_missing_key_of_the_body_is_not() {
    assert_eq!(evaluate(&json!({"h": null}), &Table::new(), b"").code(), "match");
    assert_eq!(on_header(json!(null), Field::Void), "match");
    assert_eq!(on_header(json!(null), Field::Boolean(false)), "miss");
    assert_eq!(evaluate(&json!({"h": 0}), &Table::new(), b"").code(), "miss");
    assert_eq!(on_body(json!({"body.a": null}), "{}"), "miss");
    assert_eq!(on_body(json!({"body.a": null}), r#"{"a": null}"#), "match");
}

#[test]
fn lists_are_equal_in_order_and_tables_without() {
    let list = |items: &[i8]| Field::Array(items.iter().map(|item| Field::I8(*item)).collect());
    assert_eq!(on_header(json!([1, 2]), list(&[1, 2])), "match");
    assert_eq!(on_header(json!([2, 1]), list(&[1, 2])), "miss");
    assert_eq!(on_header(json!([1]), list(&[1, 2])), "miss");
    assert_eq!(on_header(json!([1, 2, 3]), list(&[1, 2])), "miss");
    assert_eq!(on_header(json!([]), list(&[])), "match");
    assert_eq!(on_header(json!([]), Field::Void), "miss");
    let nested = Field::Table(table([("a", Field::U8(1)), ("b", Field::Array(vec![text("x")]))]));
    assert_eq!(on_header(json!({"b": ["x"], "a": 1}), nested.clone()), "match");
    assert_eq!(on_header(json!({"a": 1}), nested.clone()), "miss");
    assert_eq!(on_header(json!({"b": ["x"], "a": 1, "c": null}), nested), "miss");
    assert_eq!(on_body(json!({"body.a": {"x": [1, {}], "y": 2}}), r#"{"a": {"y": 2.0, "x": [1, {}]}}"#), "match");
    assert_eq!(on_body(json!({"body.a": {"x": [1, {}], "y": 2}}), r#"{"a": {"y": 2, "x": [1, []]}}"#), "miss");
    assert_eq!(on_body(json!({"body.a": {}}), r#"{"a": {"y": 2}}"#), "miss");
    assert_eq!(on_body(json!({"body.a": {}}), r#"{"a": {}}"#), "match");
}

#[test]
fn timestamp_equals_neither_text_nor_number() {
    assert_eq!(on_header(json!("2026-01-01T00:00:00"), Field::Timestamp(1_767_225_600)), "miss");
    assert_eq!(on_header(json!(1_767_225_600), Field::Timestamp(1_767_225_600)), "miss");
    assert_eq!(on_header(json!({"timestamp": 1}), Field::Timestamp(1)), "miss");
}

#[test]
fn header_names_are_case_sensitive_and_may_have_dots() {
    let headers = table([("X.Type", text("a"))]);
    assert_eq!(evaluate(&json!({"X.Type": "a"}), &headers, b"").code(), "match");
    assert_eq!(evaluate(&json!({"x.type": "a"}), &headers, b"").code(), "miss");
}

#[test]
fn key_body_alone_is_a_header_and_body_dot_is_the_empty_key() {
    assert_eq!(evaluate(&json!({"body": "x"}), &table([("body", text("x"))]), b"").code(), "match");
    assert_eq!(on_body(json!({"body.": 1}), r#"{"": 1}"#), "match");
    assert_eq!(on_body(json!({"body.a.": 1}), r#"{"a": {"": 1}}"#), "match");
    assert_eq!(on_body(json!({"body.": 1}), "1"), "miss");
}

#[test]
fn empty_filters_match_everything_and_read_no_body() {
    for data in [json!(null), json!({}), json!({"filter_headers": {}}), json!({"filter_headers": null})] {
        let filter = Filter::parse(&data).unwrap();
        let message = Message { headers: &Table::new(), body: Content::Bytes(b"\xff") };
        assert_eq!(filter.evaluate(&message).code(), "match", "{data}");
        assert!(!filter.reads_body());
    }
}

#[test]
fn headers_decide_before_an_unreadable_body() {
    let conditions = json!({"body.a": 1, "h": 1});
    assert_eq!(evaluate(&conditions, &table([("h", Field::I8(2))]), b"no json").code(), "miss");
    assert_eq!(evaluate(&conditions, &table([("h", Field::I8(1))]), b"no json").code(), "error");
    assert_eq!(evaluate(&json!({"h": 1}), &table([("h", Field::I8(1))]), b"no json").code(), "match");
}

#[test]
fn paths_go_down_keys_part_by_part() {
    let body = r#"{"a": {"b": {"c": 1}}, "a.b": 2}"#;
    assert_eq!(on_body(json!({"body.a.b.c": 1}), body), "match");
    assert_eq!(on_body(json!({"body.a.b": {"c": 1}, "body.a.b.c": 1}), body), "match");
    assert_eq!(on_body(json!({"body.a.b": 2}), body), "miss");
    assert_eq!(on_body(json!({"body.a.b.c.d": 1}), body), "miss");
    assert_eq!(on_body(json!({"body.A": 1}), body), "miss");
}

#[test]
fn body_that_is_a_list_or_a_scalar_misses() {
    for body in ["[1]", "1", "null", "\"a\"", " true "] {
        assert_eq!(on_body(json!({"body.a": 1}), body), "miss", "{body}");
    }
}

#[test]
fn dotted_keys_and_list_items_are_reachable_unlike_in_the_provider() {
    let body = r#"{"a.b": {"x\\y": 2}, "items": [{"id": 5}, [7, 8]], "0": {"00": 3}}"#;
    assert_eq!(on_body(json!({r"body.a\.b.x\\y": 2}), body), "match");
    assert_eq!(on_body(json!({"body.items.0.id": 5}), body), "match");
    assert_eq!(on_body(json!({"body.items.1.1": 8}), body), "match");
    assert_eq!(on_body(json!({"body.items.1.2": 8}), body), "miss");
    assert_eq!(on_body(json!({"body.items.00.id": 5}), body), "miss");
    assert_eq!(on_body(json!({"body.0.00": 3}), body), "match");
    assert_eq!(on_body(json!({"body.0": 1}), "[1]"), "match");
    assert_eq!(on_body(json!({"body.0": 1, "body.1": 2, "body.0.1": 3}), "[1, 2]"), "miss");
}

#[test]
fn nan_never_equals_anything() {
    assert_eq!(on_header(json!(0), Field::F64(f64::NAN)), "miss");
    assert_eq!(on_header(json!("NaN"), Field::F64(f64::NAN)), "miss");
    assert_eq!(on_body(json!({"body.a": null}), r#"{"a": NaN}"#), "miss");
    assert_eq!(on_body(json!({"body.a": {"$not": 0}}), r#"{"a": NaN}"#), "match");
}

#[test]
fn numbers_keep_every_digit() {
    let int = |digits: &str| json!({"body.a": {"$int": digits}});
    assert_eq!(on_body(json!({"body.a": 100}), r#"{"a": 1e2}"#), "match");
    assert_eq!(on_body(int("12345678901234567890123"), r#"{"a": 12345678901234567890123}"#), "match");
    assert_eq!(on_body(int("12345678901234567890123"), r#"{"a": 12345678901234567890124}"#), "miss");
    assert_eq!(on_body(int("12345678901234567890123"), r#"{"a": 1.2345678901234567890123e22}"#), "miss");
    assert_eq!(on_body(int("10000000000000000000000"), r#"{"a": 1e22}"#), "match");
    assert_eq!(on_body(int(&"9".repeat(4300)), &format!(r#"{{"a": {}}}"#, "9".repeat(4300))), "match");
    assert_eq!(on_body(json!({"body.a": u64::MAX}), r#"{"a": 18446744073709551615}"#), "match");
    assert_eq!(on_body(json!({"body.a": u64::MAX}), r#"{"a": 18446744073709551616}"#), "miss");
    assert_eq!(on_body(json!({"body.a": 9_007_199_254_740_993_u64}), r#"{"a": 9007199254740992.0}"#), "miss");
    assert_eq!(on_body(json!({"body.a": 0.1}), r#"{"a": 0.1000000000000000055}"#), "match");
    assert_eq!(on_header(json!(1.1), Field::F32(1.1)), "miss");
    assert_eq!(on_header(json!(1.5), Field::F32(1.5)), "match");
    assert_eq!(on_header(json!(1.5), Field::Decimal { scale: 1, value: 15 }), "match");
    assert_eq!(on_header(json!(0.1), Field::Decimal { scale: 1, value: 1 }), "miss");
    assert_eq!(on_header(json!(u32::MAX), Field::U32(u32::MAX)), "match");
    assert_eq!(on_header(json!(i64::MIN), Field::I64(i64::MIN)), "match");
}

#[test]
fn nan_and_infinities_in_a_body_are_read_as_python_reads_them() {
    for body in ["NaN", "Infinity", "-Infinity", "[NaN, -Infinity]", r#"{"b": NaN, "a": 1}"#] {
        let expected = if body.starts_with('{') { "match" } else { "miss" };
        assert_eq!(on_body(json!({"body.a": 1}), body), expected, "{body}");
    }
    assert_eq!(on_body(json!({"body.a": {"$gt": 1e18}}), r#"{"a": Infinity}"#), "match");
    assert_eq!(on_body(json!({"body.a": 1}), "-NaN"), "error");
    assert_eq!(on_body(json!({"body.a": 1}), "nan"), "error");
}

#[test]
fn texts_compare_by_character_and_escapes_are_read() {
    assert_eq!(on_body(json!({"body.é": "😀\n"}), r#"{"\u00e9": "\ud83d\ude00\n"}"#), "match");
    assert_eq!(on_body(json!({"body.a": "é"}), "{\"a\": \"e\u{301}\"}"), "miss");
    assert_eq!(on_body(json!({"body.a": "\"\\/\u{8}\u{c}\r\t\0"}), r#"{"a": "\"\\\/\b\f\r\t\u0000"}"#), "match");
}

#[test]
fn verdict_does_not_depend_on_the_order_of_keys() {
    let (one, two) = (json!({"h": 1, "body.a": 1, "body.b": 1}), json!({"body.b": 1, "body.a": 1, "h": 1}));
    for (header, body) in [(1, r#"{"a": 1, "a": 1, "b": 2}"#), (2, ""), (1, r#"{"a": 1, "b": 1}"#), (1, "x")] {
        let headers = table([("h", Field::I8(header))]);
        let code = |conditions: &Value| evaluate(conditions, &headers, body.as_bytes()).code();
        assert_eq!(code(&one), code(&two), "{header} {body}");
    }
}
