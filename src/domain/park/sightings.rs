//! How often a message was seen, for queues whose broker does not say.
//!
//! A quorum queue counts in `x-delivery-count`, and keeps that across restarts of ours. A classic queue says only
//! `redelivered`; its messages are remembered here by their key, for as long as the process lives. A restart forgets: each
//! message then comes nine times within its first minute again, on a queue that counts nothing against it.

use std::collections::{BTreeMap, HashMap};

use super::MOST_PARKED;

/// So many messages are remembered: all that can be parked, and as many again on their way back and forth.
pub const SIGHTINGS_KEPT: usize = 2 * MOST_PARKED;

/// A memory of the messages seen last, the one seen longest ago forgotten first.
#[derive(Debug)]
pub struct Sightings {
    most: usize,
    clock: u64,
    seen: HashMap<u128, (u32, u64)>,
    order: BTreeMap<u64, u128>,
}

impl Default for Sightings {
    fn default() -> Self {
        Self::with_room(SIGHTINGS_KEPT)
    }
}

impl Sightings {
    /// A memory of at most `most` messages.
    pub fn with_room(most: usize) -> Self {
        Self { most: most.max(1), clock: 0, seen: HashMap::new(), order: BTreeMap::new() }
    }

    /// Notes one sighting and returns how often the message was seen before.
    ///
    /// `counted`: the broker's own count (see [`super::super::budget::returns_so_far`]) and what a copy of the message carries on;
    /// where it is known nothing has to be remembered. A delivery that is not redelivered is a new message, equal to others
    /// or not: it starts from nothing.
    pub fn note(&mut self, key: u128, redelivered: bool, counted: Option<u32>) -> u32 {
        if let Some(counted) = counted {
            return counted;
        }
        self.clock += 1;
        let (before, stamp) = self.seen.get(&key).copied().unwrap_or((0, 0));
        self.order.remove(&stamp);
        self.order.insert(self.clock, key);
        let before = if redelivered { before } else { 0 };
        self.seen.insert(key, (before.saturating_add(1), self.clock));
        while self.order.len() > self.most
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.seen.remove(&oldest);
        }
        before
    }

    /// How many messages are remembered.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}
