//! What may stand in a message: every field type, bytes that are no text, depths and sizes out of the ordinary.

use std::collections::BTreeMap;

use lapin::protocol::BasicProperties;
use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable};
use rmq_watcher::domain::envelope::{Envelope, Field, Properties};
use rmq_watcher::ports::{Consumer, Settled, Settler, Verb};

use crate::harness::{next, run_on};
use crate::stage::Stage;
use crate::support::BrokerVersion::{self, V3, V4};
use crate::support::{QueueKind, raw};

/// Consumes one message and acknowledges it.
async fn taken(at: &Stage) -> Envelope {
    let mut consumer = at.attach(1).await;
    let envelope = next(&mut consumer).await;
    let settler = consumer.settler();
    assert_eq!(settler.settle(envelope.tag, Verb::Ack).await, Settled::Sent);
    assert!(settler.barrier().await);
    consumer.close().await;
    envelope
}

fn every_type() -> Vec<(&'static str, AMQPValue, Field)> {
    let mut inner = FieldTable::default();
    inner.insert("deep".into(), AMQPValue::LongString("er".into()));
    let array = vec![AMQPValue::LongInt(1), AMQPValue::Void, AMQPValue::FieldTable(inner.clone())];
    let inner_field = Field::Table(BTreeMap::from([("deep".to_owned(), Field::Text(b"er".to_vec()))]));
    vec![
        ("void", AMQPValue::Void, Field::Void),
        ("bool", AMQPValue::Boolean(true), Field::Boolean(true)),
        ("i8", AMQPValue::ShortShortInt(-8), Field::I8(-8)),
        ("u8", AMQPValue::ShortShortUInt(200), Field::U8(200)),
        ("i16", AMQPValue::ShortInt(-16_000), Field::I16(-16_000)),
        ("u16", AMQPValue::ShortUInt(60_000), Field::U16(60_000)),
        ("i32", AMQPValue::LongInt(i32::MIN), Field::I32(i32::MIN)),
        ("u32", AMQPValue::LongUInt(u32::MAX), Field::U32(u32::MAX)),
        ("i64", AMQPValue::LongLongInt(i64::MIN), Field::I64(i64::MIN)),
        ("f32", AMQPValue::Float(1.5), Field::F32(1.5)),
        ("f64", AMQPValue::Double(-2.25), Field::F64(-2.25)),
        (
            "decimal",
            AMQPValue::DecimalValue(DecimalValue { scale: 2, value: (-12_345_i32).cast_unsigned() }),
            Field::Decimal { scale: 2, value: -12_345 },
        ),
        ("text", AMQPValue::LongString("grüß".into()), Field::Text("grüß".into())),
        ("not-text", AMQPValue::LongString(vec![0xff, 0, 0xfe].into()), Field::Text(vec![0xff, 0, 0xfe])),
        ("bytes", AMQPValue::ByteArray(vec![1, 2, 255].into()), Field::Bytes(vec![1, 2, 255])),
        ("time", AMQPValue::Timestamp(1_700_000_000_000), Field::Timestamp(1_700_000_000_000)),
        (
            "array",
            AMQPValue::FieldArray(FieldArray::from(array)),
            Field::Array(vec![Field::I32(1), Field::Void, inner_field.clone()]),
        ),
        ("table", AMQPValue::FieldTable(inner), inner_field),
    ]
}

#[test]
fn real_every_field_type_and_property_arrives_as_it_was_sent() {
    run_on(V4, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let mut headers = FieldTable::default();
        for (key, value, _) in every_type() {
            headers.insert(key.into(), value);
        }
        let properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_content_encoding("gzip".into())
            .with_headers(headers)
            .with_delivery_mode(2)
            .with_priority(3)
            .with_correlation_id("corr".into())
            .with_reply_to("answers".into())
            .with_expiration("600000".into())
            .with_message_id("id-1".into())
            .with_timestamp(1_700_000_000)
            .with_type("order.created".into())
            .with_user_id("guest".into())
            .with_app_id("shop".into())
            .with_cluster_id("c".into());
        at.client.publish(&at.queue, properties, b"").await;
        let envelope = taken(&at).await;
        for (key, _, field) in every_type() {
            assert_eq!(envelope.headers[key], field, "{key}");
        }
        let text = |t: &str| Some(t.to_owned());
        let expected = Properties {
            content_type: text("application/json"),
            content_encoding: text("gzip"),
            delivery_mode: Some(2),
            priority: Some(3),
            correlation_id: text("corr"),
            reply_to: text("answers"),
            expiration: text("600000"),
            message_id: text("id-1"),
            timestamp: Some(1_700_000_000),
            kind: text("order.created"),
            user_id: text("guest"),
            app_id: text("shop"),
            cluster_id: text("c"),
        };
        assert_eq!(envelope.properties, expected);
        assert!(envelope.body.is_empty());
    });
}

