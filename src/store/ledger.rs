//! The ledger's rows and the epochs they belong to.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Row as SqlRow, named_params, params};

use super::{Store, StoreError};
use crate::domain::ids::{ConnId, Epoch, QueueName, RunId, SubscriptionId};
use crate::domain::key::{DeliveryKey, KeyKind};
use crate::domain::ledger::{
    self as rules, Arrival, Binding, Outcome, RELEASED, Row, Seen, State, state_code, state_from_code,
};
use crate::domain::routing::{self, NoMatch, Verdict};
use crate::domain::run_id::run_id;
use crate::domain::settlement::{self, Match, Progress};
use crate::telemetry::events;

/// A row of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub i64);

/// The target of a message that is for nobody.
const UNMATCHED: &str = "unmatched";

/// A delivery as the ledger sees it.
#[derive(Clone, Debug)]
pub struct NewDelivery {
    /// The connection it came over.
    pub conn_id: ConnId,
    /// The queue it came from.
    pub queue: QueueName,
    /// Its key.
    pub key: DeliveryKey,
    /// Digest of routing key and body.
    pub content: String,
    /// The broker's word that it may have been delivered before.
    pub redelivered: bool,
    /// It was bound before in this epoch, and its rows were released since.
    pub again: bool,
    /// The epoch it arrived in.
    pub epoch: Epoch,
}

/// A subscription that the delivery may be for, as the rows of its queue say now.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What it starts: `dag:{dag_id}`.
    pub target: String,
    /// What it says of the delivery.
    pub row: routing::Row,
    /// Its request follows at once if nothing was asked for yet: its row is then `sent`, else `received`.
    pub send: bool,
}

/// What a delivery is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Its matches, each with its row.
    pub matches: Vec<BoundMatch>,
    /// What becomes of it where there are none.
    pub no_match: Option<NoMatch>,
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
    /// subscriptions that it matched earlier and does not match any more are released. See [`settlement::judge`].
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
            let sql = "UPDATE ledger SET state = 'sent', updated_at_ms = max(?2, updated_at_ms + 1) WHERE id = ?1";
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
            let sql = "UPDATE ledger SET state = ?2, outcome = ?2, reason = nullif(?3, ''), \
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
            let sql = "UPDATE ledger SET state = 'dropped', outcome = 'dropped', reason = ?2, \
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
            let sql = "UPDATE ledger SET state = 'dlq', outcome = 'dlq', reason = ?2, kept_body = ?3, kept_head = ?4, \
                       updated_at_ms = max(?5, updated_at_ms + 1) WHERE id = ?1";
            connection.prepare_cached(sql)?.execute(params![row.0, reason, body.as_ref(), head, now_ms]).map(drop)
        })
        .await
    }

    /// Keeps a message that no subscription can read and that is about to be rejected, in a row of its own.
    ///
    /// # Errors
    /// Nothing was kept: do not reject.
    pub async fn keep_unread(
        &self,
        delivery: NewDelivery,
        reason: String,
        (head, body): (String, Bytes),
        now_ms: i64,
    ) -> Result<RowId, StoreError> {
        self.call("to keep an unreadable message", move |connection| {
            let d = &delivery;
            let open = open_rows(connection, d, UNMATCHED)?;
            let row = match open.iter().find(|(_, row)| row.epoch < d.epoch && row.state != State::Settled) {
                Some((row, _)) => {
                    resume(connection, *row, None, d.epoch, now_ms)?;
                    *row
                }
                None => {
                    let n = seen(connection, d, UNMATCHED)?.highest + 1;
                    let run_id = run_id(&d.queue, &d.key, n);
                    insert(connection, d, (UNMATCHED, n), state_code(State::Received, None), &run_id, now_ms)?
                }
            };
            let sql = "UPDATE ledger SET state = 'dlq', outcome = 'dlq', reason = ?2, run_id = NULL, kept_body = ?3, kept_head = ?4, \
                       updated_at_ms = max(?5, updated_at_ms + 1) WHERE id = ?1";
            connection.prepare_cached(sql)?.execute(params![row.0, reason, body.as_ref(), head, now_ms])?;
            Ok(row)
        })
        .await
    }

    /// Notes the outcomes of a delivery's rows, and that its verb is about to be sent. Not waited for: the intent covers a crash. A
    /// reason that is known already stays.
    pub async fn send_verb(&self, rows: Vec<(RowId, Outcome, String)>, now_ms: i64) {
        self.tell(VERB_SENT, move |connection| note_verb(connection, &rows, now_ms)).await;
    }

    /// As [`Store::send_verb`], in the file when this returns, where the file takes it. For messages without an id: an equal one that
    /// comes again must not be taken for one that is acknowledged and gone.
    pub async fn send_verb_noted(&self, rows: Vec<(RowId, Outcome, String)>, now_ms: i64) {
        if let Err(error) = self.call(VERB_SENT, move |connection| note_verb(connection, &rows, now_ms)).await {
            tracing::warn!(event = events::STORE_WRITE_FAILED, %error, "the state file refused {VERB_SENT}: {error}");
        }
    }

    /// Notes that the broker has read the verbs of these rows.
    pub async fn settled(&self, rows: Vec<RowId>, now_ms: i64) {
        self.tell("to record settlements", move |connection| {
            let sql = "UPDATE ledger SET state = 'settled', settled_at_ms = ?2, \
                       updated_at_ms = max(?2, updated_at_ms + 1) WHERE id = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            rows.iter().try_for_each(|row| statement.execute(params![row.0, now_ms]).map(drop))
        })
        .await;
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
            connection.prepare_cached(sql)?.execute(named).map(drop)
        })
        .await;
    }
}

