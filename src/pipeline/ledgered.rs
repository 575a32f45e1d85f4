//! A delivery's row, or the lack of one.
//!
//! Where the state file refuses to take a row (a full disk), a message with an id goes on without: its run id alone keeps it
//! from starting twice. All others are held.

use crate::domain::envelope::Envelope;
use crate::domain::ids::{DagId, RunId};
use crate::domain::key::{DeliveryKey, KeyKind, content_digest};
use crate::domain::ledger::{Binding, Outcome};
use crate::domain::run_id::run_id;
use crate::store::ledger::{NewDelivery, RowId};
use crate::store::{Store, StoreError};

/// A delivery as the ledger knows it.
#[derive(Clone, Debug)]
pub(super) struct Ledgered {
    /// `None`: nothing is recorded of it.
    pub(super) row: Option<RowId>,
    pub(super) binding: Binding,
    pub(super) run_id: RunId,
}

/// Finds or makes the row; see [`Store::bind`].
pub(super) async fn bind(
    store: &Store,
    envelope: &Envelope,
    key: &DeliveryKey,
    dag: &DagId,
    send: bool,
    now_ms: i64,
) -> Result<Ledgered, StoreError> {
    let delivery = NewDelivery {
        conn_id: envelope.conn_id.clone(),
        queue: envelope.queue.clone(),
        target: format!("dag:{dag}"),
        key: key.clone(),
        content: content_digest(envelope),
        redelivered: envelope.redelivered,
        epoch: envelope.epoch,
    };
    match store.bind(delivery, send, now_ms).await {
        Ok(bound) => Ok(Ledgered { row: Some(bound.row), binding: bound.binding, run_id: bound.run_id }),
        Err(error) if key.kind() == KeyKind::Fingerprint => Err(error),
        Err(error) => {
            tracing::debug!(%error, "going on without a row: the message has an id");
            let binding = Binding::New { n: 1, id_collision: false };
            Ok(Ledgered { row: None, binding, run_id: run_id(&envelope.queue, key, 1) })
        }
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

    /// Notes the outcome of a delivery that cannot be settled any more.
    pub(super) async fn decide(&self, store: &Store, outcome: Outcome, reason: String, now_ms: i64) {
        if let Some(row) = self.row {
            store.decide(row, outcome, reason, now_ms).await;
        }
    }

    /// Notes the outcome, and that its verb is about to be sent.
    pub(super) async fn send_verb(&self, store: &Store, outcome: Outcome, reason: String, now_ms: i64) {
        if let Some(row) = self.row {
            store.send_verb(row, outcome, reason, now_ms).await;
        }
    }
}
