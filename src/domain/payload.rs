//! The `conf` of a DAG run, made from a delivery.
//!
//! The six keys of the Python provider come first and never change their meaning; what we add stands behind them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::envelope::{Envelope, Field, Properties, Table};
use super::ids::SubscriptionId;

/// The conf of an immediate run.
///
/// | key | value |
/// |---|---|
/// | `source` | `"immediate"` |
/// | `body` | the body as text; where it is not UTF-8, or holds a NUL, with U+FFFD in place of what cannot be kept |
/// | `headers` | see [`table_to_json`] |
/// | `routing_key`, `queue` | as delivered |
/// | `subscription_id` | the row id of the subscription |
/// | `body_b64` | the exact body, only where `body` is not exact |
/// | `conn_id`, `message_id` (or null), `redelivered` | as delivered |
/// | `properties` | the basic properties that are set |
pub fn immediate_conf(envelope: &Envelope, subscription: SubscriptionId) -> Map<String, Value> {
    let body = String::from_utf8_lossy(&envelope.body);
    let exact = !body.contains('\0') && std::str::from_utf8(&envelope.body).is_ok();
    let mut conf = Map::new();
    let mut put = |key: &str, value: Value| drop(conf.insert(key.to_owned(), value));
    put("source", json!("immediate"));
    put("body", json!(without_nul(&body)));
    put("headers", table_to_json(&envelope.headers));
    put("routing_key", json!(without_nul(&envelope.routing_key)));
    put("queue", json!(envelope.queue.as_str()));
    put("subscription_id", json!(subscription.0));
    if !exact {
        put("body_b64", json!(BASE64.encode(&envelope.body)));
    }
    put("conn_id", json!(envelope.conn_id.as_str()));
    put("message_id", json!(envelope.properties.message_id.as_deref().map(without_nul)));
    put("redelivered", json!(envelope.redelivered));
    put("properties", properties_to_json(&envelope.properties));
    conf
}

/// A message without its body as JSON, for keeping: exchange, routing key, headers and properties.
pub fn message_head(envelope: &Envelope) -> Value {
    json!({
        "exchange": envelope.exchange,
        "routing_key": envelope.routing_key,
        "headers": table_to_json(&envelope.headers),
        "properties": properties_to_json(&envelope.properties),
    })
}

/// Text as it stands in a conf: Airflow's database may refuse NUL in JSON text (Postgres does), so it never gets there.
pub(super) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn properties_to_json(p: &Properties) -> Value {
    let mut map = Map::new();
    let texts = [
        ("content_type", &p.content_type),
        ("content_encoding", &p.content_encoding),
        ("correlation_id", &p.correlation_id),
        ("reply_to", &p.reply_to),
        ("expiration", &p.expiration),
        ("message_id", &p.message_id),
        ("type", &p.kind),
        ("user_id", &p.user_id),
        ("app_id", &p.app_id),
        ("cluster_id", &p.cluster_id),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            map.insert(name.to_owned(), json!(without_nul(text)));
        }
    }
    let numbers = [
        ("delivery_mode", p.delivery_mode.map(u64::from)),
        ("priority", p.priority.map(u64::from)),
        ("timestamp", p.timestamp),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            map.insert(name.to_owned(), json!(number));
        }
    }
    Value::Object(map)
}

/// A header table as a JSON object, one documented form for every type:
/// void → null; booleans and integers → themselves; floats → numbers, the three that JSON lacks → `"NaN"`,
/// `"Infinity"`, `"-Infinity"`; decimal → exact text such as `"12.34"`; text → a string; text that is not UTF-8 or holds
/// a NUL, and byte arrays → `{"base64": "…"}`; timestamp → `{"timestamp": n}`, raw; arrays and tables → the same, nested.
pub fn table_to_json(table: &Table) -> Value {
    Value::Object(table.iter().map(|(name, field)| (without_nul(name), field_to_json(field))).collect())
}

