//! A tree back in the form in which filters are written, and in words.

use serde_json::{Map, Value, json};

use super::number::Number;
use super::tree::{Condition, Node, Subject, Test, TestKind};
use super::value::Expected;
use super::verdict::quoted;

/// The `filter_data` of a tree.
pub(super) fn filter_data(root: &Node) -> Value {
    match root {
        Node::All(nodes) => json!({ "filter_headers": conditions(nodes) }),
        Node::Any(_) | Node::Not(_) | Node::Condition(_) => {
            json!({ "filter_headers": conditions(std::slice::from_ref(root)) })
        }
    }
}

fn conditions(nodes: &[Node]) -> Value {
    Value::Object(nodes.iter().map(entry).collect())
}

fn entry(node: &Node) -> (String, Value) {
    match node {
        Node::All(nodes) => ("$all".to_owned(), groups(nodes)),
        Node::Any(nodes) => ("$any".to_owned(), groups(nodes)),
        Node::Not(inner) => ("$not".to_owned(), group(inner)),
        Node::Condition(Condition { subject, tests, .. }) => (key(subject), operators(tests)),
    }
}

fn groups(nodes: &[Node]) -> Value {
    Value::Array(nodes.iter().map(group).collect())
}

fn group(node: &Node) -> Value {
    match node {
        Node::All(nodes) => conditions(nodes),
        Node::Any(_) | Node::Not(_) | Node::Condition(_) => conditions(std::slice::from_ref(node)),
    }
}

fn key(subject: &Subject) -> String {
    match subject {
        Subject::Header(name) if name.starts_with('$') => format!("${name}"),
        Subject::Header(name) => name.to_string(),
        Subject::Body(path, _) => format!("body.{path}"),
    }
}

fn operators(tests: &[Test]) -> Value {
    if let [Test { kind: TestKind::Equals(expected), .. }] = tests
        && is_plain(expected)
    {
        return value(expected);
    }
    let mut members = Map::new();
    for test in tests {
        let (name, operand) = match &test.kind {
            TestKind::Equals(Expected::Number(Number::Big(digits))) => ("$int", json!(digits)),
            TestKind::Equals(expected) => ("$eq", value(expected)),
            TestKind::In(list) => ("$in", Value::Array(list.iter().map(item).collect())),
            TestKind::Exists(exists) => ("$exists", json!(exists)),
            TestKind::Regex(pattern) => ("$regex", json!(pattern.0.as_str())),
            TestKind::Prefix(prefix) => ("$prefix", json!(prefix)),
            TestKind::Order(order, bound) => (order.name(), number(bound)),
            TestKind::Not(tests) => ("$not", operators(tests)),
        };
        members.insert(name.to_owned(), operand);
    }
    Value::Object(members)
}

fn item(expected: &Expected) -> Value {
    if is_plain(expected) { value(expected) } else { json!({ "$eq": value(expected) }) }
}

/// Whether no key in it could be taken for an operator.
fn is_plain(expected: &Expected) -> bool {
    match expected {
        Expected::Null | Expected::Bool(_) | Expected::Number(_) | Expected::Text(_) => true,
        Expected::List(items) => items.iter().all(is_plain),
        Expected::Table(members) => members.iter().all(|(key, member)| !key.starts_with('$') && is_plain(member)),
    }
}

fn value(expected: &Expected) -> Value {
    match expected {
        Expected::Null => Value::Null,
        Expected::Bool(value) => json!(value),
        Expected::Number(value) => number(value),
        Expected::Text(text) => json!(text),
        Expected::List(items) => Value::Array(items.iter().map(value).collect()),
        Expected::Table(members) => {
            Value::Object(members.iter().map(|(key, member)| (key.to_string(), value(member))).collect())
        }
    }
}

fn number(number: &Number<'_>) -> Value {
    match number {
        Number::Int(int) => {
            serde_json::Number::from_i128(*int).map_or_else(|| json!({ "$int": int.to_string() }), Value::Number)
        }
        Number::Big(_) | Number::Decimal { .. } => json!({ "$int": number.to_string() }),
        Number::Float(float) => json!(float),
    }
}

/// What a test expects, in words.
pub(super) fn test(kind: &TestKind) -> String {
    match kind {
        TestKind::Equals(Expected::Text(text)) => quoted(text),
        TestKind::Equals(Expected::Number(number)) => number.to_string(),
        TestKind::Equals(expected) => value(expected).to_string(),
        TestKind::In(list) => {
            let list: Vec<Value> = list.iter().map(value).collect();
            format!("one of {}", Value::Array(list))
        }
        TestKind::Exists(true) => "something".to_owned(),
        TestKind::Exists(false) => "nothing".to_owned(),
        TestKind::Regex(pattern) => format!("a text that matches {}", quoted(pattern.0.as_str())),
        TestKind::Prefix(prefix) => format!("a text that begins with {}", quoted(prefix)),
        TestKind::Order(order, bound) => format!("a number {} {bound}", order.sign()),
        TestKind::Not(tests) => {
            let tests: Vec<&str> = tests.iter().map(|test| &*test.shown).collect();
            format!("not {}", tests.join(" and "))
        }
    }
}