/// What the file is asked for with [`note_verb`].
const VERB_SENT: &str = "to record a settlement";

fn note_verb(connection: &Connection, rows: &[(RowId, Outcome, String)], now_ms: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE ledger SET state = ?2, outcome = ?3, reason = coalesce(nullif(?4, ''), reason), \
               updated_at_ms = max(?5, updated_at_ms + 1) WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    rows.iter().try_for_each(|(row, outcome, reason)| {
        let state = state_code(State::VerbSent, Some(*outcome));
        statement.execute(params![row.0, state, outcome.code(), reason, now_ms]).map(drop)
    })
}

/// What the rules say of a delivery and one candidate.
struct Found<'a> {
    candidate: &'a Candidate,
    rows: Vec<(RowId, Row)>,
    binding: Binding,
}

impl Found<'_> {
    /// The match that earlier deliveries of the message left.
    fn frozen(&self) -> Option<Match> {
        let progress = match self.binding {
            Binding::New { .. } => return None,
            Binding::Start { .. } => Progress::Unsent,
            Binding::LookUp { .. } => Progress::InDoubt,
            Binding::SettleAgain { outcome, .. } => Progress::Done(outcome),
        };
        let routing::Row { subscription, standing, .. } = self.candidate.row;
        Some(Match { subscription, progress, is_wanted: standing.takes_part() })
    }

    fn row(&self) -> Option<&(RowId, Row)> {
        match self.binding {
            Binding::New { .. } => None,
            Binding::Start { n } | Binding::LookUp { n } | Binding::SettleAgain { n, .. } => {
                self.rows.iter().find(|(_, row)| row.n == n)
            }
        }
    }
}

fn bind(connection: &Connection, d: &NewDelivery, candidates: &[Candidate], now_ms: i64) -> rusqlite::Result<Bound> {
    let (redelivered, key_kind, content) = (d.redelivered || d.again, d.key.kind(), d.content.as_str());
    let arrival = Arrival { redelivered, epoch: d.epoch, key_kind, content };
    let mut found = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        // A row that is not judged to match has something to say only where there may be rows of it.
        if !redelivered && candidate.row.verdict != Some(Verdict::Match) {
            continue;
        }
        let rows = open_rows(connection, d, &candidate.target)?;
        let open: Vec<Row> = rows.iter().map(|(_, row)| row.clone()).collect();
        let binding = rules::bind(&open, seen(connection, d, &candidate.target)?, &arrival);
        found.push(Found { candidate, rows, binding });
    }
    let frozen: Vec<Match> = found.iter().filter_map(Found::frozen).collect();
    let routed: Vec<routing::Row> = candidates.iter().map(|candidate| candidate.row).collect();
    let judged = settlement::judge(&frozen, &routed);
    let of = |id: SubscriptionId| found.iter().find(move |found| found.candidate.row.subscription == id);
    for (row, _) in judged.release.iter().filter_map(|id| of(*id)?.row()) {
        release(connection, *row, now_ms)?;
    }
    let matches = judged.matches.iter().filter_map(|one| of(one.subscription));
    let matches = matches.map(|found| keep(connection, d, found, now_ms)).collect::<rusqlite::Result<_>>()?;
    Ok(Bound { matches, no_match: judged.no_match })
}

