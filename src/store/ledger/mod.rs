//! The ledger's rows and the epochs they belong to.

mod bind;
mod copies;
mod rows;

use bytes::Bytes;
use rusqlite::{Connection, params};

use self::bind::bind;
pub use self::copies::Read;
use self::rows::{keep_message, release, take_next_number};
use super::{Store, StoreError};
use crate::domain::copy::{CopyHeader, UNMATCHED_TARGET};
use crate::domain::ids::{ConnId, Epoch, QueueName, RunId, SubscriptionId};
use crate::domain::key::DeliveryKey;
use crate::domain::ledger::{Binding, Outcome, RELEASED, State, state_code};
use crate::domain::routing::{self, NoMatch};

/// A row of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub i64);

/// The target of a message that is for nobody.
const UNMATCHED: &str = UNMATCHED_TARGET;

/// A delivery as the ledger sees it.
#[derive(Clone, Debug)]
pub struct NewDelivery {
    /// The connection it came over.
    pub conn_id: ConnId,
    /// The queue it came from.
    pub queue: QueueName,
    /// Its own key: of the message, whatever a subscription names.
    pub key: DeliveryKey,
    /// Its message id, where it has one.
    pub message_id: Option<String>,
    /// Digest of routing key and body.
    pub content: String,
    /// The broker's word that it may have been delivered before.
    pub redelivered: bool,
    /// It was bound before in this epoch, and its rows were released since.
    pub again: bool,
    /// It was refused from this queue so often, and put back.
    pub refused_times: Option<u32>,
    /// The epoch it arrived in.
    pub epoch: Epoch,
    /// What it says as a copy, where it is one that is believed.
    pub copy: Option<CopyHeader>,
}

/// A subscription that the delivery may be for, as the rows of its queue say now.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What it starts: `dag:{dag_id}`.
    pub target: String,
    /// The key of its row, where that is not the delivery's own.
    pub key: Option<DeliveryKey>,
    /// What it says of the delivery.
    pub row: routing::Row,
    /// Its request follows at once if nothing was asked for yet: its row is then `sent`, else `received`.
    pub send: bool,
}

impl Candidate {
    /// Its subscription and the key of its row, where that is not the delivery's own.
    pub fn own_key(&self) -> Option<(SubscriptionId, DeliveryKey)> {
        self.key.clone().map(|key| (self.row.subscription, key))
    }
}

/// What a delivery is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Its matches, each with its row.
    pub matches: Vec<BoundMatch>,
    /// What becomes of it where there are none.
    pub no_match: Option<NoMatch>,
    /// A later copy stands for it: it is acknowledged and starts nothing. The rows of which it is the original, if it is one.
    pub superseded: Option<Vec<RowId>>,
    /// A row that it has beside those of its matches: it was for nobody once, and was copied.
    pub beside: Option<RowId>,
}

/// The row of one match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundMatch {
    /// Whose match it is.
    pub subscription: SubscriptionId,
    /// The row's id.
    pub row: RowId,
    /// What the rules said.
    pub binding: Binding,
    /// The run id that this row asks for.
    pub run_id: RunId,
}

impl Store {
    /// Finds or makes the rows of all matches of a delivery, in one transaction, and moves them to its epoch. Rows of
    /// subscriptions that it matched earlier and does not match any more are released. See [`crate::domain::settlement::judge`].
    ///
    /// # Errors
    /// Nothing was recorded.
    pub async fn bind(
        &self,
        delivery: NewDelivery,
        candidates: Vec<Candidate>,
        now_ms: i64,
    ) -> Result<Bound, StoreError> {
        self.call("to record a delivery", move |connection| bind(connection, &delivery, &candidates, now_ms)).await
    }

    /// Notes that the row's run is about to be asked for.
    ///
    /// # Errors
    /// Nothing was recorded: do not ask.
    pub async fn mark_sent(&self, row: RowId, now_ms: i64) -> Result<(), StoreError> {
        self.call("to record a request", move |connection| {
            let sql = "UPDATE ledger SET state = 'sent', sent_at_ms = ?2, updated_at_ms = max(?2, updated_at_ms + 1) WHERE id = ?1";
            connection.prepare_cached(sql)?.execute(params![row.0, now_ms]).map(drop)
        })
        .await
    }

