//! What holds for every filter and every message.

use proptest::prelude::*;
use rmq_watcher::domain::envelope::{Field, Table};
use rmq_watcher::domain::filter::{Content, Filter, Filters, MAX_EXPLANATION, Message, Verdict};
use serde_json::{Map, Value, json};

use crate::support::filter;

/// More in long rounds.
fn cases() -> u32 {
    if std::env::var_os("RMQ_TEST_ALL").is_some() { 3_000 } else { 200 }
}

/// Few names, so that filters and messages meet.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(vec!["a", "b", "c", "0", "1", ""]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["$in", "$$a", "a.b", r"a\b", "body", "body.", "é"]).prop_map(str::to_owned),
    ]
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        prop::sample::select(vec![0.0, -1.0, 1.0, 1.5]).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e18..1e18_f64).prop_map(Value::from),
        prop::sample::select(vec!["", "a", "ab", "1", "é"]).prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec((name(), inner), 0..3).prop_map(object),
        ]
    })
}

fn object(members: Vec<(String, Value)>) -> Value {
    Value::Object(members.into_iter().collect())
}

/// What stands behind a name: a value in `$eq`, or operators.
fn tests() -> impl Strategy<Value = Value> {
    let number = || prop_oneof![(-2..3_i64).prop_map(Value::from), Just(json!(0.5)), Just(json!({"$int": "1"}))];
    let one = prop_oneof![
        3 => value().prop_map(|value| json!({ "$eq": value })),
        1 => prop::collection::vec(value().prop_map(|value| json!({ "$eq": value })), 1..3).prop_map(|list| json!({ "$in": list })),
        1 => any::<bool>().prop_map(|exists| json!({ "$exists": exists })),
        1 => prop::sample::select(vec!["", "a", "^a$", "b|1"]).prop_map(|pattern| json!({ "$regex": pattern })),
        1 => Just(json!({"$prefix": "a"})),
        1 => (number(), number()).prop_map(|(low, high)| json!({ "$ge": low, "$lt": high })),
        1 => Just(json!({"$int": "123456789012345678901234567890123456789012"})),
    ];
    one.prop_recursive(2, 4, 1, |inner| inner.prop_map(|tests| json!({ "$not": tests })))
}

fn key() -> impl Strategy<Value = String> {
    let path = prop::collection::vec(name(), 1..4).prop_map(|parts| {
        let escaped = |part: &String| part.replace('\\', r"\\").replace('.', r"\.");
        format!("body.{}", parts.iter().map(escaped).collect::<Vec<_>>().join("."))
    });
    let header = name().prop_filter_map("a header", |name| match name {
        name if name.starts_with("body.") => None,
        name if name.starts_with('$') => Some(format!("${name}")),
        name => Some(name),
    });
    prop_oneof![header, path]
}

fn conditions() -> impl Strategy<Value = Value> {
    let plain = prop::collection::vec((key(), tests()), 1..4).prop_map(object);
    plain.prop_recursive(3, 12, 3, |inner| {
        let groups = || prop::collection::vec(inner.clone(), 1..3).prop_map(Value::Array);
        let group = prop_oneof![
            groups().prop_map(|groups| ("$any".to_owned(), groups)),
            groups().prop_map(|groups| ("$all".to_owned(), groups)),
            inner.clone().prop_map(|group| ("$not".to_owned(), group)),
        ];
        (prop::collection::vec((key(), tests()), 0..3), prop::collection::vec(group, 1..3))
            .prop_map(|(conditions, groups)| object(conditions.into_iter().chain(groups).collect()))
    })
}

fn field() -> impl Strategy<Value = Field> {
    let leaf = prop_oneof![
        Just(Field::Void),
        any::<bool>().prop_map(Field::Boolean),
        (-2..3_i8).prop_map(Field::I8),
        any::<u32>().prop_map(Field::U32),
        any::<i64>().prop_map(Field::I64),
        any::<f32>().prop_map(Field::F32),
        any::<f64>().prop_map(Field::F64),
        (any::<u8>(), any::<u16>()).prop_map(|(scale, value)| Field::Decimal { scale, value: value.into() }),
        prop::sample::select(vec!["", "a", "ab", "1"]).prop_map(|text| Field::Text(text.into())),
        prop::collection::vec(any::<u8>(), 0..3).prop_map(Field::Text),
        prop::collection::vec(any::<u8>(), 0..3).prop_map(Field::Bytes),
        any::<u64>().prop_map(Field::Timestamp),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Field::Array),
            prop::collection::btree_map(name(), inner, 0..3).prop_map(Field::Table),
        ]
    })
}

