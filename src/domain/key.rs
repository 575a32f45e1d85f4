//! What makes two deliveries "the same message": the key of a ledger row.

use sha2::{Digest, Sha256};

use super::envelope::{Envelope, Field, Properties, Table};
use super::replay::refused_before;
use super::run_id::hex32;

/// Where a key comes from, which decides how far it may be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// The producer's `message_id`: equal ids are the same message, by the producer's word.
    MessageId,
    /// What the subscription's `dedup_key` names: equal values are the same message, by the subscription's word.
    DedupKey,
    /// A digest of everything the producer sent: equal fingerprints may be two messages that look alike.
    Fingerprint,
}

impl KeyKind {
    /// The stable name in rows.
    pub fn code(self) -> &'static str {
        match self {
            Self::MessageId => "message_id",
            Self::DedupKey => "dedup_key",
            Self::Fingerprint => "fingerprint",
        }
    }

    /// The kind of that name.
    pub fn from_code(code: &str) -> Option<Self> {
        [Self::MessageId, Self::DedupKey, Self::Fingerprint].into_iter().find(|kind| kind.code() == code)
    }

    /// Equal keys are one message by somebody's word, and have one run id; equal fingerprints are counted.
    pub fn is_an_id(self) -> bool {
        match self {
            Self::MessageId | Self::DedupKey => true,
            Self::Fingerprint => false,
        }
    }
}

/// The key of a delivery within its connection, queue and target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryKey {
    kind: KeyKind,
    text: String,
}