    /// Gives the row the next number of its key and the run id that goes with it; returns that id.
    ///
    /// # Errors
    /// Nothing was recorded: the old number stands.
    pub async fn take_next_number(&self, row: RowId, now_ms: i64) -> Result<RunId, StoreError> {
        self.call("to record a new run id", move |connection| take_next_number(connection, row, now_ms)).await
    }

    /// Notes the outcome of a delivery that cannot be settled any more. Not waited for: the intent covers a crash.
    pub async fn decide(&self, row: RowId, outcome: Outcome, reason: String, now_ms: i64) {
        self.tell("to record an outcome", move |connection| {
            let sql = "UPDATE ledger SET state = ?2, outcome = ?2, reason = nullif(?3, ''), decided_at_ms = ?4, \
                       updated_at_ms = max(?4, updated_at_ms + 1) WHERE id = ?1";
            connection.prepare_cached(sql)?.execute(params![row.0, outcome.code(), reason, now_ms]).map(drop)
        })
        .await;
    }

    /// Records that the message is dropped.
    ///
    /// # Errors
    /// Nothing was recorded: do not acknowledge.
    pub async fn drop_it(&self, row: RowId, reason: String, now_ms: i64) -> Result<(), StoreError> {
        self.call("to record a dropped message", move |connection| {
            let sql = "UPDATE ledger SET state = 'dropped', outcome = 'dropped', reason = ?2, decided_at_ms = ?3, \
                       updated_at_ms = max(?3, updated_at_ms + 1) WHERE id = ?1";
            connection.prepare_cached(sql)?.execute(params![row.0, reason, now_ms]).map(drop)
        })
        .await
    }

    /// Keeps a message that is about to be rejected (its body, and all else of it as JSON), and its outcome with it.
    ///
    /// # Errors
    /// Nothing was kept: do not reject.
    pub async fn keep_refused(
        &self,
        row: RowId,
        reason: String,
        (head, body): (String, Bytes),
        now_ms: i64,
    ) -> Result<(), StoreError> {
        self.call("to keep a refused message", move |connection| {
            let sql = "UPDATE ledger SET state = 'dlq', outcome = 'dlq', reason = ?2, decided_at_ms = ?3, \
                       updated_at_ms = max(?3, updated_at_ms + 1) WHERE id = ?1";
            connection.prepare_cached(sql)?.execute(params![row.0, reason, now_ms])?;
            keep_message(connection, row, (&head, &body), now_ms)
        })
        .await
    }

    /// Keeps a message that no subscription can read, or wants, and that is about to be rejected, in a row of its own: `beside` where
    /// there is one. Without the message only that it was rejected.
    ///
    /// # Errors
    /// Nothing was kept: do not reject.
    pub async fn keep_unread(
        &self,
        (delivery, beside): (NewDelivery, Option<RowId>),
        reason: String,
        message: Option<(String, Bytes)>,
        now_ms: i64,
    ) -> Result<RowId, StoreError> {
        self.call("to keep an unreadable message", move |connection| {
            let row = match beside {
                Some(row) => row,
                None => copies::unmatched_row(connection, &delivery, now_ms)?,
            };
            let sql = "UPDATE ledger SET state = 'dlq', outcome = 'dlq', reason = ?2, run_id = NULL, decided_at_ms = ?3, \
                       updated_at_ms = max(?3, updated_at_ms + 1) WHERE id = ?1";
            connection.prepare_cached(sql)?.execute(params![row.0, reason, now_ms])?;
            if let Some((head, body)) = &message {
                keep_message(connection, row, (head, body), now_ms)?;
            }
            Ok(row)
        })
        .await
    }

    /// Notes the outcomes of a delivery's rows, and that its verb is about to be sent. Not waited for: the intent covers a crash. A
    /// reason that is known already stays.
    pub async fn send_verb(&self, rows: Vec<(RowId, Outcome, String)>, now_ms: i64) {
        self.tell(VERB_SENT, move |connection| note_verb(connection, &rows, now_ms)).await;
    }