fn headers() -> impl Strategy<Value = Table> {
    prop::collection::btree_map(name(), field(), 0..4)
}

/// Mostly JSON, some of it cut, doubled or overwritten.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let json = || value().prop_map(|value| value.to_string());
    let twice =
        (name(), json(), name(), json()).prop_map(|(a, x, b, y)| format!("{{{}: {x}, {}: {y}}}", json!(a), json!(b)));
    let broken = (json(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(json, at, byte)| {
        let mut bytes = json.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes
    });
    let text = "[\\[\\]{},:\"\\\\a0-9eEuNI.+\\- ]{0,20}";
    prop_oneof![
        4 => json().prop_map(String::into_bytes),
        4 => prop::collection::vec((name(), value()), 0..4).prop_map(|members| object(members).to_string().into_bytes()),
        2 => twice.prop_map(String::into_bytes),
        2 => broken,
        1 => text.prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ]
}

/// The same conditions with the members of every group in the opposite order.
fn reversed(conditions: &Value) -> Value {
    match conditions {
        Value::Object(members) => {
            let members = members.iter().rev().map(|(key, value)| {
                let is_group = ["$any", "$all", "$not"].contains(&key.as_str());
                (key.clone(), if is_group { reversed(value) } else { value.clone() })
            });
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(groups) => Value::Array(groups.iter().rev().map(reversed).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => conditions.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn every_message_has_a_short_verdict(conditions in conditions(), headers in headers(), body in body()) {
        let (filter, message) = (filter(&conditions), Message { headers: &headers, body: Content::Bytes(&body) });
        let words = match filter.evaluate(&message) {
            Verdict::Match => String::new(),
            Verdict::Miss(clause) => clause.to_string(),
            Verdict::Error(reason) => reason.to_string(),
        };
        prop_assert!(words.chars().count() <= MAX_EXPLANATION, "{words}");
        filter.explain(&message);
    }

    #[test]
    fn any_json_is_a_filter_or_a_problem(data in value(), inner in value()) {
        for data in [data, json!({ "filter_headers": inner })] {
            if let Ok(filter) = Filter::parse(&data) {
                prop_assert_eq!(Filter::parse(&filter.to_json()), Ok(filter));
            }
        }
    }

    #[test]
    fn what_is_printed_reads_as_the_same_filter(conditions in conditions()) {
        let filter = filter(&conditions);
        prop_assert_eq!(Filter::parse(&filter.to_json()), Ok(filter));
    }

    #[test]
    fn order_of_keys_does_not_change_the_verdict(conditions in conditions(), headers in headers(), body in body()) {
        let message = Message { headers: &headers, body: Content::Bytes(&body) };
        let there = filter(&conditions).evaluate(&message);
        prop_assert_eq!(there.code(), filter(&reversed(&conditions)).evaluate(&message).code());
    }

    #[test]
    fn not_turns_match_and_miss_round_and_leaves_errors(conditions in conditions(), headers in headers(), body in body()) {
        let message = Message { headers: &headers, body: Content::Bytes(&body) };
        let plain = filter(&conditions).evaluate(&message);
        let not = filter(&json!({ "$not": conditions })).evaluate(&message);
        let not_not = filter(&json!({ "$not": { "$not": conditions } })).evaluate(&message);
        prop_assert_eq!(plain.code(), not_not.code());
        let expected = match plain {
            Verdict::Match => "miss",
            Verdict::Miss(_) => "match",
            Verdict::Error(_) => "error",
        };
        prop_assert_eq!(not.code(), expected);
    }

    #[test]
    fn filters_that_share_a_body_say_what_each_says_alone(
        all in prop::collection::vec(conditions(), 1..5), headers in headers(), body in body(),
    ) {
        let message = Message { headers: &headers, body: Content::Bytes(&body) };
        let alone: Vec<_> = all.iter().map(|conditions| filter(conditions).evaluate(&message)).collect();
        prop_assert_eq!(Filters::new(all.iter().map(filter)).evaluate(&message), alone);
    }
}
