//! A copy of a message whose delivery budget runs out: what is published in its place, and what a delivery that is such a copy
//! is bound to.
//!
//! Serves the data flow. The copy goes to the same queue through the default exchange and carries one header of ours, a
//! table, with what the original had and a copy cannot have, and with the rows that the original was bound to. Must not publish.
//!
//! Invariants (`tests.rs`): a copy taken apart is the original again, with the same key; whatever a stranger writes into the
//! header gives him no more than the message id or the content of his message gives him without it.

use super::envelope::{Envelope, Field, Properties, Table};
use super::ids::RunId;
use super::key::DeliveryKey;
use super::ledger::Outcome;

mod binding;
mod header;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use binding::{Copies, CopyBinding, bind_copy, is_replaced};

/// The name of our header. It begins as all of ours do, so that no fingerprint covers it.
pub const HEADER: &str = "x-rmq-watcher-copy";
/// The target of the row that a copy has where nothing matched.
pub const UNMATCHED_TARGET: &str = "unmatched";
/// Rows that one header may carry.
pub const MOST_PARTS: usize = 64;
/// The highest copy number that is believed.
pub const MOST_COPIES: u32 = 1_000_000;

/// One row that the original was bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The row's target, such as `dag:orders`, or [`UNMATCHED_TARGET`].
    pub target: String,
    /// The row's number among the rows of its key.
    pub n: u32,
    /// The run id that belongs to that number.
    pub run_id: RunId,
    /// How it had ended, where it had.
    pub outcome: Option<Outcome>,
}

/// What a copy says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyHeader {
    /// The key of the original, which its rows are under.
    pub key: DeliveryKey,
    /// The number of this copy, from 1. The original is number 0.
    pub copy: u32,
    /// How often the message was seen before this copy, so that the pauses of a foreign message go on growing.
    pub seen: u32,
    /// The rows; at least one.
    pub parts: Vec<Part>,
}

impl CopyHeader {
    /// The row of a target.
    pub fn part_of(&self, target: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.target == target)
    }
}

/// The message to publish: to the queue it came from, through the default exchange, with confirm and `mandatory`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dressed {
    /// Its properties, without a `user_id`, which the broker would compare with our login.
    pub properties: Properties,
    /// Its headers, ours among them.
    pub headers: Table,
}

/// Headers that act on whoever publishes them, or that the broker makes of what happens to a message: kept inside our own.
fn acts_on_publish(name: &str) -> bool {
    matches!(name, "CC" | "BCC" | "x-death" | "x-delay")
        || name.starts_with("x-first-death-")
        || name.starts_with("x-last-death-")
}

/// Headers that count deliveries: those of the original are no copy's.
fn counts_deliveries(name: &str) -> bool {
    matches!(name, "x-delivery-count" | "x-acquired-count" | "x-opt-deliver-count")
}

/// Makes the copy of a delivery. `original`: as [`undress`] returns it where the delivery is a copy itself.
pub fn dress(original: &Envelope, header: &CopyHeader) -> Dressed {
    let mut properties = original.properties.clone();
    let user_id = properties.user_id.take();
    let (kept, mut headers): (Table, Table) = original
        .headers
        .clone()
        .into_iter()
        .filter(|(name, _)| !counts_deliveries(name) && name != HEADER)
        .partition(|(name, _)| acts_on_publish(name));
    let origin = header::Origin {
        exchange: original.exchange.clone(),
        routing_key: original.routing_key.clone(),
        user_id,
        headers: kept,
    };
    headers.insert(HEADER.to_owned(), Field::Table(header::write(header, &origin)));
    Dressed { properties, headers }
}

/// Why a header of ours is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disbelief {
    /// It is no table of the form we write, or beyond its bounds.
    Form,
    /// The message came through an exchange: ours do not.
    Exchange,
    /// Its key is not the key of this message.
    Key,
    /// A run id in it is not the one that its key and number make.
    RunId,
}

impl Disbelief {
    /// The stable name.
    pub fn code(self) -> &'static str {
        match self {
            Self::Form => "copy_form",
            Self::Exchange => "copy_exchange",
            Self::Key => "copy_key",
            Self::RunId => "copy_run_id",
        }
    }
}

/// What a delivery is.
#[derive(Clone, Debug, PartialEq)]
pub enum Undressed {
    /// An ordinary message.
    Plain,
    /// A copy: the message as the original was, for filters, key and conf; and its header.
    Copy(Box<Envelope>, CopyHeader),
    /// It has a header of ours that is not believed: an ordinary message otherwise.
    Forged(Disbelief),
}

/// Takes a copy apart. Anybody who may publish to the queue may write our header, so it is believed only as far as the
/// message itself bears it out: the key has to be the one that the message has anyway, and run ids follow from it.
///
/// `key_of`: the key of a message. `follows`: whether a row of this message (as the original was) may have that number and run id.
pub fn undress(
    envelope: &Envelope,
    key_of: impl Fn(&Envelope) -> DeliveryKey,
    follows: impl Fn(&Envelope, &Part) -> bool,
) -> Undressed {
    let Some(field) = envelope.headers.get(HEADER) else { return Undressed::Plain };
    let Field::Table(table) = field else { return Undressed::Forged(Disbelief::Form) };
    let Some((read, origin)) = header::read(table) else { return Undressed::Forged(Disbelief::Form) };
    if !envelope.exchange.is_empty() || envelope.routing_key != envelope.queue.as_str() {
        return Undressed::Forged(Disbelief::Exchange);
    }
    let mut original = envelope.clone();
    original.headers.remove(HEADER);
    original.headers.extend(origin.headers);
    original.properties.user_id = origin.user_id;
    (original.exchange, original.routing_key) = (origin.exchange, origin.routing_key);
    if key_of(&original) != read.key {
        return Undressed::Forged(Disbelief::Key);
    }
    if !read.parts.iter().all(|part| follows(&original, part)) {
        return Undressed::Forged(Disbelief::RunId);
    }
    Undressed::Copy(Box::new(original), read)
}
