//! Parking: a delivery that starts nothing now is kept for a pause and then given back, instead of coming straight back
//! thousands of times a second.
//!
//! Serves the data flow. A parked delivery keeps its tag, and no body. Three parts: how long ([`pause`]), how often a message
//! was seen ([`Sightings`]), and what is parked ([`ParkedSet`]), with when its consumer is rolled. Must not send a verb.
//!
//! Invariants (`tests.rs`, `shared_queue_model.rs`): a pause never grows past the ack deadline; the set never holds more
//! than its caps; whatever is parked comes out once; deliveries that come out together keep the order of their queue.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::ids::{DeliveryTag, Epoch};
use super::queue_facts::Limit;
use super::routing::ReturnedFor;

mod sightings;
#[cfg(test)]
mod tests;

pub use sightings::{SIGHTINGS_KEPT, Sightings};

/// The pause of a message that was not seen before.
pub const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause on a queue without a delivery limit.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Parked deliveries of one consumer at most.
pub const MOST_PARKED: usize = 10_000;
/// Bytes of bodies at most that the broker keeps for what is parked, of one consumer.
pub const MOST_PARKED_BYTES: u64 = 64 * 1024 * 1024;

/// How long a message is kept that was seen `seen` times before: 0.1 s, doubled each time, up to 60 s. Where every return
/// may be counted against a limit, up to the ack deadline.
pub fn pause(seen: u32, limit: Limit, ack_deadline: Duration) -> Duration {
    let longest = match limit {
        Limit::None => LONGEST_PAUSE.min(ack_deadline),
        Limit::At(_) | Limit::Unknown => ack_deadline,
    };
    let factor = 1_u32.checked_shl(seen).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(factor).min(longest)
}

/// Of what is parked for want of a match, so many come back in a second at most, however many there are.
const MOST_RETURNS_A_SECOND: u64 = 250;

/// The shortest pause beside so many parked ones. Without it thousands of them at the head of a queue would come back as fast as
/// they can be looked at, and what was never looked at would wait behind them.
pub fn shortest_pause(parked: usize) -> Duration {
    let parked = u64::try_from(parked).unwrap_or(u64::MAX);
    Duration::from_millis(parked.saturating_mul(1000 / MOST_RETURNS_A_SECOND)).min(LONGEST_PAUSE)
}

/// Why a delivery is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// It starts nothing. Counted in the series of misses or errors.
    NoMatch(ReturnedFor),
    /// Its ready matches were started; the others belong to blocked subscriptions, which have their share of the window.
    /// Never counted as a miss.
    Blocked,
}

/// A parked delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parked {
    /// What settles it, in the channel it came from.
    pub tag: DeliveryTag,
    /// The consumer's turn on that channel in which it arrived: see [`ParkedSet::rolled`].
    pub turn: u32,
    /// The size of its body, which the broker keeps.
    pub bytes: u64,
    /// When it is given back, on the clock of the caller.
    pub due_ms: i64,
    /// Why.
    pub why: Why,
}

/// Whether one more delivery can be parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Yes.
    Free,
    /// No: it stays in the window, which is the back-pressure. With so many foreign messages at the head of the queue its
    /// subscriptions are `error: blocked_by_unmatched`.
    Full,
}

/// What is parked on one channel.
#[derive(Debug)]
pub struct ParkedSet {
    epoch: Epoch,
    turn: u32,
    by_tag: HashMap<DeliveryTag, Parked>,
    by_due: BTreeSet<(i64, DeliveryTag)>,
    bytes: u64,
    in_turn: usize,
    unmatched: usize,
}

impl ParkedSet {
    /// Nothing parked, on a channel that was just opened.
    pub fn new(epoch: Epoch) -> Self {
        Self { epoch, turn: 0, by_tag: HashMap::new(), by_due: BTreeSet::new(), bytes: 0, in_turn: 0, unmatched: 0 }
    }

    /// The life of the channel that all its tags belong to. With the channel the set goes: nothing of it can be given back.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The consumer's turn now.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// How many are parked.
    pub fn len(&self) -> usize {
        self.by_tag.len()
    }

    /// Whether nothing is parked.
    pub fn is_empty(&self) -> bool {
        self.by_tag.is_empty()
    }

    /// How many of them count against the window: those that arrived in this turn.
    pub fn in_turn(&self) -> usize {
        self.in_turn
    }

