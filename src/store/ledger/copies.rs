//! What the rows say of the copies of their messages: see [`crate::domain::copy`].
//!
//! `copies_made` is written before a copy is published, `copies_confirmed` once it is surely in the queue. `original_open` holds
//! the epoch in which the original was last held, from the first copy on, until the broker has read the verb for it: so a mark that
//! can mean nothing any more goes with [`Store::close_older`], and none outlasts its message.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::rows::{Of, ROW, WHERE_KEY, insert, keep_message, open_rows, read_row, resume, seen};
use super::{Candidate, NewDelivery, RowId, UNMATCHED};
use crate::domain::copy::{self, Copies, CopyBinding, CopyHeader, Part, is_replaced};
use crate::domain::ids::{Epoch, RunId, SubscriptionId};
use crate::domain::ledger::{Binding, Outcome, Row, State, state_code};
use crate::domain::run_id::{replays_behind, run_id};
use crate::store::{Store, StoreError};

/// What is known of a row once the broker has read the verb of a delivery of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The row is settled; the delivery was no copy.
    Settled,
    /// The row is settled by a copy: whether the original is gone is another question.
    SettledByCopy,
    /// A copy stands for the delivery, which was the original: the row goes on.
    Replaced,
}

impl Store {
    /// Writes down that a copy is about to be published that stands for all of these rows. Returns its number, and the rows as the
    /// copy carries them. `original`: the delivery is no copy itself, and of this epoch.
    ///
    /// # Errors
    /// Nothing was recorded: do not publish.
    pub async fn begin_copy(
        &self,
        rows: Vec<RowId>,
        original: Option<Epoch>,
        now_ms: i64,
    ) -> Result<(u32, Vec<Part>), StoreError> {
        self.call("to record a copy", move |connection| begin_copy(connection, &rows, original, now_ms)).await
    }

    /// Notes that the copy with this number is in the queue. Not waited for: the copy says so itself when it arrives.
    pub async fn confirm_copy(&self, rows: Vec<RowId>, copy: u32, now_ms: i64) {
        self.tell("to record a copy's confirm", move |connection| {
            rows.iter().try_for_each(|row| confirm(connection, *row, copy, now_ms))
        })
        .await;
    }

    /// The row of a message that is for nobody, found or made, in the epoch of the delivery.
    ///
    /// # Errors
    /// Nothing was recorded.
    pub async fn unmatched_row(&self, delivery: NewDelivery, now_ms: i64) -> Result<RowId, StoreError> {
        self.call("to record a message for nobody", move |connection| unmatched_row(connection, &delivery, now_ms))
            .await
    }

    /// Keeps a message whose next return may end it (its body, and all else of it as JSON) in one of its rows, which goes on.
    ///
    /// # Errors
    /// Nothing was kept.
    pub async fn keep_spent(
        &self,
        row: RowId,
        reason: String,
        (head, body): (String, Bytes),
        now_ms: i64,
    ) -> Result<(), StoreError> {
        self.call("to keep a message whose returns are spent", move |connection| {
            let sql = "UPDATE ledger SET reason = coalesce(reason, ?2), updated_at_ms = max(?3, updated_at_ms + 1) WHERE id = ?1";
            connection.prepare_cached(sql)?.execute(params![row.0, reason, now_ms])?;
            keep_message(connection, row, (&head, &body), now_ms)
        })
        .await
    }

    /// Lets go what was kept of these rows, whose message was started after all. Not waited for.
    pub async fn forget_kept(&self, rows: Vec<RowId>) {
        self.tell("to let go a kept message", move |connection| {
            let mut statement = connection.prepare_cached("DELETE FROM kept WHERE row_id = ?1")?;
            rows.iter().try_for_each(|row| statement.execute([row.0]).map(drop))
        })
        .await;
    }

