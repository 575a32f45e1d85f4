//! What a decision may see of a delivery, free of any AMQP library's types.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::ids::{ConnId, DeliveryTag, Epoch, QueueName};

/// A message as it was handed to us.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// The connection it came over.
    pub conn_id: ConnId,
    /// The queue it was consumed from.
    pub queue: QueueName,
    /// The channel's life and the tag in it: together what settles this delivery.
    pub epoch: Epoch,
    /// See [`Envelope::epoch`].
    pub tag: DeliveryTag,
    /// The broker's word that it may have been delivered before.
    pub redelivered: bool,
    /// The exchange it was published to; empty for the default exchange.
    pub exchange: String,
    /// The routing key it was published with.
    pub routing_key: String,
    /// Basic properties, headers left out.
    pub properties: Properties,
    /// The headers table.
    pub headers: Table,
    /// The body as published.
    pub body: Bytes,
}

impl Envelope {
    /// The header in which a quorum queue counts how often the message came back.
    pub fn delivery_count(&self) -> Option<i64> {
        match self.headers.get("x-delivery-count")? {
            Field::I8(count) => Some((*count).into()),
            Field::U8(count) => Some((*count).into()),
            Field::I16(count) => Some((*count).into()),
            Field::U16(count) => Some((*count).into()),
            Field::I32(count) => Some((*count).into()),
            Field::U32(count) => Some((*count).into()),
            Field::I64(count) => Some(*count),
            Field::Void
            | Field::Boolean(_)
            | Field::F32(_)
            | Field::F64(_)
            | Field::Decimal { .. }
            | Field::Text(_)
            | Field::Bytes(_)
            | Field::Timestamp(_)
            | Field::Array(_)
            | Field::Table(_) => None,
        }
    }
}

/// AMQP basic properties (AMQP 0-9-1, class basic), headers left out. Short strings are bytes on the wire; a publisher
/// may send anything, so they are kept as text with every invalid sequence replaced by U+FFFD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the protocol's own")]
pub struct Properties {
    pub content_type: Option<String>,
    pub content_encoding: Option<String>,
    /// 1 = transient, 2 = persistent.
    pub delivery_mode: Option<u8>,
    pub priority: Option<u8>,
    pub correlation_id: Option<String>,
    pub reply_to: Option<String>,
    /// Milliseconds, as text.
    pub expiration: Option<String>,
    pub message_id: Option<String>,
    /// Seconds since the Unix epoch by the protocol's text; publishers send milliseconds and microseconds too.
    pub timestamp: Option<u64>,
    /// The `type` property.
    pub kind: Option<String>,
    pub user_id: Option<String>,
    pub app_id: Option<String>,
    pub cluster_id: Option<String>,
}

/// A field table. Keys are bytes on the wire; invalid UTF-8 is replaced by U+FFFD.
pub type Table = BTreeMap<String, Field>;

/// One value of a field table: every type RabbitMQ knows, with nothing lost.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are the protocol's own")]
pub enum Field {
    Void,
    Boolean(bool),
    I8(i8),
    U8(u8),
    I16(i16),
    U16(u16),
    I32(i32),
    U32(u32),
    I64(i64),
    F32(f32),
    F64(f64),
    /// `value / 10^scale`. The protocol's grammar calls the value unsigned; every client library (pika, pamqp, Java, Go) writes
    /// and reads it signed, and RabbitMQ passes the bits on.
    Decimal {
        scale: u8,
        value: i32,
    },
    /// A long string: usually UTF-8 text, by the protocol any bytes.
    Text(Vec<u8>),
    /// A byte array (`x` on the wire).
    Bytes(Vec<u8>),
    Timestamp(u64),
    Array(Vec<Field>),
    Table(Table),
}

#[cfg(test)]
pub(crate) mod tests_support {
    use super::*;

    /// A plain message: routing key `rk`, body `{"a": 1}`, nothing else set.
    pub(crate) fn envelope(queue: &str) -> Envelope {
        Envelope {
            conn_id: ConnId::new("rmq_default"),
            queue: QueueName::new(queue),
            epoch: Epoch(1),
            tag: DeliveryTag(1),
            redelivered: false,
            exchange: String::new(),
            routing_key: "rk".into(),
            properties: Properties::default(),
            headers: Table::new(),
            body: Bytes::from_static(b"{\"a\": 1}"),
        }
    }
}
