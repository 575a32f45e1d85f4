//! The `conf` of a DAG run, made from a delivery.
//!
//! The six keys of the Python provider come first and never change their meaning; what we add stands behind them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::content::BodyFile;
use super::encoding::Unpacked;
use super::envelope::Envelope;
use super::fields::{properties_to_json, table_to_json, without_nul};
use super::ids::SubscriptionId;

/// The body of a conf.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// In the conf itself.
    Inline(&'a Unpacked),
    /// In a file.
    File(&'a BodyFile),
}

/// The key of a conf in which the value of the subscription's `dedup_key` stands, only where it was found.
pub const DEDUP_KEY: &str = "dedup_key";

/// The conf of an immediate run. docs/payload.md describes it for those who write DAGs.
///
/// | key | value |
/// |---|---|
/// | `source` | `"immediate"` |
/// | `body` | the unpacked body as text; where it is not UTF-8, or holds a NUL, with U+FFFD in place of what cannot be kept; empty where it is in a file |
/// | `headers` | see [`table_to_json`] |
/// | `routing_key`, `queue` | as delivered |
/// | `subscription_id` | the row id of the subscription |
/// | `body_b64` | the exact unpacked body, only where `body` is not exact |
/// | `body_decoded` | the encodings that were taken off, only where there were some |
/// | `body_problem` | why none was taken off although `content_encoding` names one, only then |
/// | `body_file` | `path`, `size` and `sha256` of the body as published, only where it is in a file |
/// | `conn_id`, `message_id` (or null), `redelivered` | as delivered |
/// | `properties` | the basic properties that are set |
/// | `dedup_key` | see [`DEDUP_KEY`]; added by who knows the subscription's key |
pub fn immediate_conf(envelope: &Envelope, subscription: SubscriptionId, body: Body<'_>) -> Map<String, Value> {
    let raw: &[u8] = match body {
        Body::Inline(unpacked) => &unpacked.body,
        Body::File(_) => b"",
    };
    let text = String::from_utf8_lossy(raw);
    let exact = !text.contains('\0') && std::str::from_utf8(raw).is_ok();
    let mut conf = Map::new();
    let mut put = |key: &str, value: Value| drop(conf.insert(key.to_owned(), value));
    put("source", json!("immediate"));
    put("body", json!(without_nul(&text)));
    put("headers", table_to_json(&envelope.headers));
    put("routing_key", json!(without_nul(&envelope.routing_key)));
    put("queue", json!(envelope.queue.as_str()));
    put("subscription_id", json!(subscription.0));
    if !exact {
        put("body_b64", json!(BASE64.encode(raw)));
    }
    match body {
        Body::Inline(unpacked) => {
            let decoded: Vec<_> = unpacked.encodings.iter().map(|encoding| encoding.code()).collect();
            if !decoded.is_empty() {
                put("body_decoded", json!(decoded));
            }
            if let Some(problem) = &unpacked.problem {
                put("body_problem", json!(without_nul(problem)));
            }
        }
        Body::File(BodyFile { path, size, sha256 }) => {
            put("body_file", json!({"path": path, "size": size, "sha256": sha256}));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::content::{BodyLimits, Content, content};
    use crate::domain::envelope::Field;
    use crate::domain::envelope::tests_support::envelope;

    fn conf_of(envelope: &Envelope) -> Map<String, Value> {
        let Content::Inline(unpacked) = content(envelope, BodyLimits::default()) else { panic!("within the limit") };
        immediate_conf(envelope, SubscriptionId(42), Body::Inline(&unpacked))
    }

    #[test]
    fn a_plain_message_has_the_providers_keys_first() {
        let mut e = envelope("orders");
        e.properties.message_id = Some("m1".into());
        e.headers.insert("h".into(), Field::Text(b"v".to_vec()));
        let conf = conf_of(&e);
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
            let conf = conf_of(&e);
            assert_eq!(conf["body"], text);
            assert_eq!(conf["body_b64"], BASE64.encode(body));
        }
        assert!(!conf_of(&envelope("q")).contains_key("body_b64"));
    }

    #[test]
    fn a_packed_body_is_there_unpacked_and_says_so() {
        let mut e = envelope("q");
        // Four times the letter a as one zstd frame.
        e.body = bytes::Bytes::from_static(b"\x28\xb5\x2f\xfd\x20\x04\x23\x00\x00a");
        e.properties.content_encoding = Some("zstd".into());
        let conf = conf_of(&e);
        assert_eq!((&conf["body"], &conf["body_decoded"]), (&json!("aaaa"), &json!(["zstd"])));
        assert_eq!(conf["properties"], json!({"content_encoding": "zstd"}));
        e.body = bytes::Bytes::from_static(b"plain");
        let conf = conf_of(&e);
        assert_eq!(conf["body"], "plain");
        assert!(conf["body_problem"].as_str().is_some_and(|text| text.starts_with("not zstd: ")), "{conf:?}");
        assert!(!conf.contains_key("body_decoded"));
    }

    #[test]
    fn a_body_in_a_file_is_named_and_not_repeated() {
        let file = BodyFile { path: "/state/files/x.body".into(), size: 7, sha256: "00".into() };
        let conf = immediate_conf(&envelope("q"), SubscriptionId(1), Body::File(&file));
        assert_eq!(conf["body"], "");
        assert_eq!(conf["body_file"], json!({"path": "/state/files/x.body", "size": 7, "sha256": "00"}));
    }

    #[test]
    fn trace_context_is_passed_on_as_it_came() {
        let mut e = envelope("q");
        let trace = [
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("tracestate", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"),
            ("baggage", "userId=Am%C3%A9lie,serverNode=DF%2028"),
        ];
        for (name, value) in trace {
            e.headers.insert(name.into(), Field::Text(value.into()));
        }
        for (name, value) in trace {
            assert_eq!(conf_of(&e)["headers"][name], value);
        }
    }
}