    /// Whether each of these rows has its message kept.
    ///
    /// # Errors
    /// The state file cannot be read.
    pub async fn are_kept(&self, rows: Vec<RowId>) -> Result<bool, StoreError> {
        self.call("to look for a kept message", move |connection| {
            let sql = "SELECT EXISTS (SELECT 1 FROM kept WHERE row_id = ?1)";
            let mut statement = connection.prepare_cached(sql)?;
            for row in rows {
                if !statement.query_row([row.0], |sql| sql.get::<_, bool>(0))? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
        .await
    }
}

fn begin_copy(
    connection: &Connection,
    rows: &[RowId],
    original: Option<Epoch>,
    now_ms: i64,
) -> rusqlite::Result<(u32, Vec<Part>)> {
    let sql = "SELECT target, n, run_id, outcome, copies_made, copies_confirmed FROM ledger WHERE id = ?1";
    let (mut parts, mut number) = (Vec::with_capacity(rows.len()), 1);
    for row in rows {
        let (part, copies) = connection.prepare_cached(sql)?.query_row([row.0], |sql| {
            let run_id = RunId::new(sql.get::<_, Option<String>>(2)?.unwrap_or_default());
            let outcome = sql.get::<_, Option<String>>(3)?;
            let outcome = outcome.map(|code| Outcome::from_code(&code).expect("held by a CHECK"));
            let part = Part { target: sql.get(0)?, n: sql.get(1)?, run_id, outcome };
            Ok((part, Copies { made: sql.get(4)?, confirmed: sql.get(5)?, original_is_open: false }))
        })?;
        parts.push(part);
        number = number.max(copies.next());
    }
    let sql = "UPDATE ledger SET copies_made = ?2, original_open = coalesce(?3, original_open), \
               updated_at_ms = max(?4, updated_at_ms + 1) WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    for row in rows {
        statement.execute(params![row.0, number, original.map(|epoch| epoch.0), now_ms])?;
    }
    Ok((number, parts))
}

fn confirm(connection: &Connection, row: RowId, copy: u32, now_ms: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE ledger SET copies_confirmed = max(copies_confirmed, ?2), updated_at_ms = max(?3, updated_at_ms + 1) \
               WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![row.0, copy, now_ms]).map(drop)
}

/// The rows of which a redelivery without our header is the original that a copy replaced. It is asked before the ledger binds it.
pub(super) fn replaced(
    connection: &Connection,
    d: &NewDelivery,
    candidates: &[Candidate],
    now_ms: i64,
) -> rusqlite::Result<Vec<RowId>> {
    if d.copy.is_some() || !(d.redelivered || d.again) {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    let targets = candidates.iter().map(|candidate| (candidate.target.as_str(), candidate.key.as_ref()));
    for (target, key) in targets.chain([(UNMATCHED, None)]) {
        let of = Of { delivery: d, target, key: key.unwrap_or(&d.key) };
        let sql = format!(
            "SELECT l.id, l.copies_confirmed FROM ledger l INDEXED BY ledger_originals WHERE {WHERE_KEY} AND l.original_open <> 0"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let open: Vec<(RowId, u32)> = statement
            .query_map(of.columns(), |sql| Ok((RowId(sql.get(0)?), sql.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        for (row, confirmed) in open {
            let sql = "UPDATE ledger SET original_open = ?2, updated_at_ms = max(?3, updated_at_ms + 1) WHERE id = ?1";
            connection.prepare_cached(sql)?.execute(params![row.0, d.epoch.0, now_ms])?;
            let copies = Copies { made: confirmed, confirmed, original_is_open: true };
            if is_replaced(copies) && !may_be_a_twin(connection, of)? {
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// Equal messages without an id are told apart by nothing: with more than one row, or where rows are made late, it may be another
/// one than the row's. A double then, rather than a loss.
fn may_be_a_twin(connection: &Connection, of: Of<'_>) -> rusqlite::Result<bool> {
    Ok(!of.key.kind().is_an_id() && (of.target == UNMATCHED || seen(connection, of)?.highest > 1))
}

/// What a copy is bound to.
pub(super) enum PartBound {
    /// A later copy is there.
    Stale,
    /// This row.
    Row((RowId, Row), Binding),
}

/// Binds a copy to the row that one of its parts names, which is made where it is not there, and marks it.
pub(super) fn bind_part(
    connection: &Connection,
    of: Of<'_>,
    (header, part): (&CopyHeader, &Part),
    subscription: Option<SubscriptionId>,
    now_ms: i64,
) -> rusqlite::Result<PartBound> {
    let sql = format!(
        "{ROW}, l.copies_made, l.copies_confirmed, l.original_open <> 0 FROM ledger l LEFT JOIN epochs e ON e.id = l.epoch \
         WHERE {WHERE_KEY} AND l.n = ?6"
    );
    let [conn_id, queue, target, kind, text] = of.columns();
    let found = connection
        .prepare_cached(&sql)?
        .query_row(params![conn_id, queue, target, kind, text, part.n], |sql| {
            let copies = Copies { made: sql.get(10)?, confirmed: sql.get(11)?, original_is_open: sql.get(12)? };
            Ok((read_row(sql)?, copies))
        })
        .optional()?;
    let known = found.as_ref().map(|((_, row), copies)| (row.state, row.outcome, *copies));
    let n = part.n;
    let binding = match copy::bind_copy(part, header.copy, known) {
        CopyBinding::Stale => return Ok(PartBound::Stale),
        CopyBinding::SettleAgain(outcome) => Binding::SettleAgain { n, outcome },
        CopyBinding::Start => Binding::Start { n },
        CopyBinding::LookUp | CopyBinding::Adopt => Binding::LookUp { n },
    };
    let (row, known) = match found {
        Some((known, _)) => known,
        None => adopt(connection, of, (part, subscription), now_ms)?,
    };
    confirm(connection, row, header.copy, now_ms)?;
    Ok(PartBound::Row((row, known), binding))
}

fn adopt(
    connection: &Connection,
    of: Of<'_>,
    (part, subscription): (&Part, Option<SubscriptionId>),
    now_ms: i64,
) -> rusqlite::Result<(RowId, Row)> {
    let state = if part.outcome.is_some() { State::Decided } else { State::Sent };
    let code = state_code(state, part.outcome);
    let row = insert(connection, of, (subscription, part.n), code, &part.run_id, now_ms)?;
    let replays = replays_behind(&of.delivery.queue, of.key, part.n, &part.run_id).unwrap_or(0);
    let sql = "UPDATE ledger SET outcome = ?2, replays = ?3 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![row.0, part.outcome.map(Outcome::code), replays])?;
    let known = Row {
        n: part.n,
        state,
        outcome: part.outcome,
        run_id: Some(part.run_id.clone()),
        epoch: of.delivery.epoch,
        is_first_delivery: false,
        content: of.delivery.content.clone(),
        replays,
        settled_before_end_ms: None,
    };
    Ok((row, known))
}

/// The row that a copy has beside those of its matches: of a message that matched nothing once.
pub(super) fn bind_unmatched(
    connection: &Connection,
    d: &NewDelivery,
    now_ms: i64,
) -> rusqlite::Result<Option<PartBound>> {
    let Some(header) = &d.copy else { return Ok(None) };
    let Some(part) = header.part_of(UNMATCHED) else { return Ok(None) };
    let of = Of { delivery: d, target: UNMATCHED, key: &d.key };
    let bound = bind_part(connection, of, (header, part), None, now_ms)?;
    if let PartBound::Row((row, _), _) = &bound {
        resume(connection, *row, None, d.epoch, now_ms)?;
    }
    Ok(Some(bound))
}

/// The row of a message that matches nothing and has none yet.
pub(super) fn unmatched_row(connection: &Connection, d: &NewDelivery, now_ms: i64) -> rusqlite::Result<RowId> {
    let of = Of { delivery: d, target: UNMATCHED, key: &d.key };
    let open = open_rows(connection, of)?;
    if let Some((row, _)) = open.iter().find(|(_, row)| row.epoch < d.epoch && row.state != State::Settled) {
        resume(connection, *row, None, d.epoch, now_ms)?;
        return Ok(*row);
    }
    let n = seen(connection, of)?.highest + 1;
    insert(connection, of, (None, n), state_code(State::Received, None), &run_id(&d.queue, &d.key, n), now_ms)
}

/// Notes that the broker has read the verbs of deliveries of these rows.
pub(super) fn read(connection: &Connection, rows: &[(RowId, Read)], now_ms: i64) -> rusqlite::Result<()> {
    // What came before a row was taken up again, as of a replay, does not settle it.
    let settled = "UPDATE ledger SET state = 'settled', settled_at_ms = ?2, original_open = original_open * ?3, \
                   updated_at_ms = max(?2, updated_at_ms + 1) \
                   WHERE id = ?1 AND NOT (replays > 0 AND state IN ('received', 'sent'))";
    for (row, read) in rows {
        match read {
            Read::Settled => connection.prepare_cached(settled)?.execute(params![row.0, now_ms, 0])?,
            Read::SettledByCopy => connection.prepare_cached(settled)?.execute(params![row.0, now_ms, 1])?,
            Read::Replaced => {
                let sql =
                    "UPDATE ledger SET original_open = 0, updated_at_ms = max(?2, updated_at_ms + 1) WHERE id = ?1";
                connection.prepare_cached(sql)?.execute(params![row.0, now_ms])?
            }
        };
    }
    Ok(())
}