    /// Whether a delivery of so many bytes can be parked. One alone always can.
    pub fn room(&self, bytes: u64) -> Room {
        let is_full = self.len() >= MOST_PARKED || self.bytes.saturating_add(bytes) > MOST_PARKED_BYTES;
        if is_full && !self.is_empty() { Room::Full } else { Room::Free }
    }

    /// Parks a delivery.
    pub fn park(&mut self, one: Parked) {
        self.take(one.tag);
        self.by_due.insert((one.due_ms, one.tag));
        self.bytes = self.bytes.saturating_add(one.bytes);
        self.in_turn += usize::from(one.turn == self.turn);
        self.unmatched += usize::from(is_unmatched(one.why));
        self.by_tag.insert(one.tag, one);
    }

    /// When the next one is due.
    pub fn next_due_ms(&self) -> Option<i64> {
        self.by_due.first().map(|(due_ms, _)| *due_ms)
    }

    /// Takes out what is due, in the order of the queue.
    pub fn take_due(&mut self, now_ms: i64) -> Vec<Parked> {
        let due: Vec<DeliveryTag> =
            self.by_due.iter().take_while(|(due_ms, _)| *due_ms <= now_ms).map(|(_, tag)| *tag).collect();
        self.take_all(due)
    }

    /// Takes out all that the rows of now may judge otherwise, in the order of the queue: called when they change. Each costs
    /// one return, so those whose budget is nearly spent stay to the end of their pause: `may_return` says which.
    pub fn take_for_new_rows(&mut self, may_return: impl Fn(DeliveryTag) -> bool) -> Vec<Parked> {
        let tags = self.by_tag.keys().copied().filter(|tag| may_return(*tag)).collect();
        self.take_all(tags)
    }

    /// Takes out those that wait for blocked subscriptions, in the order of the queue: called when one of these can run
    /// again: `is_for` says which are for it. At most `most`, so that no more come back than the window can take.
    pub fn take_unblocked(&mut self, is_for: impl Fn(DeliveryTag) -> bool, most: usize) -> Vec<Parked> {
        let waits = |one: &&Parked| !is_unmatched(one.why) && is_for(one.tag);
        let mut tags: Vec<_> = self.by_tag.values().filter(waits).map(|one| one.tag).collect();
        tags.sort_unstable();
        tags.truncate(most);
        self.take_all(tags)
    }

    /// The consumer was rolled: what was parked so far does not count against the new one's window.
    pub fn rolled(&mut self) {
        self.turn += 1;
        self.in_turn = 0;
    }

    /// How many foreign messages stand in the way, once one of so many bytes cannot be parked: the status is then
    /// `error: blocked_by_unmatched (n)`, never green.
    pub fn blocked_by_unmatched(&self, bytes: u64) -> Option<usize> {
        (self.room(bytes) == Room::Full).then_some(self.unmatched)
    }

    fn take_all(&mut self, mut tags: Vec<DeliveryTag>) -> Vec<Parked> {
        tags.sort_unstable();
        tags.into_iter().filter_map(|tag| self.take(tag)).collect()
    }

    fn take(&mut self, tag: DeliveryTag) -> Option<Parked> {
        let one = self.by_tag.remove(&tag)?;
        self.by_due.remove(&(one.due_ms, tag));
        self.bytes = self.bytes.saturating_sub(one.bytes);
        self.in_turn -= usize::from(one.turn == self.turn);
        self.unmatched -= usize::from(is_unmatched(one.why));
        Some(one)
    }
}

fn is_unmatched(why: Why) -> bool {
    match why {
        Why::NoMatch(_) => true,
        Why::Blocked => false,
    }
}

/// Whether the consumer is to be rolled now: cancelled, its stream drained to the end, and consumed again with a new tag on
/// the same channel, so that deliveries behind the parked ones arrive.
///
/// `parked_in_turn` fill half the window. `held`: all deliveries that are kept and not parked, of every turn; at the window or
/// above it nothing more is taken. `may_roll`: see [`super::window::may_roll`].
pub fn should_roll(window: u16, parked_in_turn: usize, held: usize, may_roll: bool) -> bool {
    let window = usize::from(window.max(1));
    // With half of the window for blocked deliveries, rounded down, the other half is rounded up.
    may_roll && parked_in_turn >= window.div_ceil(2) && held < window
}