fn keep(connection: &Connection, d: &NewDelivery, found: &Found<'_>, now_ms: i64) -> rusqlite::Result<BoundMatch> {
    let Found { candidate, binding, .. } = found;
    let (subscription, binding) = (candidate.row.subscription, binding.clone());
    let state = state_code(if candidate.send { State::Sent } else { State::Received }, None);
    let named = |n| run_id(&d.queue, &d.key, first_number(d.key.kind(), n));
    match (&binding, found.row()) {
        (Binding::New { n, .. }, _) => {
            let run_id = named(*n);
            let row = insert(connection, d, (&candidate.target, *n), state, &run_id, now_ms)?;
            Ok(BoundMatch { subscription, row, binding, run_id })
        }
        (Binding::Start { n } | Binding::LookUp { n } | Binding::SettleAgain { n, .. }, known) => {
            let (row, known) = known.expect("the rules name a row they were given");
            let run_id = known.run_id.clone().unwrap_or_else(|| named(*n));
            let starts = matches!(binding, Binding::Start { .. });
            resume(connection, *row, starts.then_some(state), d.epoch, now_ms)?;
            Ok(BoundMatch { subscription, row: *row, binding, run_id })
        }
    }
}

fn release(connection: &Connection, row: RowId, now_ms: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE ledger SET epoch = ?2, updated_at_ms = max(?3, updated_at_ms + 1) WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![row.0, RELEASED.0, now_ms]).map(drop)
}

/// Equal message ids are one message and share a run id; equal fingerprints are counted.
fn first_number(kind: KeyKind, n: u32) -> u32 {
    match kind {
        KeyKind::MessageId => 1,
        KeyKind::Fingerprint => n,
    }
}

/// The rows that a redelivery may be bound to. What is settled for good is not read, however much of it there is; a message that was
/// never delivered before needs none.
fn open_rows(connection: &Connection, d: &NewDelivery, target: &str) -> rusqlite::Result<Vec<(RowId, Row)>> {
    const COLUMNS: &str = "SELECT l.id, l.n, l.state, l.outcome, l.run_id, l.epoch, l.is_first_delivery, l.content, \
                                  e.ended_at_ms - l.settled_at_ms";
    const KEY: &str = "l.conn_id = ?1 AND l.queue = ?2 AND l.target = ?3 AND l.key_kind = ?4 AND l.key = ?5";
    if !(d.redelivered || d.again) {
        return Ok(Vec::new());
    }
    let read = |index: &str, end: &str| -> rusqlite::Result<Vec<(RowId, Row)>> {
        let tables = format!("FROM ledger l {index} LEFT JOIN epochs e ON e.id = l.epoch");
        let mut statement = connection.prepare_cached(&format!("{COLUMNS} {tables} WHERE {KEY} AND {end}"))?;
        statement.query_map(key(d, target), read_row)?.collect()
    };
    let mut rows = read("INDEXED BY ledger_unsettled", "l.state <> 'settled'")?;
    if d.key.kind() == KeyKind::MessageId {
        rows.extend(read("", "l.state = 'settled' ORDER BY l.n DESC LIMIT 8")?);
    }
    Ok(rows)
}

