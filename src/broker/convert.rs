//! From lapin's delivery to an [`Envelope`], and from what is to be published to lapin's properties: every field type RabbitMQ
//! knows, nothing lost.
//!
//! What lapin cannot read at all has been repaired before (see `repair`): short strings and keys arrive here as valid text.

use bytes::Bytes;
use lapin::message::Delivery;
use lapin::protocol::BasicProperties;
use lapin::types::{AMQPValue, DecimalValue, FieldTable, ShortString};

use super::stash::Stash;
use crate::domain::envelope::{Envelope, Field, Properties, Table};
use crate::domain::ids::DeliveryTag;
use crate::ports::AttachOrder;

/// The envelope of a delivery that came over the consumer of `order`.
pub(super) fn envelope(order: &AttachOrder, delivery: Delivery, stash: &Stash) -> Envelope {
    let headers = delivery.properties.headers().as_ref().map(table);
    Envelope {
        conn_id: order.conn_id.clone(),
        queue: order.queue.clone(),
        epoch: order.epoch,
        tag: DeliveryTag(delivery.delivery_tag),
        redelivered: delivery.redelivered,
        exchange: delivery.exchange.into(),
        routing_key: delivery.routing_key.into(),
        properties: properties(&delivery.properties),
        headers: headers.map(|h| stash.redeem(h)).unwrap_or_default(),
        body: Bytes::from(delivery.data),
    }
}

fn properties(p: &BasicProperties) -> Properties {
    Properties {
        content_type: text(p.content_type()),
        content_encoding: text(p.content_encoding()),
        delivery_mode: *p.delivery_mode(),
        priority: *p.priority(),
        correlation_id: text(p.correlation_id()),
        reply_to: text(p.reply_to()),
        expiration: text(p.expiration()),
        message_id: text(p.message_id()),
        timestamp: *p.timestamp(),
        kind: text(p.kind()),
        user_id: text(p.user_id()),
        app_id: text(p.app_id()),
        cluster_id: text(p.cluster_id()),
    }
}

fn text(short: &Option<ShortString>) -> Option<String> {
    short.as_ref().map(|s| s.as_str().to_owned())
}

fn table(of: &FieldTable) -> Table {
    of.into_iter().map(|(key, value)| (key.as_str().to_owned(), field(value))).collect()
}

fn field(value: &AMQPValue) -> Field {
    match value {
        AMQPValue::Void => Field::Void,
        AMQPValue::Boolean(v) => Field::Boolean(*v),
        AMQPValue::ShortShortInt(v) => Field::I8(*v),
        AMQPValue::ShortShortUInt(v) => Field::U8(*v),
        AMQPValue::ShortInt(v) => Field::I16(*v),
        AMQPValue::ShortUInt(v) => Field::U16(*v),
        AMQPValue::LongInt(v) => Field::I32(*v),
        AMQPValue::LongUInt(v) => Field::U32(*v),
        AMQPValue::LongLongInt(v) => Field::I64(*v),
        AMQPValue::Float(v) => Field::F32(*v),
        AMQPValue::Double(v) => Field::F64(*v),
        AMQPValue::DecimalValue(v) => Field::Decimal { scale: v.scale, value: v.value.cast_signed() },
        AMQPValue::ShortString(v) => Field::Text(v.as_str().as_bytes().to_vec()),
        AMQPValue::LongString(v) => Field::Text(v.as_bytes().to_vec()),
        AMQPValue::ByteArray(v) => Field::Bytes(v.as_slice().to_vec()),
        AMQPValue::Timestamp(v) => Field::Timestamp(*v),
        AMQPValue::FieldArray(v) => Field::Array(v.as_slice().iter().map(field).collect()),
        AMQPValue::FieldTable(v) => Field::Table(table(v)),
    }
}

