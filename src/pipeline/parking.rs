//! Deliveries of one channel that are kept for a pause without a task of their own.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::channel::Held;
use crate::domain::ids::{DeliveryTag, Epoch, SubscriptionId};
use crate::domain::park::{Parked, ParkedSet, Room, Why, shortest_pause};
use crate::ports::Settler;
use crate::store::ledger::RowId;

/// What a delivery that is to be parked leaves behind.
#[derive(Debug)]
pub(super) struct Parking {
    pub(super) why: Why,
    /// The size of its body.
    pub(super) bytes: u64,
    /// How long it stays.
    pub(super) pause: Duration,
    /// New rows do not concern it, unless all that it waits for have gone.
    pub(super) stays: bool,
    /// Its rows: they are released before it goes back.
    pub(super) rows: Vec<RowId>,
    /// The blocked subscriptions that it waits for.
    pub(super) waits_for: Vec<SubscriptionId>,
}

/// A parked delivery that comes out.
pub(super) struct Out<S> {
    pub(super) held: Held<S>,
    pub(super) rows: Vec<RowId>,
    pub(super) waits_for: Vec<SubscriptionId>,
}

/// What is parked on one channel.
pub(super) struct ParkingLot<S> {
    set: ParkedSet,
    since: Instant,
    parked: HashMap<DeliveryTag, (Out<S>, bool)>,
    /// How many of them wait for each subscription.
    waiting: BTreeMap<SubscriptionId, usize>,
    /// There is no room for these: they wait in the window.
    over_full: VecDeque<(Held<S>, Parking)>,
}

impl<S: Settler> ParkingLot<S> {
    pub(super) fn new(epoch: Epoch) -> Self {
        Self {
            set: ParkedSet::new(epoch),
            since: Instant::now(),
            parked: HashMap::new(),
            waiting: BTreeMap::new(),
            over_full: VecDeque::new(),
        }
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.since.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// The consumer's turn now.
    pub(super) fn turn(&self) -> u32 {
        self.set.turn()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.over_full.is_empty()
    }

    /// Parks a delivery of this channel.
    pub(super) fn park(&mut self, held: Held<S>, parking: Parking) {
        if self.set.room(parking.bytes) == Room::Full {
            self.over_full.push_back((held, parking));
            return;
        }
        let Parking { why, bytes, pause, stays, rows, waits_for } = parking;
        let pause = match why {
            Why::NoMatch(_) => pause.max(shortest_pause(self.set.len()).min(held.time_left())),
            Why::Blocked => pause,
        };
        let due_ms = self.now_ms().saturating_add(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
        self.set.park(Parked { tag: held.tag(), turn: held.turn, bytes, due_ms, why });
        for id in &waits_for {
            *self.waiting.entry(*id).or_default() += 1;
        }
        self.parked.insert(held.tag(), (Out { held, rows, waits_for }, stays));
    }

    /// When the next one is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due_ms = u64::try_from(self.set.next_due_ms()?.max(0)).unwrap_or(0);
        Some(self.since + Duration::from_millis(due_ms))
    }

    /// Takes out what is due.
    pub(super) fn take_due(&mut self) -> Vec<Out<S>> {
        let due = self.set.take_due(self.now_ms());
        self.take(due)
    }

    /// Takes out all that new rows may judge otherwise. `takes_part`: by these rows.
    pub(super) fn take_for_new_rows(&mut self, takes_part: impl Fn(SubscriptionId) -> bool) -> Vec<Out<S>> {
        let parked = &self.parked;
        let waits_in_vain = |out: &Out<S>| !out.waits_for.is_empty() && !out.waits_for.iter().any(|id| takes_part(*id));
        let may_return = |(out, stays): &(Out<S>, bool)| !stays || waits_in_vain(out);
        let all = self.set.take_for_new_rows(|tag| parked.get(&tag).is_none_or(may_return));
        self.take(all)
    }

    /// The last delivery that is parked for this subscription.
    pub(super) fn last_for(&self, id: SubscriptionId) -> Option<DeliveryTag> {
        self.parked.iter().filter(|(_, (out, _))| out.waits_for.contains(&id)).map(|(tag, _)| *tag).max()
    }

    /// Whether any is parked for this subscription.
    pub(super) fn has_for(&self, id: SubscriptionId) -> bool {
        self.waiting.contains_key(&id)
    }

    /// Takes out those that were parked for this subscription up to this one, `most` at once.
    pub(super) fn take_unblocked(&mut self, id: SubscriptionId, last: DeliveryTag, most: usize) -> Vec<Out<S>> {
        let parked = &self.parked;
        let is_for = |tag| tag <= last && parked.get(&tag).is_some_and(|(out, _)| out.waits_for.contains(&id));
        let unblocked = self.set.take_unblocked(is_for, most);
        self.take(unblocked)
    }

    fn take(&mut self, tags: Vec<Parked>) -> Vec<Out<S>> {
        let out: Vec<_> = tags.into_iter().filter_map(|one| self.parked.remove(&one.tag)).map(|(out, _)| out).collect();
        for id in out.iter().flat_map(|one| &one.waits_for) {
            if let Some(count) = self.waiting.get_mut(id) {
                *count -= 1;
            }
        }
        self.waiting.retain(|_, count| *count > 0);
        while let Some((_, parking)) = self.over_full.front()
            && self.set.room(parking.bytes) == Room::Free
            && let Some((held, parking)) = self.over_full.pop_front()
        {
            self.park(held, parking);
        }
        out
    }

    /// How many of them count against the window.
    pub(super) fn in_turn(&self) -> usize {
        self.set.in_turn()
    }

    /// Those that wait in the window.
    pub(super) fn over_full(&self) -> usize {
        self.over_full.len()
    }

    /// The consumer was rolled.
    pub(super) fn rolled(&mut self) {
        self.set.rolled();
    }

    /// How many foreign messages stand in the way, where no more can be parked.
    pub(super) fn blocked_by_unmatched(&self) -> Option<usize> {
        let (_, first) = self.over_full.front()?;
        self.set.blocked_by_unmatched(first.bytes)
    }
}
