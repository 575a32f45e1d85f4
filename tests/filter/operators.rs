//! What a condition can say beyond equality.

use rmq_watcher::domain::envelope::{Field, Table};
use rmq_watcher::domain::filter::{Content, MAX_EXPLANATION, Message, Verdict};
use serde_json::json;

use crate::support::{evaluate, filter, on_body, on_header, table, text};

#[test]
fn in_holds_for_any_of_the_values() {
    let operator = json!({"$in": ["eu", 1, null, {"$eq": {"$x": 1}}, [2]]});
    for (found, verdict) in [
        (text("eu"), "match"),
        (Field::Boolean(true), "match"),
        (Field::Void, "match"),
        (Field::Table(table([("$x", Field::I8(1))])), "match"),
        (Field::Array(vec![Field::I8(2)]), "match"),
        (text("us"), "miss"),
        (Field::Array(vec![]), "miss"),
    ] {
        assert_eq!(on_header(operator.clone(), found.clone()), verdict, "{found:?}");
    }
    assert_eq!(evaluate(&json!({"h": operator}), &Table::new(), b"").code(), "match", "a missing header is None");
    assert_eq!(on_body(json!({"body.a": {"$in": [null]}}), "{}"), "miss");
}

#[test]
fn exists_tells_absent_from_null() {
    assert_eq!(on_header(json!({"$exists": true}), Field::Void), "match");
    assert_eq!(evaluate(&json!({"h": {"$exists": true}}), &Table::new(), b"").code(), "miss");
    assert_eq!(evaluate(&json!({"h": {"$exists": false}}), &Table::new(), b"").code(), "match");
    assert_eq!(on_body(json!({"body.a.0": {"$exists": true}}), r#"{"a": [null]}"#), "match");
    assert_eq!(on_body(json!({"body.a.1": {"$exists": false}}), r#"{"a": [null]}"#), "match");
    assert_eq!(on_body(json!({"body.a": {"$exists": false}}), "[]"), "match");
    assert_eq!(on_body(json!({"body.a": {"$exists": false}}), "x"), "error");
}

#[test]
fn prefix_and_regex_hold_for_texts_only() {
    assert_eq!(on_header(json!({"$prefix": "ord"}), text("orders")), "match");
    assert_eq!(on_header(json!({"$prefix": "orders."}), text("orders")), "miss");
    assert_eq!(on_header(json!({"$prefix": ""}), Field::I8(1)), "miss");
    assert_eq!(on_header(json!({"$prefix": "a"}), Field::Bytes(b"ab".to_vec())), "miss");
    assert_eq!(on_header(json!({"$regex": "r[d]e"}), text("orders")), "match");
    assert_eq!(on_header(json!({"$regex": "^r"}), text("orders")), "miss");
    assert_eq!(on_header(json!({"$regex": "(?i)^ORDERS$"}), text("orders")), "match");
    assert_eq!(on_header(json!({"$regex": ""}), Field::Text(vec![0xff])), "miss");
    assert_eq!(on_body(json!({"body.a": {"$regex": "^é\\d$"}}), r#"{"a": "\u00e91"}"#), "match");
}

#[test]
fn regex_takes_time_in_proportion_to_the_text() {
    let body = format!(r#"{{"a": "{}!"}}"#, "a".repeat(200_000));
    assert_eq!(on_body(json!({"body.a": {"$regex": "^(a+)+$"}}), &body), "miss");
}

#[test]
fn numbers_are_ordered_by_exact_value() {
    for (operator, found, verdict) in [
        (json!({"$lt": 5}), Field::I8(4), "match"),
        (json!({"$lt": 5}), Field::I8(5), "miss"),
        (json!({"$le": 5}), Field::F64(5.0), "match"),
        (json!({"$gt": 5}), Field::F64(5.000_000_1), "match"),
        (json!({"$ge": 5.5}), Field::Decimal { scale: 1, value: 55 }, "match"),
        (json!({"$ge": 1, "$lt": 2}), Field::F32(1.5), "match"),
        (json!({"$ge": 1, "$lt": 2}), Field::I8(2), "miss"),
        (json!({"$gt": 0}), Field::Boolean(true), "match"),
        (json!({"$gt": 0}), text("1"), "miss"),
        (json!({"$lt": 0}), Field::F64(f64::NAN), "miss"),
        (json!({"$ge": 0}), Field::F64(f64::NAN), "miss"),
        (json!({"$ge": 0}), Field::Timestamp(5), "miss"),
        (json!({"$lt": {"$int": "100000000000000000000"}}), Field::I64(i64::MAX), "match"),
    ] {
        assert_eq!(on_header(operator.clone(), found.clone()), verdict, "{operator} {found:?}");
    }
    assert_eq!(evaluate(&json!({"h": {"$lt": 5}}), &Table::new(), b"").code(), "miss");
    assert_eq!(on_body(json!({"body.a": {"$gt": 9_007_199_254_740_992_u64}}), r#"{"a": 9007199254740993}"#), "match");
}

#[test]
fn not_turns_a_condition_round_also_where_nothing_is_found() {
    assert_eq!(on_header(json!({"$not": "eu"}), text("us")), "match");
    assert_eq!(on_header(json!({"$not": "eu"}), text("eu")), "miss");
    assert_eq!(on_header(json!({"$not": {"$in": [1, 2], "$lt": 2}}), Field::I8(2)), "match");
    assert_eq!(on_header(json!({"$not": {"$not": "eu"}}), text("eu")), "match");
    assert_eq!(on_body(json!({"body.a": {"$not": 1}}), "{}"), "match");
    assert_eq!(on_body(json!({"body.a": {"$not": 1}}), r#"{"a": 1, "a": 2}"#), "error");
    assert_eq!(on_body(json!({"body.a": {"$not": 1}}), "x"), "error");
}

#[test]
fn groups_put_conditions_together() {
    let conditions = json!({
        "kind": "order",
        "$any": [{"region": "eu", "body.vip": true}, {"region": {"$in": ["us", "ca"]}}],
        "$not": {"test": true},
    });
    let headers = |region: &str, test: bool| {
        table([("kind", text("order")), ("region", text(region)), ("test", Field::Boolean(test))])
    };
    assert_eq!(evaluate(&conditions, &headers("us", false), b"no json").code(), "match", "no need of the body");
    assert_eq!(evaluate(&conditions, &headers("us", true), b"no json").code(), "miss");
    assert_eq!(evaluate(&conditions, &headers("eu", false), b"no json").code(), "error");
    assert_eq!(evaluate(&conditions, &headers("eu", false), br#"{"vip": true}"#).code(), "match");
    assert_eq!(evaluate(&conditions, &headers("eu", false), b"{}").code(), "miss");
    assert_eq!(evaluate(&conditions, &headers("asia", false), b"no json").code(), "miss");
    let all = json!({"$all": [{"a": 1}, {"a": {"$lt": 2}}]});
    assert_eq!(evaluate(&all, &table([("a", Field::I8(1))]), b"").code(), "match");
}

#[test]
fn dollar_in_names_is_doubled_and_in_tables_quoted_by_eq() {
    assert_eq!(evaluate(&json!({"$$any": 1}), &table([("$any", Field::I8(1))]), b"").code(), "match");
    let found = Field::Table(table([("$in", Field::Array(vec![Field::I8(1)]))]));
    assert_eq!(on_header(json!({"$eq": {"$in": [1]}}), found), "match");
    assert_eq!(on_body(json!({"body.a": {"$eq": {"$ref": {"$x": 1}}}}), r#"{"a": {"$ref": {"$x": 1}}}"#), "match");
    assert_eq!(on_body(json!({"body.$ref": 1}), r#"{"$ref": 1}"#), "match");
}

#[test]
fn miss_names_the_condition_what_it_expects_and_what_was_found() {
    let miss = |conditions: &serde_json::Value, headers: &Table, body: &[u8]| match evaluate(conditions, headers, body)
    {
        Verdict::Miss(clause) => clause.to_string(),
        other @ (Verdict::Match | Verdict::Error(_)) => panic!("{other:?}"),
    };
    let none = Table::new();
    let region = table([("region", text("us"))]);
    assert_eq!(miss(&json!({"region": "eu"}), &region, b""), "`region`: expected \"eu\", found \"us\"");
    assert_eq!(miss(&json!({"region": {"$exists": true}}), &none, b""), "`region`: expected something, found nothing");
    assert_eq!(
        miss(&json!({"body.n": {"$ge": 1, "$lt": 5}}), &none, br#"{"n": 7}"#),
        "`body.n`: expected a number < 5, found 7"
    );
    assert_eq!(miss(&json!({"body.n": [1]}), &none, br#"{"n": [1, 2]}"#), "`body.n`: expected [1], found a list");
    assert_eq!(
        miss(&json!({"region": {"$not": {"$prefix": "u"}}}), &region, b""),
        "`region`: expected not a text that begins with \"u\", found \"us\""
    );
    assert_eq!(
        miss(&json!({"$any": [{"a": 1}, {"b": 1}]}), &none, b""),
        "`$any`: expected one of its groups to hold, found that none holds"
    );
}

#[test]
fn explanations_are_short_whatever_is_in_a_message() {
    let long = "\u{1}é".repeat(50_000);
    let conditions = json!({long.clone(): long.clone(), format!("body.{long}"): {"$in": [long.clone()]}});
    for (headers, body) in [
        (table([(long.as_str(), text("x"))]), String::new()),
        (table([(long.as_str(), text(&long))]), json!({long.clone(): long.repeat(2)}).to_string()),
    ] {
        match evaluate(&conditions, &headers, body.as_bytes()) {
            Verdict::Miss(clause) => assert!(clause.to_string().chars().count() <= MAX_EXPLANATION, "{clause}"),
            other @ (Verdict::Match | Verdict::Error(_)) => panic!("{other:?}"),
        }
    }
    let unclear = json!({format!("body.{long}"): 1});
    let twice = format!("{{{0}: 1, {0}: 2}}", json!(long));
    let Verdict::Error(reason) = evaluate(&unclear, &Table::new(), twice.as_bytes()) else { panic!("an error") };
    assert!(reason.to_string().chars().count() <= MAX_EXPLANATION, "{reason}");
}

#[test]
fn explain_lists_every_condition_with_its_own_answer() {
    let filter = filter(&json!({"body.a": 1, "h": "x", "$any": [{"body.b": 2}, {"g": null}]}));
    let headers = table([("h", text("y"))]);
    let lines =
        filter.explain(&Message { headers: &headers, body: Content::Bytes(br#"{"a": 1, "a": 1, "b": "two"}"#) });
    let lines: Vec<_> = lines
        .iter()
        .map(|line| (line.level, &*line.subject, line.verdict.code(), line.found.as_deref().unwrap_or("-")))
        .collect();
    assert_eq!(
        lines,
        [
            (0, "h", "miss", "\"y\""),
            (0, "body.a", "error", "two values"),
            (0, "$any", "match", "-"),
            (1, "$all", "match", "-"),
            (2, "g", "match", "nothing"),
            (1, "$all", "miss", "-"),
            (2, "body.b", "miss", "\"two\""),
        ]
    );
}
