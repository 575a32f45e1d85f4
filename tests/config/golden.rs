//! Every value of the golden files, against what real Airflow made of it.

use rmq_watcher::config::connections::{AirflowConnection, AirflowDialect, parse};
use rmq_watcher::domain::connection::Secret;
use serde_json::{Map, Value};

/// Where we knowingly read otherwise: JSON as Python extends it, which a Rust value cannot hold, and text that is a
/// number to Python alone. Value and what we do.
const DEPARTURES: [(&str, &str); 5] = [
    (r#"{"conn_type":"amqp","extra":{"x":NaN}}"#, "refused"),
    (r#"{"conn_type":"amqp","extra":{"x":1e999}}"#, "refused"),
    ("amqp://u:p@host/vh?x=1e999", "kept as text"),
    ("amqp://u:p@host/vh?x=NaN&y=Infinity", "kept as text"),
    ("amqp://u:p@host/vh?x=%22%5Cud800%22", "kept as text"),
];

/// Nested deeper than our JSON reader goes.
fn is_too_deep(value: &str) -> bool {
    value.contains(&"[".repeat(128))
}

/// A host with text before its opening bracket or after its closing one, or brackets in the user's name or password.
/// Python's `urlsplit` took the first pair of brackets wherever it stood until the fix of CVE-2025-0938 and looks at the
/// host alone since, so the answer depends on the patch level of Airflow's Python.
fn depends_on_python(value: &str) -> bool {
    let Some((_, after)) = value.split_once("://") else { return false };
    let netloc = after.split(['/', '?', '#']).next().unwrap_or(after);
    let (user_info, host) = netloc.rsplit_once('@').unwrap_or(("", netloc));
    if user_info.contains(['[', ']']) {
        return true;
    }
    let Some((before, rest)) = host.split_once('[') else { return false };
    let after = rest.split_once(']').map_or("", |(_, after)| after);
    !before.is_empty() || !(after.is_empty() || after.starts_with(':'))
}

fn cases(file: &str) -> Vec<(String, Value)> {
    let golden: Value = serde_json::from_str(file).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    let pair = |case: &Value| (case["value"].as_str().unwrap().to_owned(), case["result"].clone());
    cases.iter().map(pair).collect()
}

/// Compares every case of a file and returns on how many we knowingly depart.
pub(crate) fn compare(file: &str, dialect: AirflowDialect) -> usize {
    let cases = cases(file);
    assert!(cases.len() >= 60, "{} cases", cases.len());
    let mut differences = Vec::new();
    let mut departures = 0;
    for (value, expected) in &cases {
        if value.is_empty() {
            // An empty variable counts as not set; the caller does not parse it.
            assert_eq!(expected["absent"], true);
            continue;
        }
        if depends_on_python(value) {
            continue;
        }
        let ours = parse(value, dialect);
        let agrees = match &ours {
            Err(_) => expected.get("error").is_some(),
            Ok(connection) => expected.get("error").is_none() && is_same(connection, expected, dialect),
        };
        let is_departure = is_too_deep(value) || DEPARTURES.iter().any(|(known, _)| known == value);
        departures += usize::from(is_departure && !agrees);
        if !agrees && !is_departure {
            let ours = ours.map(|c| {
                (c.conn_type, c.host, c.port, c.login, c.password.map(|p| p.expose().to_owned()), c.schema, c.extra)
            });
            differences.push(format!("{value:?}\n  airflow {expected}\n  ours    {ours:?}"));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    departures
}

/// Field by field, but for the kind of emptiness: `None`, `""` and what Python holds for false lead to the same settings.
fn is_same(ours: &AirflowConnection, airflow: &Value, dialect: AirflowDialect) -> bool {
    let text = |ours: Option<&str>, key: &str| match &airflow[key] {
        Value::String(theirs) => ours.unwrap_or("") == theirs,
        Value::Null | Value::Bool(false) => ours.unwrap_or("").is_empty(),
        Value::Number(number) => number.as_i64() == Some(0) && ours.unwrap_or("").is_empty(),
        Value::Array(items) => items.is_empty() && ours.unwrap_or("").is_empty(),
        Value::Object(map) => map.is_empty() && ours.unwrap_or("").is_empty(),
        Value::Bool(true) => false,
    };
    let extra_agrees = match &airflow["extra"] {
        Value::Object(theirs) => is_alike(&Value::Object(ours.extra.clone()), &Value::Object(theirs.clone())),
        // Airflow 2 hands such an extra on; no reader of it gets further than an exception.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            dialect == AirflowDialect::V2 && ours.extra == Map::new() && !ours.notes.is_empty()
        }
    };
    text(ours.conn_type.as_deref(), "conn_type")
        && text(ours.host.as_deref(), "host")
        && text(ours.login.as_deref(), "login")
        && text(ours.password.as_ref().map(Secret::expose), "password")
        && text(ours.schema.as_deref(), "schema")
        && ours.port.unwrap_or(0) == airflow["port"].as_i64().unwrap_or(0)
        && extra_agrees
}

/// Equality, but for how a number is held: `-0` is an integer to Python and none to our JSON reader.
fn is_alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_alike(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_alike(a, b)))
        }
        (a, b) => a == b,
    }
}

#[test]
fn parse_in_dialect_v2_agrees_with_airflow_2_11() {
    let departures = compare(include_str!("../fixtures/airflow_connections/golden-2.11.json"), AirflowDialect::V2);
    // Airflow 2 converts nothing in a query; what is left are the two JSON forms and the deep one.
    assert_eq!(departures, 3);
}

#[test]
fn parse_in_dialect_v3_agrees_with_airflow_3_3() {
    let departures = compare(include_str!("../fixtures/airflow_connections/golden-3.3.json"), AirflowDialect::V3);
    assert_eq!(departures, DEPARTURES.len() + 1);
}
