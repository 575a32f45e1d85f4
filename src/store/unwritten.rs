//! Status rows that the file has not taken: the newest of each place, to be written again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, ffi, params};

use super::Store;
use crate::domain::ids::{ConnId, ConsumerTag, SubscriptionId};
use crate::domain::status::{ConnectionStatus, SubscriptionStatus};
use crate::telemetry::events;

/// Whose status it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Subscription(SubscriptionId),
    Connection(ConnId),
}

/// What is to stand there.
#[derive(Clone, Debug)]
pub(super) enum Standing {
    Subscription(SubscriptionStatus, Option<ConsumerTag>),
    Connection(ConnectionStatus),
}

/// A row on its way. `last_error` stays as it was where `None`.
#[derive(Clone, Debug)]
pub(super) struct StatusRow {
    pub(super) standing: Standing,
    pub(super) last_error: Option<String>,
    pub(super) now_ms: i64,
}

/// The newest row of each place that is not known to be in the file.
#[derive(Clone, Default)]
pub(super) struct Unwritten(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    newest: u64,
    rows: BTreeMap<Place, Entry>,
}

struct Entry {
    number: u64,
    row: StatusRow,
    /// The file refused it; else it is on its way.
    refused: bool,
}

impl Unwritten {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the place of an older row, whose error is not lost with it.
    fn add(&self, place: Place, mut row: StatusRow) -> u64 {
        let mut waiting = self.lock();
        waiting.newest += 1;
        let number = waiting.newest;
        let older = waiting.rows.remove(&place);
        row.last_error = row.last_error.or(older.and_then(|older| older.row.last_error));
        waiting.rows.insert(place, Entry { number, row, refused: false });
        number
    }

    /// The row of this number, unless a newer one took its place.
    fn current(&self, place: &Place, number: u64) -> Option<StatusRow> {
        self.lock().rows.get(place).filter(|entry| entry.number == number).map(|entry| entry.row.clone())
    }

    fn ended(&self, place: &Place, number: u64, result: &rusqlite::Result<()>) {
        let mut waiting = self.lock();
        let Some(entry) = waiting.rows.get_mut(place).filter(|entry| entry.number == number) else { return };
        match result {
            Err(error) if !has_no_owner(error) => {
                let was_refused = std::mem::replace(&mut entry.refused, true);
                if !was_refused {
                    tracing::warn!(
                        event = events::STORE_WRITE_FAILED,
                        %error,
                        "the state file refused to record a status: {error}"
                    );
                }
            }
            Ok(()) | Err(_) => drop(waiting.rows.remove(place)),
        }
    }

    fn refused(&self) -> Vec<(Place, u64)> {
        let waiting = self.lock();
        let refused = waiting.rows.iter().filter(|(_, entry)| entry.refused);
        refused.map(|(place, entry)| (place.clone(), entry.number)).collect()
    }
}

/// The subscription is gone: its status never fits.
fn has_no_owner(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(code, _) if code.extended_code == ffi::SQLITE_CONSTRAINT_FOREIGNKEY)
}

impl Store {
    /// Writes the row. Where the file refuses it, it is kept for [`Store::flush_statuses`], until a newer one is there.
    pub(super) async fn keep_status(&self, place: Place, row: StatusRow) {
        let number = self.unwritten.add(place.clone(), row);
        self.write_status(place, number).await;
    }

    /// Writes again what the file has refused.
    pub async fn flush_statuses(&self) {
        for (place, number) in self.unwritten.refused() {
            self.write_status(place, number).await;
        }
    }

    /// Commands run in their order, but a row may have become an older one before its command is handed over: then it is left out.
    async fn write_status(&self, place: Place, number: u64) {
        let (unwritten, to_write) = (self.unwritten.clone(), place.clone());
        let work = move |connection: &Connection| match unwritten.current(&to_write, number) {
            Some(row) => write(connection, &to_write, &row),
            None => Ok(()),
        };
        let unwritten = self.unwritten.clone();
        // A closed store means that the process is stopping: the next start begins with statuses of its own.
        drop(self.send(work, move |result| unwritten.ended(&place, number, &result)).await);
    }
}

fn write(connection: &Connection, place: &Place, row: &StatusRow) -> rusqlite::Result<()> {
    let StatusRow { standing, last_error, now_ms } = row;
    match (place, standing) {
        (Place::Subscription(id), Standing::Subscription(status, tag)) => {
            let sql = "INSERT INTO subscription_status (subscription_id, status, last_error, consumer_tag, updated_at_ms) \
                       VALUES (?1, ?2, ?3, ?4, ?5) \
                       ON CONFLICT (subscription_id) DO UPDATE SET status = excluded.status, \
                           last_error = coalesce(excluded.last_error, last_error), consumer_tag = excluded.consumer_tag, \
                           updated_at_ms = max(excluded.updated_at_ms, updated_at_ms + 1)";
            let tag = tag.as_ref().map(ConsumerTag::as_str);
            connection.prepare_cached(sql)?.execute(params![id.0, status.code(), last_error, tag, now_ms]).map(drop)
        }
        (Place::Connection(conn_id), Standing::Connection(status)) => {
            let sql = "INSERT INTO connection_status (conn_id, status, last_error, updated_at_ms) VALUES (?1, ?2, ?3, ?4) \
                       ON CONFLICT (conn_id) DO UPDATE SET status = excluded.status, \
                           last_error = coalesce(excluded.last_error, last_error), \
                           updated_at_ms = max(excluded.updated_at_ms, updated_at_ms + 1)";
            connection
                .prepare_cached(sql)?
                .execute(params![conn_id.as_str(), status.code(), last_error, now_ms])
                .map(drop)
        }
        (Place::Subscription(_), Standing::Connection(_)) | (Place::Connection(_), Standing::Subscription(..)) => {
            Ok(())
        }
    }
}
