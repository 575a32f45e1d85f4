//! Messages that were refused and came back: put back from a dead-letter queue, or by a tool of ours.
//!
//! The broker writes into `x-death` which queue a message left and why. One that left this queue as refused, and is here
//! again, goes by the key it had then: its exchange and routing key are those of the way back, so what it had is read from there.

use std::borrow::Cow;

use super::envelope::{Envelope, Field, Table};

/// Our header on a message that is put back. As every header of ours it is no part of a fingerprint.
pub const HEADER: &str = "x-rmq-watcher-replay";

/// What is known of the last time the message left this queue as refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused<'a> {
    /// How often it did, as far as the broker counts that; at least 1.
    pub times: u32,
    /// The exchange it had been published to.
    pub exchange: Option<Cow<'a, str>>,
    /// The routing key it had been published with.
    pub routing_key: Option<Cow<'a, str>>,
    /// Its expiration, which the broker takes off.
    pub expiration: Option<Cow<'a, str>>,
}

/// Whether this message was refused from this very queue before.
pub fn refused_before(envelope: &Envelope) -> Option<Refused<'_>> {
    let once = Refused { times: 1, exchange: None, routing_key: None, expiration: None };
    let by_us = envelope.headers.get(HEADER);
    let by_us = by_us.map(|field| if let Field::Table(table) = field { read(table) } else { once });
    by_us.or_else(|| by_the_broker(envelope))
}

/// Source: RabbitMQ's documentation of dead lettering; entries are unique by queue and reason, and keep exchange and routing keys of
/// the first time.
fn by_the_broker(envelope: &Envelope) -> Option<Refused<'_>> {
    let Some(Field::Array(deaths)) = envelope.headers.get("x-death") else { return None };
    let death = deaths.iter().find_map(|death| {
        let Field::Table(death) = death else { return None };
        let is_this = text(death, "queue").is_some_and(|queue| queue == envelope.queue.as_str());
        (is_this && text(death, "reason").is_some_and(|reason| reason == "rejected")).then_some(death)
    })?;
    Some(read(death))
}

fn read(table: &Table) -> Refused<'_> {
    let first_key = match table.get("routing-keys") {
        Some(Field::Array(keys)) => keys.first().and_then(utf8),
        _ => None,
    };
    let times = match table.get("count") {
        Some(Field::I64(count)) => u32::try_from(*count).unwrap_or(1).max(1),
        _ => 1,
    };
    let expiration = text(table, "original-expiration");
    Refused { times, exchange: text(table, "exchange"), routing_key: first_key, expiration }
}

fn text<'a>(table: &'a Table, name: &str) -> Option<Cow<'a, str>> {
    table.get(name).and_then(utf8)
}

fn utf8(field: &Field) -> Option<Cow<'_, str>> {
    if let Field::Text(bytes) = field { Some(String::from_utf8_lossy(bytes)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::envelope::tests_support::envelope;
    use crate::domain::key::{DeliveryKey, content_digest};

    fn death(queue: &str, reason: &str, count: i64) -> Field {
        let text = |text: &str| Field::Text(text.into());
        Field::Table(Table::from([
            ("queue".to_owned(), text(queue)),
            ("reason".to_owned(), text(reason)),
            ("count".to_owned(), Field::I64(count)),
            ("exchange".to_owned(), text("orders")),
            ("routing-keys".to_owned(), Field::Array(vec![text("eu.new")])),
            ("original-expiration".to_owned(), text("60000")),
        ]))
    }

    fn with(deaths: Vec<Field>) -> Envelope {
        let mut e = envelope("q");
        e.headers.insert("x-death".into(), Field::Array(deaths));
        e
    }

    #[test]
    fn only_a_refusal_from_this_queue_makes_a_replay() {
        let e = with(vec![death("retry", "expired", 4), death("q", "rejected", 2)]);
        let refused = refused_before(&e).map(|refused| (refused.times, refused.exchange.map(Cow::into_owned)));
        assert_eq!(refused, Some((2, Some("orders".into()))));
        for deaths in
            [vec![death("other", "rejected", 1)], vec![death("q", "expired", 1)], vec![Field::Void], Vec::new()]
        {
            assert_eq!(refused_before(&with(deaths.clone())), None, "{deaths:?}");
        }
        let mut ours = envelope("q");
        ours.headers.insert(HEADER.into(), Field::Boolean(true));
        assert_eq!(refused_before(&ours).map(|refused| refused.times), Some(1));
    }

    #[test]
    fn a_replay_has_the_key_that_the_message_had() {
        let mut first = envelope("q");
        (first.exchange, first.routing_key) = ("orders".into(), "eu.new".into());
        first.properties.expiration = Some("60000".into());
        let mut back = with(vec![death("q", "rejected", 1)]);
        back.routing_key = "q".into();
        assert_eq!(DeliveryKey::of(&back), DeliveryKey::of(&first));
        assert_eq!(content_digest(&back), content_digest(&first));
    }
}
