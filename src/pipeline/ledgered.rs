//! A match's row, or the lack of one.
//!
//! Where the state file refuses to take a row (a full disk), a message with an id goes on without: its run id alone keeps it
//! from starting twice. All others are held.

use super::in_hand::InHand;
use crate::domain::ids::{RunId, SubscriptionId};
use crate::domain::key::{DeliveryKey, content_digest};
use crate::domain::ledger::Binding;
use crate::domain::replay::refused_before;
use crate::domain::routing::{self, NoMatch, Routed, route};
use crate::domain::run_id::run_id;
use crate::store::ledger::{Bound as StoreBound, BoundMatch, Candidate, NewDelivery, RowId};
use crate::store::{Store, StoreError};

/// A match as the ledger knows it.
#[derive(Clone, Debug)]
pub(super) struct Ledgered {
    pub(super) subscription: SubscriptionId,
    /// `None`: nothing is recorded of it.
    pub(super) row: Option<RowId>,
    pub(super) binding: Binding,
    pub(super) run_id: RunId,
    /// What the row, or the run id alone, tells the message by.
    pub(super) key: DeliveryKey,
}

/// What a delivery is bound to.
pub(super) struct Bound {
    pub(super) matches: Vec<Ledgered>,
    pub(super) no_match: Option<NoMatch>,
    /// See [`crate::store::ledger::Bound`].
    pub(super) superseded: Option<Vec<RowId>>,
    pub(super) beside: Option<RowId>,
}

impl Bound {
    fn without_rows(matches: Vec<Ledgered>, no_match: Option<NoMatch>) -> Self {
        Self { matches, no_match, superseded: None, beside: None }
    }
}

/// Finds or makes the rows; see [`Store::bind`]. `again`: they were released in this epoch.
pub(super) async fn bind<S>(
    store: &Store,
    hand: &InHand<S>,
    candidates: Vec<Candidate>,
    again: bool,
    now_ms: i64,
) -> Result<Bound, StoreError> {
    let InHand { envelope, key, copy, .. } = hand;
    let rows: Vec<routing::Row> = candidates.iter().map(|candidate| candidate.row).collect();
    let routed = route(&rows);
    if let (Routed::NoMatch(no_match), false) = (&routed, envelope.redelivered || again || copy.is_some()) {
        return Ok(Bound::without_rows(Vec::new(), Some(*no_match)));
    }
    let delivery = delivery(hand, again);
    let keys: Vec<(SubscriptionId, DeliveryKey)> = candidates.iter().filter_map(Candidate::own_key).collect();
    let key_of = |id| keys.iter().find(|(of, _)| *of == id).map_or(key, |(_, own)| own).clone();
    let are_ids = |started: &[SubscriptionId]| started.iter().all(|id| key_of(*id).kind().is_an_id());
    match (store.bind(delivery, candidates, now_ms).await, routed) {
        (Ok(bound), _) => {
            let recorded = |one: BoundMatch| Ledgered {
                subscription: one.subscription,
                row: Some(one.row),
                key: key_of(one.subscription),
                binding: one.binding,
                run_id: one.run_id,
            };
            let StoreBound { matches, no_match, superseded, beside } = bound;
            Ok(Bound { matches: matches.into_iter().map(recorded).collect(), no_match, superseded, beside })
        }
        (Err(error), Routed::Start(started)) if are_ids(&started) && copy.is_none() => {
            tracing::debug!(%error, "going on without a row: the message has an id");
            let unrecorded = |subscription| {
                let key = key_of(subscription);
                let (binding, run_id) = (Binding::New { n: 1, id_collision: false }, run_id(&envelope.queue, &key, 1));
                Ledgered { subscription, row: None, binding, run_id, key }
            };
            Ok(Bound::without_rows(started.into_iter().map(unrecorded).collect(), None))
        }
        (Err(error), _) => Err(error),
    }
}

/// A delivery as the state file takes it.
pub(super) fn delivery<S>(hand: &InHand<S>, again: bool) -> NewDelivery {
    let InHand { envelope, key, copy, .. } = hand;
    NewDelivery {
        conn_id: envelope.conn_id.clone(),
        queue: envelope.queue.clone(),
        key: key.clone(),
        message_id: envelope.properties.message_id.clone(),
        content: content_digest(envelope),
        redelivered: envelope.redelivered,
        again,
        refused_times: refused_before(envelope).map(|refused| refused.times),
        epoch: envelope.epoch,
        copy: copy.clone(),
    }
}

impl Ledgered {
    /// Notes that the run is about to be asked for.
    pub(super) async fn mark_sent(&self, store: &Store, now_ms: i64) -> Result<(), StoreError> {
        match self.row {
            Some(row) => store.mark_sent(row, now_ms).await,
            None => Ok(()),
        }
    }

    /// Takes the next number of the key. Without a row there is none to count by.
    pub(super) async fn take_next_number(&mut self, store: &Store, now_ms: i64) -> Result<(), StoreError> {
        let row = self.row.ok_or(StoreError::Closed)?;
        self.run_id = store.take_next_number(row, now_ms).await?;
        Ok(())
    }
}