/// Publishes a strange message and then a plain one; both must come, over one connection.
async fn both_come(version: BrokerVersion, flags: u16, properties: &[u8]) -> Envelope {
    let at = Stage::shared(version, QueueKind::Classic).await;
    raw::publish(&at.node, &at.queue, flags, properties, b"strange");
    at.publish("plain").await;
    let mut consumer = at.attach(2).await;
    let strange = next(&mut consumer).await;
    assert_eq!(&strange.body[..], b"strange");
    assert_eq!(&next(&mut consumer).await.body[..], b"plain");
    assert!(consumer.settler().barrier().await);
    assert_eq!(at.source.resolved.get(), 1);
    strange
}

#[test]
fn real_bytes_that_are_no_text_cost_neither_message_nor_connection() {
    run_on(V3, async |version| {
        let value = [b"S".to_vec(), raw::long(&[0xff, 0xfe])].concat();
        let table = [raw::short(b"k\xffy"), value].concat();
        let properties = [raw::long(&table), raw::short(b"caf\xe9"), raw::short(&[0xff; 200])].concat();
        let flags = raw::HEADERS | raw::CORRELATION_ID | raw::TYPE;
        let strange = both_come(version, flags, &properties).await;
        assert_eq!(strange.properties.correlation_id.as_deref(), Some("caf\u{fffd}"));
        // 200 invalid bytes would be 600 bytes of text; a short string holds 255.
        assert_eq!(strange.properties.kind, Some("\u{fffd}".repeat(85)));
        assert_eq!(strange.headers["k\u{fffd}y"], Field::Text(vec![0xff, 0xfe]));
    });
}

#[test]
fn real_headers_nested_without_end_cost_neither_message_nor_process() {
    run_on(V4, async |version| {
        // 20,000 arrays, each in the one before: 100 kB.
        let mut nested = Vec::new();
        for _ in 0..20_000 {
            let inner = std::mem::take(&mut nested);
            nested = prepend_array(inner);
        }
        let table = [raw::short(b"n"), nested].concat();
        let strange = both_come(version, raw::HEADERS, &raw::long(&table)).await;
        let mut depth = 0;
        let mut field = &strange.headers["n"];
        while let Field::Array(items) = field {
            depth += 1;
            let Some(next) = items.first() else { break };
            field = next;
        }
        assert_eq!(depth, 65, "64 levels and the emptied one");
    });
}

/// `A`, a length, the content. Written so that 20,000 calls stay cheap enough: the content is moved, not copied, each time.
fn prepend_array(mut content: Vec<u8>) -> Vec<u8> {
    let mut head = vec![b'A'];
    head.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
    content.splice(..0, head);
    content
}

#[test]
fn real_headers_larger_than_our_frames_arrive() {
    run_on(V3, async |version| {
        let at = Stage::shared(version, QueueKind::Quorum).await;
        let long = vec![b'h'; 100_000];
        let mut headers = FieldTable::default();
        headers.insert("big".into(), AMQPValue::LongString(long.clone().into()));
        for (key, value, _) in every_type() {
            headers.insert(key.into(), value);
        }
        let properties = BasicProperties::default().with_headers(headers).with_message_id("m".into());
        at.client.publish(&at.queue, properties, b"body").await;
        let envelope = taken(&at).await;
        assert_eq!(envelope.headers.len(), every_type().len() + 1);
        assert_eq!(envelope.headers["big"], Field::Text(long));
        for (key, _, field) in every_type() {
            assert_eq!(envelope.headers[key], field, "{key}");
        }
        assert_eq!(envelope.properties.message_id.as_deref(), Some("m"));
        assert_eq!(&envelope.body[..], b"body");
    });
}

#[test]
fn real_large_bodies_arrive_whole() {
    run_on(V3, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        // RabbitMQ 4 takes 16 MiB unless told otherwise.
        let size = if version == V3 { 20 << 20 } else { 15 << 20 };
        let body: Vec<u8> = (0..size).map(|n: u32| n.to_le_bytes()[(n % 3) as usize]).collect();
        at.client.publish(&at.queue, BasicProperties::default(), &body).await;
        let envelope = taken(&at).await;
        assert_eq!(envelope.body.len(), body.len());
        assert!(envelope.body == body, "the body differs");
    });
}
