//! From lapin's delivery to an [`Envelope`]: every field type RabbitMQ knows, nothing lost.
//!
//! What lapin cannot read at all has been repaired before (see `repair`): short strings and keys arrive here as valid text.

use bytes::Bytes;
use lapin::message::Delivery;
use lapin::protocol::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

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
