//! What went wrong on the way to a run, and which filters said no: for people who ask why. Never waited for.

use rusqlite::params;

use super::ledger::RowId;
use super::{Store, StoreError};
use crate::domain::ids::RunId;
use crate::domain::key::DeliveryKey;

/// Failed attempts that are kept of a row: so many of the first, and of the last.
const FIRST_ATTEMPTS: u32 = 5;
const LAST_ATTEMPTS: u32 = 15;

/// How many judged deliveries are kept.
pub const VERDICTS: u32 = 10_000;

/// A delivery that some subscription did not want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictRow {
    /// When it was judged.
    pub at_ms: i64,
    /// The connection it came over.
    pub conn_id: String,
    /// The queue it came from.
    pub queue: String,
    /// The epoch it arrived in.
    pub epoch: i64,
    /// The broker's word that it may have been delivered before.
    pub redelivered: bool,
    /// Its message id, else its fingerprint.
    pub key: DeliveryKey,
    /// For each subscription what it said and why, as JSON.
    pub said: String,
}

impl Store {
    /// Notes an answer that was no success.
    pub async fn attempt_failed(&self, row: RowId, run_id: RunId, answer: String, now_ms: i64) {
        self.tell("to note a failed attempt", move |connection| {
            let sql = "INSERT INTO attempts (row_id, number, at_ms, run_id, answer) \
                       SELECT ?1, ifnull(max(number), 0) + 1, ?2, ?3, ?4 FROM attempts WHERE row_id = ?1";
            connection.prepare_cached(sql)?.execute(params![row.0, now_ms, run_id.as_str(), answer])?;
            let sql = "DELETE FROM attempts WHERE row_id = ?1 AND number > ?2 AND number <= \
                       (SELECT max(number) FROM attempts WHERE row_id = ?1) - ?3";
            connection.prepare_cached(sql)?.execute(params![row.0, FIRST_ATTEMPTS, LAST_ATTEMPTS]).map(drop)
        })
        .await;
    }

    /// Adds judged deliveries and removes the oldest beyond [`VERDICTS`].
    ///
    /// # Errors
    /// Nothing was written.
    pub async fn add_verdicts(&self, rows: Vec<VerdictRow>) -> Result<(), StoreError> {
        self.call("to note what filters said", move |connection| {
            let sql = "INSERT INTO verdicts (at_ms, conn_id, queue, epoch, redelivered, key_kind, key, said) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let mut insert = connection.prepare_cached(sql)?;
            for row in &rows {
                let VerdictRow { at_ms, conn_id, queue, epoch, redelivered, key, said } = row;
                let (kind, key) = (key.kind().code(), key.text());
                insert.execute(params![at_ms, conn_id, queue, epoch, redelivered, kind, key, said])?;
            }
            let sql = "DELETE FROM verdicts WHERE id <= (SELECT max(id) FROM verdicts) - ?1";
            connection.prepare_cached(sql)?.execute([VERDICTS]).map(drop)
        })
        .await
    }
}
