//! What makes two messages the same by the word of a subscription: its `dedup_key`, and its `on_id_collision`.
//!
//! Read once for a subscription, asked for every message that it takes. A message in which the key cannot be found goes by its
//! message id or its fingerprint, as if there were no such option.

use sha2::{Digest, Sha256};

use super::content::{BodyLimits, Content, content};
use super::envelope::Envelope;
use super::filter::{self, Place, header_text};
use super::key::{DeliveryKey, KeyKind, content_digest};
use super::options::{OnIdCollision, Options};

/// The longest value that is kept as it is, in bytes; as long as a message id can be.
pub const MAX_VALUE: usize = 255;

/// How much of the content's digest stands behind a message id.
const CONTENT_LEN: usize = 16;

/// Where a value is found in a message.
#[derive(Clone, Debug, PartialEq)]
pub enum ValuePlace {
    /// `message_id`.
    MessageId,
    /// `header:NAME`.
    Header(String),
    /// `body:PATH`.
    Body(Place),
}

impl ValuePlace {
    /// Reads the option's text; `None` where it is of another form.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "message_id" {
            return Some(Self::MessageId);
        }
        let (form, name) = text.split_once(':').filter(|(_, name)| !name.is_empty())?;
        match form {
            "header" => Some(Self::Header(name.to_owned())),
            "body" => Place::parse(name).map(Self::Body),
            _ => None,
        }
    }

    /// The value, as text. An empty one tells nothing.
    fn find(&self, envelope: &Envelope, limits: BodyLimits) -> Option<String> {
        let value = match self {
            Self::MessageId => None,
            Self::Header(name) => envelope.headers.get(name).and_then(header_text),
            Self::Body(place) => match content(envelope, limits) {
                Content::Inline(unpacked) => place.find(filter::Content::Bytes(&unpacked.body)),
                Content::File | Content::Refused(_) => None,
            },
        };
        value.filter(|value| !value.is_empty())
    }
}

/// How a subscription tells messages apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identity {
    place: Option<ValuePlace>,
    /// Two contents under one message id are two messages.
    by_content: bool,
}

impl Identity {
    /// As the options say. A `dedup_key` of another form is none.
    pub fn of(options: &Options) -> Self {
        let place = options.dedup_key.as_deref().and_then(ValuePlace::parse);
        Self { place, by_content: options.on_id_collision == OnIdCollision::Run }
    }

    /// The key of a message for this subscription; `None` where that is the message's own.
    ///
    /// The digest of the content stands behind every message id where collisions are to run, not only behind the second one: so
    /// the key follows from the message alone, whatever is remembered of others.
    pub fn key_of(&self, envelope: &Envelope, own: &DeliveryKey, limits: BodyLimits) -> Option<DeliveryKey> {
        if let Some(value) = self.place.as_ref().and_then(|place| place.find(envelope, limits)) {
            return Some(DeliveryKey::new(KeyKind::DedupKey, bounded(value)));
        }
        (self.by_content && own.kind() == KeyKind::MessageId).then(|| {
            let content: String = content_digest(envelope).chars().take(CONTENT_LEN).collect();
            DeliveryKey::new(KeyKind::MessageId, format!("{}_{content}", own.text()))
        })
    }
}

/// A long value, or one that Airflow's database cannot hold, has its digest in its place.
fn bounded(value: String) -> String {
    if value.len() <= MAX_VALUE && !value.contains('\0') {
        return value;
    }
    let digest = Sha256::digest(value.as_bytes());
    digest.iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::domain::envelope::Field;
    use crate::domain::envelope::tests_support::envelope;

    fn key(place: &str, change: impl FnOnce(&mut Envelope)) -> Option<DeliveryKey> {
        let identity = Identity::of(&Options { dedup_key: Some(place.into()), ..Options::default() });
        let mut e = envelope("q");
        change(&mut e);
        identity.key_of(&e, &DeliveryKey::of(&e), BodyLimits::default())
    }

    fn dedup(text: &str) -> Option<DeliveryKey> {
        Some(DeliveryKey::new(KeyKind::DedupKey, text))
    }

    #[test]
    fn the_forms_of_the_option() {
        assert_eq!(ValuePlace::parse("message_id"), Some(ValuePlace::MessageId));
        assert_eq!(ValuePlace::parse("header:a:b"), Some(ValuePlace::Header("a:b".into())));
        assert!(matches!(ValuePlace::parse("body:a.0.b\\.c"), Some(ValuePlace::Body(_))));
        for text in ["", "header:", "body:", "header", "x:y", "body:a\\b"] {
            assert_eq!(ValuePlace::parse(text), None, "{text}");
        }
    }

    #[test]
    fn texts_numbers_and_truth_values_are_keys() {
        let header = |field: Field| key("header:k", |e| drop(e.headers.insert("k".into(), field)));
        assert_eq!(header(Field::Text(b"A-1".to_vec())), dedup("A-1"));
        assert_eq!(header(Field::I32(-7)), dedup("-7"));
        assert_eq!(header(Field::Boolean(true)), dedup("true"));
        let body = |text: &'static str| key("body:order.id", |e| e.body = text.into());
        assert_eq!(body(r#"{"order": {"id": 12345678901234567890123}}"#), dedup("12345678901234567890123"));
        assert_eq!(body(r#"{"order": {"id": "é"}}"#), dedup("é"));
    }

    #[test]
    fn a_message_without_the_key_goes_by_its_own() {
        for field in [Field::Void, Field::Text(Vec::new()), Field::Text(vec![0xff]), Field::Array(Vec::new())] {
            assert_eq!(key("header:k", |e| drop(e.headers.insert("k".into(), field.clone()))), None, "{field:?}");
        }
        for body in ["", "no JSON", "{}", r#"{"id": null}"#, r#"{"id": [1]}"#, r#"{"id": ""}"#, r#"{"id": 1, "id": 2}"#]
        {
            assert_eq!(key("body:id", |e| e.body = body.into()), None, "{body}");
        }
        assert_eq!(
            key("message_id", |e| e.properties.message_id = Some("m".into())),
            None,
            "its own id is the default"
        );
    }

    #[test]
    fn long_values_are_bounded_and_stay_apart() {
        let text =
            |text: String| key("header:k", |e| drop(e.headers.insert("k".into(), Field::Text(text.into())))).unwrap();
        assert_eq!(text("x".repeat(MAX_VALUE)).text(), "x".repeat(MAX_VALUE));
        let (a, b) = (text("x".repeat(300) + "a"), text("x".repeat(300) + "b"));
        assert!(a != b && a.text().len() == 71 && a.text().starts_with("sha256:"));
        assert!(!text("a\0b".into()).text().contains('\0'));
    }

    #[test]
    fn contents_under_one_message_id_are_told_apart_where_that_is_asked_for() {
        let identity = Identity::of(&Options { on_id_collision: OnIdCollision::Run, ..Options::default() });
        let key = |id: Option<&str>, body: &'static str| {
            let mut e = envelope("q");
            (e.properties.message_id, e.body) = (id.map(str::to_owned), body.into());
            identity.key_of(&e, &DeliveryKey::of(&e), BodyLimits::default())
        };
        let (a, b) = (key(Some("m"), "a").unwrap(), key(Some("m"), "b").unwrap());
        assert!(a != b && a.kind() == KeyKind::MessageId && a.text().starts_with("m_") && a.text().len() == 18);
        assert_eq!(key(Some("m"), "a"), Some(a), "whatever came before");
        assert_eq!(key(None, "a"), None, "a fingerprint covers the content");
    }
}
