//! A message written down as a JSON object, as the conf of a run holds it.
//!
//! `body` is its text, `body_b64` its exact bytes and counts before `body`; `headers` is an object of names and values. What a
//! conf holds besides is known and not looked at. A value of a header is read as the type that JSON shows; of the types
//! that JSON lacks, `{"base64": "…"}` is bytes and `{"timestamp": n}`, with or without its `iso`, a timestamp.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use crate::domain::envelope::{Field, Table};

/// The most levels of headers.
const MAX_LEVELS: usize = 100;

/// Keys that say nothing to a filter.
const OTHERS: [&str; 9] = [
    "properties",
    "routing_key",
    "exchange",
    "source",
    "queue",
    "subscription_id",
    "conn_id",
    "message_id",
    "redelivered",
];

/// What a filter looks at.
#[derive(Debug)]
pub(super) struct MessageFile {
    pub(super) headers: Table,
    pub(super) body: Vec<u8>,
}

/// Reads a message; the error is a clause for a person.
pub(super) fn read(value: &Value) -> Result<MessageFile, String> {
    let Some(members) = value.as_object() else {
        return Err("a message is a JSON object with body or body_b64, headers, properties, routing_key".to_owned());
    };
    let known = |key: &String| ["body", "body_b64", "headers"].contains(&&**key) || OTHERS.contains(&&**key);
    if let Some(key) = members.keys().find(|key| !known(key)) {
        return Err(format!("a message has no {key:?}; it has body or body_b64, headers, properties, routing_key"));
    }
    let body = match (members.get("body_b64"), members.get("body")) {
        (Some(Value::String(text)), _) => {
            BASE64.decode(text).map_err(|error| format!("body_b64 is not base64: {error}"))?
        }
        (Some(_), _) => return Err("body_b64 has to be a string".to_owned()),
        (None, Some(Value::String(text))) => text.clone().into_bytes(),
        (None, None) => Vec::new(),
        (None, Some(_)) => {
            return Err("body has to be a string; a JSON body is written as its text, \"{\\\"a\\\": 1}\"".to_owned());
        }
    };
    let headers = match members.get("headers") {
        None | Some(Value::Null) => Table::new(),
        Some(Value::Object(members)) => table(members, 1)?,
        Some(_) => return Err("headers has to be an object".to_owned()),
    };
    Ok(MessageFile { headers, body })
}

fn table(members: &Map<String, Value>, level: usize) -> Result<Table, String> {
    if level > MAX_LEVELS {
        return Err(format!("headers are nested deeper than {MAX_LEVELS} levels"));
    }
    members.iter().map(|(name, value)| Ok((name.clone(), field(value, level)?))).collect()
}

fn field(value: &Value, level: usize) -> Result<Field, String> {
    Ok(match value {
        Value::Null => Field::Void,
        Value::Bool(value) => Field::Boolean(*value),
        Value::Number(number) => match number.as_i64() {
            Some(int) => Field::I64(int),
            None => Field::F64(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Field::Text(text.clone().into_bytes()),
        Value::Array(items) if level < MAX_LEVELS => {
            Field::Array(items.iter().map(|item| field(item, level + 1)).collect::<Result<_, _>>()?)
        }
        Value::Array(_) => return Err(format!("headers are nested deeper than {MAX_LEVELS} levels")),
        Value::Object(members) => match (members.len(), members.get("base64"), members.get("timestamp")) {
            (1, Some(Value::String(text)), _) => {
                Field::Bytes(BASE64.decode(text).map_err(|error| format!("a header is not base64: {error}"))?)
            }
            (1, _, Some(Value::Number(number))) if number.is_u64() => {
                Field::Timestamp(number.as_u64().unwrap_or_default())
            }
            (2, _, Some(Value::Number(number))) if number.is_u64() && members.contains_key("iso") => {
                Field::Timestamp(number.as_u64().unwrap_or_default())
            }
            _ => Field::Table(table(members, level + 1)?),
        },
    })
}