impl DeliveryKey {
    /// A key read back from where it was kept.
    pub fn new(kind: KeyKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// The key of this delivery: its message id, else its fingerprint. An empty id counts as none, and so does one that
    /// was not valid UTF-8: what replaced its bytes would let different ids look alike.
    pub fn of(envelope: &Envelope) -> Self {
        match &envelope.properties.message_id {
            Some(id) if !id.is_empty() && !id.contains('\u{fffd}') => Self::new(KeyKind::MessageId, id.clone()),
            Some(_) | None => Self::new(KeyKind::Fingerprint, fingerprint(envelope)),
        }
    }

    /// Where it comes from.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The id or the 32 hex digits of the fingerprint.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Digest of what tells two messages under one id apart: routing key and body. Of a message that was refused and came back, those
/// that it had.
pub fn content_digest(envelope: &Envelope) -> String {
    let mut sum = Sum::default();
    let refused = refused_before(envelope);
    let routing_key = refused.as_ref().and_then(|refused| refused.routing_key.as_deref());
    sum.bytes(routing_key.unwrap_or(&envelope.routing_key).as_bytes());
    sum.bytes(&envelope.body);
    sum.finish()
}

/// Headers that the broker or we set, which differ between deliveries of one message.
fn is_set_on_the_way(name: &str) -> bool {
    matches!(name, "x-delivery-count" | "x-acquired-count" | "x-death" | "x-opt-deliver-count")
        || name.starts_with("x-first-death-")
        || name.starts_with("x-last-death-")
        || name.starts_with("x-rmq-watcher")
}

fn fingerprint(envelope: &Envelope) -> String {
    let mut sum = Sum::default();
    let refused = refused_before(envelope);
    let refused = refused.as_ref();
    let exchange = refused.and_then(|refused| refused.exchange.as_deref());
    let routing_key = refused.and_then(|refused| refused.routing_key.as_deref());
    sum.bytes(exchange.unwrap_or(&envelope.exchange).as_bytes());
    sum.bytes(routing_key.unwrap_or(&envelope.routing_key).as_bytes());
    match refused.and_then(|refused| refused.expiration.as_deref()) {
        Some(had) => sum.properties(&Properties { expiration: Some(had.to_owned()), ..envelope.properties.clone() }),
        None => sum.properties(&envelope.properties),
    }
    sum.table(&envelope.headers, is_set_on_the_way);
    sum.bytes(&envelope.body);
    sum.finish()
}

/// A digest in which every part is preceded by its length, so that no two different lists of parts are alike.
#[derive(Default)]
struct Sum(Sha256);

impl Sum {
    fn finish(self) -> String {
        hex32(&self.0.finalize())
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.0.update([tag]);
        self.bytes(bytes);
    }

    fn optional(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.tagged(1, text.as_bytes()),
            None => self.0.update([0]),
        }
    }

    fn properties(&mut self, p: &Properties) {
        for text in [
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
        ] {
            self.optional(text.as_deref());
        }
        for number in [p.delivery_mode.map(u64::from), p.priority.map(u64::from), p.timestamp] {
            self.optional(number.map(|n| n.to_string()).as_deref());
        }
    }

    fn table(&mut self, table: &Table, left_out: fn(&str) -> bool) {
        let fields = || table.iter().filter(|(name, _)| !left_out(name));
        self.0.update((fields().count() as u64).to_be_bytes());
        for (name, field) in fields() {
            self.bytes(name.as_bytes());
            self.field(field);
        }
    }

    fn field(&mut self, field: &Field) {
        match field {
            Field::Void => self.0.update([0]),
            Field::Boolean(b) => self.tagged(1, &[u8::from(*b)]),
            Field::I8(n) => self.tagged(2, &n.to_be_bytes()),
            Field::U8(n) => self.tagged(3, &n.to_be_bytes()),
            Field::I16(n) => self.tagged(4, &n.to_be_bytes()),
            Field::U16(n) => self.tagged(5, &n.to_be_bytes()),
            Field::I32(n) => self.tagged(6, &n.to_be_bytes()),
            Field::U32(n) => self.tagged(7, &n.to_be_bytes()),
            Field::I64(n) => self.tagged(8, &n.to_be_bytes()),
            Field::F32(n) => self.tagged(9, &n.to_be_bytes()),
            Field::F64(n) => self.tagged(10, &n.to_be_bytes()),
            Field::Decimal { scale, value } => {
                self.tagged(11, &[*scale]);
                self.bytes(&value.to_be_bytes());
            }
            Field::Text(bytes) => self.tagged(12, bytes),
            Field::Bytes(bytes) => self.tagged(13, bytes),
            Field::Timestamp(n) => self.tagged(14, &n.to_be_bytes()),
            Field::Array(items) => {
                self.tagged(15, &(items.len() as u64).to_be_bytes());
                items.iter().for_each(|item| self.field(item));
            }
            Field::Table(table) => {
                self.0.update([16]);
                self.table(table, |_| false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::envelope::tests_support::envelope;

    #[test]
    fn a_message_id_is_the_key() {
        let mut e = envelope("q");
        e.properties.message_id = Some("m-1".into());
        assert_eq!(DeliveryKey::of(&e), DeliveryKey::new(KeyKind::MessageId, "m-1"));
    }

    #[test]
    fn an_empty_or_broken_message_id_counts_as_none() {
        for id in ["", "a\u{fffd}b"] {
            let mut e = envelope("q");
            e.properties.message_id = Some(id.into());
            assert_eq!(DeliveryKey::of(&e).kind(), KeyKind::Fingerprint);
        }
    }

    #[test]
    fn the_fingerprint_is_frozen() {
        let mut e = envelope("q");
        e.headers.insert("k".into(), Field::Text(b"v".to_vec()));
        assert_eq!(DeliveryKey::of(&e).text(), "4d4b1fb758bb5ffeada4a1c708752e36");
    }

    #[test]
    fn what_the_broker_adds_on_the_way_changes_nothing() {
        let plain = DeliveryKey::of(&envelope("q"));
        for name in ["x-delivery-count", "x-death", "x-first-death-queue", "x-last-death-reason", "x-rmq-watcher-copy"]
        {
            let mut e = envelope("q");
            e.headers.insert(name.into(), Field::I64(3));
            e.redelivered = true;
            assert_eq!(DeliveryKey::of(&e), plain, "{name}");
        }
    }

    #[test]
    fn every_part_a_producer_sends_counts() {
        let changes: [fn(&mut Envelope); 8] = [
            |e| e.exchange = "x".into(),
            |e| e.routing_key = "rk2".into(),
            |e| e.body = "other".into(),
            |e| e.properties.content_type = Some("a".into()),
            |e| e.properties.priority = Some(1),
            |e| e.properties.timestamp = Some(1),
            |e| drop(e.headers.insert("h".into(), Field::Void)),
            |e| drop(e.headers.insert("h".into(), Field::Array(vec![Field::I8(1)]))),
        ];
        let mut seen = vec![DeliveryKey::of(&envelope("q")).text().to_owned()];
        for change in changes {
            let mut e = envelope("q");
            change(&mut e);
            let text = DeliveryKey::of(&e).text().to_owned();
            assert!(!seen.contains(&text));
            seen.push(text);
        }
    }

    #[test]
    fn content_is_routing_key_and_body_only() {
        let (mut a, mut b) = (envelope("q"), envelope("q"));
        a.headers.insert("h".into(), Field::Void);
        assert_eq!(content_digest(&a), content_digest(&b));
        b.body = "x".into();
        assert_ne!(content_digest(&a), content_digest(&b));
    }
}