    /// As [`Store::send_verb`], in the file when this returns. For messages without an id: an equal one that comes again must not be
    /// taken for one that is acknowledged and gone.
    ///
    /// # Errors
    /// Nothing was recorded: do not send the verb.
    pub async fn send_verb_noted(&self, rows: Vec<(RowId, Outcome, String)>, now_ms: i64) -> Result<(), StoreError> {
        self.call(VERB_SENT, move |connection| note_verb(connection, &rows, now_ms)).await
    }

    /// Notes that the broker has read the verbs of deliveries of these rows.
    pub async fn settled(&self, rows: Vec<(RowId, Read)>, now_ms: i64) {
        self.tell("to record settlements", move |connection| copies::read(connection, &rows, now_ms)).await;
    }

    /// Notes that the delivery of these rows is about to be given back, so that its redelivery binds to them in any epoch.
    ///
    /// # Errors
    /// Nothing was recorded: keep holding.
    pub async fn release(&self, rows: Vec<RowId>, now_ms: i64) -> Result<(), StoreError> {
        self.call("to record a return", move |connection| {
            rows.iter().try_for_each(|row| release(connection, *row, now_ms))
        })
        .await
    }

    /// Begins the life of a channel.
    ///
    /// # Errors
    /// Without a number nothing may be consumed.
    pub async fn open_epoch(&self, conn_id: ConnId, queue: QueueName, now_ms: i64) -> Result<Epoch, StoreError> {
        self.call("to begin a channel", move |connection| {
            let sql = "INSERT INTO epochs (conn_id, queue, opened_at_ms) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(sql)?.execute(params![conn_id.as_str(), queue.as_str(), now_ms])?;
            Ok(Epoch(connection.last_insert_rowid()))
        })
        .await
    }

    /// Takes back a number whose channel never came to be. It is not given out again.
    pub async fn discard_epoch(&self, epoch: Epoch) {
        self.tell("to take back a channel", move |connection| {
            connection.prepare_cached("DELETE FROM epochs WHERE id = ?1")?.execute([epoch.0]).map(drop)
        })
        .await;
    }

    /// Ends the life of a channel.
    pub async fn end_epoch(&self, epoch: Epoch, now_ms: i64) {
        self.tell("to end a channel", move |connection| {
            let sql = "UPDATE epochs SET ended_at_ms = ?2 WHERE id = ?1";
            connection.prepare_cached(sql)?.execute(params![epoch.0, now_ms]).map(drop)
        })
        .await;
    }

    /// Declares every unsettled row of older epochs settled: what they wait for is not in the queue any more. Called when
    /// a message came that was never delivered before, in an epoch so old that whatever was held earlier has come back.
    pub async fn close_older(&self, conn_id: ConnId, queue: QueueName, epoch: Epoch, now_ms: i64) {
        self.tell("to close old rows", move |connection| {
            let sql = "UPDATE ledger SET state = 'settled', settled_at_ms = ?4, updated_at_ms = max(?4, updated_at_ms + 1) \
                       WHERE conn_id = ?1 AND queue = ?2 AND epoch < ?3 AND epoch <> ?5 AND state <> 'settled'";
            let named = params![conn_id.as_str(), queue.as_str(), epoch.0, now_ms, RELEASED.0];
            connection.prepare_cached(sql)?.execute(named)?;
            // An original that was held then is not in the queue either.
            let sql = "UPDATE ledger SET original_open = 0 WHERE conn_id = ?1 AND queue = ?2 AND original_open < ?3 AND original_open <> 0";
            connection.prepare_cached(sql)?.execute(params![conn_id.as_str(), queue.as_str(), epoch.0]).map(drop)
        })
        .await;
    }
}

/// What the file is asked for with [`note_verb`].
const VERB_SENT: &str = "to record a settlement";

fn note_verb(connection: &Connection, rows: &[(RowId, Outcome, String)], now_ms: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE ledger SET state = ?2, outcome = ?3, reason = coalesce(nullif(?4, ''), reason), \
               decided_at_ms = coalesce(decided_at_ms, ?5), updated_at_ms = max(?5, updated_at_ms + 1) WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    rows.iter().try_for_each(|(row, outcome, reason)| {
        let state = state_code(State::VerbSent, Some(*outcome));
        statement.execute(params![row.0, state, outcome.code(), reason, now_ms]).map(drop)
    })
}