/// The properties of a message that is to be published. `None`: a short string in it is too long to be one.
pub(super) fn properties_of(p: &Properties, headers: &Table) -> Option<BasicProperties> {
    let mut made = BasicProperties::default().with_headers(table_of(headers)?);
    type Set = fn(BasicProperties, ShortString) -> BasicProperties;
    let setters: [(&Option<String>, Set); 10] = [
        (&p.content_type, BasicProperties::with_content_type),
        (&p.content_encoding, BasicProperties::with_content_encoding),
        (&p.correlation_id, BasicProperties::with_correlation_id),
        (&p.reply_to, BasicProperties::with_reply_to),
        (&p.expiration, BasicProperties::with_expiration),
        (&p.message_id, BasicProperties::with_message_id),
        (&p.kind, BasicProperties::with_type),
        (&p.user_id, BasicProperties::with_user_id),
        (&p.app_id, BasicProperties::with_app_id),
        (&p.cluster_id, BasicProperties::with_cluster_id),
    ];
    for (text, set) in setters {
        if let Some(text) = text {
            made = set(made, ShortString::try_new(text.as_str()).ok()?);
        }
    }
    if let Some(mode) = p.delivery_mode {
        made = made.with_delivery_mode(mode);
    }
    if let Some(priority) = p.priority {
        made = made.with_priority(priority);
    }
    if let Some(timestamp) = p.timestamp {
        made = made.with_timestamp(timestamp);
    }
    Some(made)
}

fn table_of(table: &Table) -> Option<FieldTable> {
    let mut made = FieldTable::default();
    for (name, field) in table {
        made.insert(ShortString::try_new(name.as_str()).ok()?, value_of(field)?);
    }
    Some(made)
}

fn value_of(field: &Field) -> Option<AMQPValue> {
    Some(match field {
        Field::Void => AMQPValue::Void,
        Field::Boolean(v) => AMQPValue::Boolean(*v),
        Field::I8(v) => AMQPValue::ShortShortInt(*v),
        Field::U8(v) => AMQPValue::ShortShortUInt(*v),
        Field::I16(v) => AMQPValue::ShortInt(*v),
        Field::U16(v) => AMQPValue::ShortUInt(*v),
        Field::I32(v) => AMQPValue::LongInt(*v),
        Field::U32(v) => AMQPValue::LongUInt(*v),
        Field::I64(v) => AMQPValue::LongLongInt(*v),
        Field::F32(v) => AMQPValue::Float(*v),
        Field::F64(v) => AMQPValue::Double(*v),
        Field::Decimal { scale, value } => {
            AMQPValue::DecimalValue(DecimalValue { scale: *scale, value: value.cast_unsigned() })
        }
        Field::Text(v) => AMQPValue::LongString(v.clone().into()),
        Field::Bytes(v) => AMQPValue::ByteArray(v.clone().into()),
        Field::Timestamp(v) => AMQPValue::Timestamp(*v),
        Field::Array(items) => AMQPValue::FieldArray(items.iter().map(value_of).collect::<Option<Vec<_>>>()?.into()),
        Field::Table(table) => AMQPValue::FieldTable(table_of(table)?),
    })
}

/// The bytes that they need at most in a content header.
pub(super) fn size_of(p: &Properties, headers: &Table) -> usize {
    let texts = [
        &p.content_type,
        &p.content_encoding,
        &p.correlation_id,
        &p.reply_to,
        &p.expiration,
        &p.message_id,
        &p.kind,
        &p.user_id,
        &p.app_id,
        &p.cluster_id,
    ];
    let texts: usize = texts.iter().filter_map(|text| text.as_ref()).map(|text| 1 + text.len()).sum();
    // Mode, priority and timestamp are ten bytes.
    texts + 10 + size_of_table(headers)
}

fn size_of_table(table: &Table) -> usize {
    4 + table.iter().map(|(name, field)| 1 + name.len() + size_of_field(field)).sum::<usize>()
}

/// With the byte that says what it is.
fn size_of_field(field: &Field) -> usize {
    1 + match field {
        Field::Void => 0,
        Field::Boolean(_) | Field::I8(_) | Field::U8(_) => 1,
        Field::I16(_) | Field::U16(_) => 2,
        Field::I32(_) | Field::U32(_) | Field::F32(_) => 4,
        Field::I64(_) | Field::F64(_) | Field::Timestamp(_) => 8,
        Field::Decimal { .. } => 5,
        Field::Text(bytes) | Field::Bytes(bytes) => 4 + bytes.len(),
        Field::Array(items) => 4 + items.iter().map(size_of_field).sum::<usize>(),
        Field::Table(table) => size_of_table(table),
    }
}