/// Three look-ups in the key's index, each of a row or two.
fn seen(connection: &Connection, d: &NewDelivery, target: &str) -> rusqlite::Result<Seen> {
    const KEY: &str = "conn_id = ?1 AND queue = ?2 AND target = ?3 AND key_kind = ?4 AND key = ?5";
    let newest = connection
        .prepare_cached(&format!("SELECT n, content FROM ledger WHERE {KEY} ORDER BY n DESC LIMIT 1"))?
        .query_row(key(d, target), |row| Ok((row.get::<_, u32>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    let Some((highest, content)) = newest else { return Ok(Seen::default()) };
    let has_twins = (d.redelivered || d.again) && {
        let sql = format!("SELECT count(*) > 1 FROM (SELECT 1 FROM ledger WHERE {KEY} AND is_first_delivery LIMIT 2)");
        connection.prepare_cached(&sql)?.query_row(key(d, target), |row| row.get(0))?
    };
    Ok(Seen { highest, has_twins, other_content: content != d.content })
}

fn key<'a>(d: &'a NewDelivery, target: &'a str) -> [&'a str; 5] {
    [d.conn_id.as_str(), d.queue.as_str(), target, d.key.kind().code(), d.key.text()]
}

fn read_row(sql: &SqlRow<'_>) -> rusqlite::Result<(RowId, Row)> {
    let state: String = sql.get(2)?;
    let outcome: Option<String> = sql.get(3)?;
    let row = Row {
        n: sql.get(1)?,
        state: state_from_code(&state).expect("held by a CHECK"),
        outcome: outcome.map(|code| Outcome::from_code(&code).expect("held by a CHECK")),
        run_id: sql.get::<_, Option<String>>(4)?.map(RunId::new),
        epoch: Epoch(sql.get(5)?),
        is_first_delivery: sql.get(6)?,
        content: sql.get(7)?,
        settled_before_end_ms: sql.get(8)?,
    };
    Ok((RowId(sql.get(0)?), row))
}

fn insert(
    connection: &Connection,
    d: &NewDelivery,
    (target, n): (&str, u32),
    state: &str,
    run_id: &RunId,
    now_ms: i64,
) -> rusqlite::Result<RowId> {
    let sql = "INSERT INTO ledger (conn_id, queue, target, key_kind, key, n, state, run_id, epoch, is_first_delivery, \
                                   content, created_at_ms, updated_at_ms) \
               VALUES (:conn_id, :queue, :target, :key_kind, :key, :n, :state, :run_id, :epoch, :first, :content, :now, :now)";
    connection.prepare_cached(sql)?.execute(named_params! {
        ":conn_id": d.conn_id.as_str(), ":queue": d.queue.as_str(), ":target": target,
        ":key_kind": d.key.kind().code(), ":key": d.key.text(), ":n": n, ":state": state, ":run_id": run_id.as_str(),
        ":epoch": d.epoch.0, ":first": !d.redelivered, ":content": d.content, ":now": now_ms,
    })?;
    Ok(RowId(connection.last_insert_rowid()))
}

fn resume(connection: &Connection, row: RowId, state: Option<&str>, epoch: Epoch, now_ms: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE ledger SET epoch = ?2, state = coalesce(?3, state), updated_at_ms = max(?4, updated_at_ms + 1) \
               WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![row.0, epoch.0, state, now_ms]).map(drop)
}

fn take_next_number(connection: &Connection, row: RowId, now_ms: i64) -> rusqlite::Result<RunId> {
    let found = connection
        .prepare_cached("SELECT conn_id, queue, target, key_kind, key FROM ledger WHERE id = ?1")?
        .query_row([row.0], |sql| {
            let text = |column| sql.get::<_, String>(column);
            Ok((text(0)?, text(1)?, text(2)?, text(3)?, text(4)?))
        })
        .optional()?;
    let (conn_id, queue, target, kind, key) = found.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let highest: u32 = connection
        .prepare_cached(
            "SELECT max(n) FROM ledger WHERE conn_id = ?1 AND queue = ?2 AND target = ?3 AND key_kind = ?4 AND key = ?5",
        )?
        .query_row(params![conn_id, queue, target, kind, key], |sql| sql.get(0))?;
    let kind = KeyKind::from_code(&kind).expect("held by a CHECK");
    let n = rules::number_after_clash(highest, kind, now_ms);
    let run_id = run_id(&QueueName::new(queue), &DeliveryKey::new(kind, key), n);
    let sql = "UPDATE ledger SET n = ?2, run_id = ?3, state = 'sent', updated_at_ms = max(?4, updated_at_ms + 1) \
               WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![row.0, n, run_id.as_str(), now_ms])?;
    Ok(run_id)
}