fn field_to_json(field: &Field) -> Value {
    match field {
        Field::Void => Value::Null,
        Field::Boolean(b) => json!(b),
        Field::I8(n) => json!(n),
        Field::U8(n) => json!(n),
        Field::I16(n) => json!(n),
        Field::U16(n) => json!(n),
        Field::I32(n) => json!(n),
        Field::U32(n) => json!(n),
        Field::I64(n) => json!(n),
        Field::F32(n) => float_to_json(f64::from(*n)),
        Field::F64(n) => float_to_json(*n),
        Field::Decimal { scale, value } => json!(decimal_text(*scale, *value)),
        Field::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => json!(text),
            Ok(_) | Err(_) => bytes_to_json(bytes),
        },
        Field::Bytes(bytes) => bytes_to_json(bytes),
        Field::Timestamp(n) => json!({ "timestamp": n }),
        Field::Array(items) => Value::Array(items.iter().map(field_to_json).collect()),
        Field::Table(table) => table_to_json(table),
    }
}

fn bytes_to_json(bytes: &[u8]) -> Value {
    json!({ "base64": BASE64.encode(bytes) })
}

fn float_to_json(n: f64) -> Value {
    if n.is_nan() {
        json!("NaN")
    } else if n.is_infinite() {
        json!(if n > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        json!(n)
    }
}

/// `value / 10^scale` in digits; RabbitMQ carries the value as an unsigned 32-bit number.
fn decimal_text(scale: u8, value: u32) -> String {
    let scale = usize::from(scale);
    if scale == 0 {
        return value.to_string();
    }
    let digits = format!("{value:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{whole}.{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::envelope::tests_support::envelope;

    #[test]
    fn a_plain_message_has_the_providers_keys_first() {
        let mut e = envelope("orders");
        e.properties.message_id = Some("m1".into());
        e.headers.insert("h".into(), Field::Text(b"v".to_vec()));
        let conf = immediate_conf(&e, SubscriptionId(42));
        assert_eq!(
            Value::Object(conf.clone()),
            json!({
                "source": "immediate", "body": "{\"a\": 1}", "headers": {"h": "v"}, "routing_key": "rk", "queue": "orders",
                "subscription_id": 42, "conn_id": "rmq_default", "message_id": "m1", "redelivered": false,
                "properties": {"message_id": "m1"},
            })
        );
        let first: Vec<_> = conf.keys().take(6).map(String::as_str).collect();
        assert_eq!(first, ["source", "body", "headers", "routing_key", "queue", "subscription_id"]);
    }

    #[test]
    fn a_body_that_is_not_text_is_there_twice() {
        for (body, text) in [(&b"\xff\xfea"[..], "\u{fffd}\u{fffd}a"), (&b"a\0b"[..], "a\u{fffd}b")] {
            let mut e = envelope("q");
            e.body = bytes::Bytes::from_static(body);
            let conf = immediate_conf(&e, SubscriptionId(1));
            assert_eq!(conf["body"], text);
            assert_eq!(conf["body_b64"], BASE64.encode(body));
        }
        assert!(!immediate_conf(&envelope("q"), SubscriptionId(1)).contains_key("body_b64"));
    }

    #[test]
    fn every_header_type_has_its_form() {
        let table: Table = [
            ("void", Field::Void),
            ("bool", Field::Boolean(true)),
            ("i64", Field::I64(i64::MIN)),
            ("u32", Field::U32(u32::MAX)),
            ("nan", Field::F64(f64::NAN)),
            ("inf", Field::F32(f32::NEG_INFINITY)),
            ("f", Field::F32(1.5)),
            ("dec", Field::Decimal { scale: 2, value: 5 }),
            ("dec0", Field::Decimal { scale: 0, value: 5 }),
            ("text", Field::Text("é".into())),
            ("bad", Field::Text(vec![0xff])),
            ("nul", Field::Text(vec![0])),
            ("bytes", Field::Bytes(vec![1])),
            ("time", Field::Timestamp(1_700_000_000)),
            ("list", Field::Array(vec![Field::I8(-1), Field::Table(Table::new())])),
        ]
        .into_iter()
        .map(|(name, field)| (name.to_owned(), field))
        .collect();
        assert_eq!(
            table_to_json(&table),
            json!({
                "void": null, "bool": true, "i64": i64::MIN, "u32": u32::MAX, "nan": "NaN", "inf": "-Infinity", "f": 1.5,
                "dec": "0.05", "dec0": "5", "text": "é", "bad": {"base64": "/w=="}, "nul": {"base64": "AA=="},
                "bytes": {"base64": "AQ=="}, "time": {"timestamp": 1_700_000_000}, "list": [-1, {}],
            })
        );
    }
}
