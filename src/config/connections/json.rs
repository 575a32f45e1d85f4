//! A connection written as a JSON object, read as Airflow reads it.
//!
//! Airflow passes the object's keys to a Python constructor; what that takes follows from Python's truth and its types.
//! A key of the wrong kind makes Airflow raise somewhere on the way, so it is an error here, with a sentence.
//!
//! Source: Airflow 2.11.2 and 3.3.2, `Connection.from_json`, `Connection.__init__`, `Connection.get_uri`. Held by
//! `tests/fixtures/airflow_connections/golden-*.json`.

use serde_json::{Map, Value};

use super::uri::{self, normalize_type};
use super::{AirflowConnection, AirflowDialect, ParseError, read_extra};
use crate::domain::connection::Secret;
use crate::domain::python::parse_int;

/// Keys that are read by us.
const FIELDS: [&str; 8] = ["conn_type", "host", "port", "login", "password", "schema", "extra", "uri"];

/// Reads a JSON object.
///
/// # Errors
/// Where Airflow raises, and for Python's extensions to JSON (`NaN`, numbers beyond a double, lone surrogates, more than
/// 128 levels), which Airflow takes.
pub fn parse(text: &str, dialect: AirflowDialect) -> Result<AirflowConnection, ParseError> {
    let mut object: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| ParseError::NotJson { line: error.line(), column: error.column() })?;
    check_keys(&object, dialect)?;
    let fields = Fields(&object);
    if let Some(uri) = fields.uri()? {
        let others = FIELDS.iter().filter(|key| **key != "uri");
        if others.clone().any(|key| object.get(*key).is_some_and(is_true)) {
            return Err(ParseError::UriAndFields);
        }
        return uri::parse(uri, dialect);
    }
    let mut connection = AirflowConnection {
        conn_type: fields.text("conn_type")?.map(|t| normalize_type(&t)),
        host: fields.text("host")?,
        port: fields.port()?,
        login: fields.login()?,
        password: fields.text("password")?.map(Secret::new),
        schema: fields.text("schema")?,
        ..AirflowConnection::default()
    };
    match object.remove("extra") {
        Some(Value::Object(map)) => connection.extra = map,
        Some(Value::String(text)) => read_extra(&text, dialect, &mut connection)?,
        Some(other) if is_true(&other) => {
            read_extra(&other.to_string(), dialect, &mut connection)?;
        }
        Some(_) | None => {}
    }
    Ok(connection)
}

fn check_keys(object: &Map<String, Value>, dialect: AirflowDialect) -> Result<(), ParseError> {
    for key in object.keys() {
        let known = FIELDS.contains(&key.as_str())
            || key == "description"
            || (key == "team_name" && dialect == AirflowDialect::V3);
        if !known {
            return Err(ParseError::UnknownKey { hint: hint(key) });
        }
    }
    Ok(())
}

/// What people write instead of Airflow's names.
fn hint(key: &str) -> &'static str {
    match key.to_ascii_lowercase().as_str() {
        "vhost" | "virtual_host" | "virtualhost" => "; the virtual host goes into schema",
        "user" | "username" => "; the user goes into login",
        "type" => "; the type goes into conn_type",
        "pass" | "passwd" | "pwd" => "; the password goes into password",
        "hostname" | "hosts" | "server" => "; host names go into host",
        "ssl" | "ssl_enabled" | "ssl_options" | "heartbeat" | "ca_certs" => "; this one goes into extra",
        _ => "",
    }
}

/// Python's truth.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn uri(&self) -> Result<Option<&'a str>, ParseError> {
        match self.0.get("uri") {
            Some(Value::String(uri)) if !uri.is_empty() => Ok(Some(uri)),
            Some(other) if is_true(other) => Err(ParseError::WrongKind { key: "uri", expected: "text" }),
            Some(_) | None => Ok(None),
        }
    }

    /// Text; everything that Python holds for false counts as absent.
    fn text(&self, key: &'static str) -> Result<Option<String>, ParseError> {
        match self.0.get(key) {
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|t| !t.is_empty())),
            Some(other) if is_true(other) => Err(ParseError::WrongKind { key, expected: "text" }),
            Some(_) | None => Ok(None),
        }
    }

    /// Text or null; here Airflow takes no other false value.
    fn login(&self) -> Result<Option<String>, ParseError> {
        match self.0.get("login") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Err(ParseError::WrongKind { key: "login", expected: "text" })
            }
        }
    }

    /// Python's `int()` of a number or a text.
    fn port(&self) -> Result<Option<i64>, ParseError> {
        let wrong = ParseError::WrongKind { key: "port", expected: "a whole number" };
        let Some(value) = self.0.get("port").filter(|value| is_true(value)) else {
            return Ok(None);
        };
        let port = match value {
            Value::Bool(value) => Some(i64::from(*value)),
            Value::Number(number) => number.as_i64().or_else(|| truncate(number.as_f64()?)),
            Value::String(text) => parse_int(text),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        };
        port.map(Some).ok_or(wrong)
    }
}

/// A number without its fraction, where it is of a size that a port can be mistaken for.
fn truncate(number: f64) -> Option<i64> {
    let whole = number.trunc();
    if whole.abs() > 1e15 {
        return None;
    }
    format!("{whole:.0}").parse().ok()
}
