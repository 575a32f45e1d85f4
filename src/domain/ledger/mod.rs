//! The ledger's rules: which row a delivery belongs to, and what Airflow's answer makes of it.
//!
//! One row per (connection, queue, target, key, n). A row is written before its run is asked for, so that whatever dies
//! in between, the redelivery finds it. Rows know in which channel epoch their delivery was last held; a redelivery binds
//! to an unsettled row of an older epoch, and each row is bound at most once per epoch.
//!
//! Held by: the model test (`model.rs`: twins × crash points × broker kills × two watchers) and the tables in `tests.rs`.

use super::ids::{Epoch, RunId};
use super::key::KeyKind;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

/// How far a row has come. In the order of a message's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The delivery is known; nothing was asked of the target.
    Received,
    /// The run id is fixed and the request may be on its way.
    Sent,
    /// The outcome is known; the broker was not told.
    Decided,
    /// The verb that the outcome calls for was sent; the broker may not have read it.
    VerbSent,
    /// A synchronous reply on that channel came after the verb.
    Settled,
}

/// How a row ended for its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// This message started the run.
    Started,
    /// The run was there already, started by this very message or one of the same id.
    Duplicate,
    /// A recorded decision not to start anything.
    Dropped,
    /// The target can never take this message: dead-lettered.
    Dlq,
}

impl Outcome {
    /// The stable name in rows and log lines.
    pub fn code(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Duplicate => "duplicate",
            Self::Dropped => "dropped",
            Self::Dlq => "dlq",
        }
    }

    /// The outcome of that name.
    pub fn from_code(code: &str) -> Option<Self> {
        [Self::Started, Self::Duplicate, Self::Dropped, Self::Dlq].into_iter().find(|outcome| outcome.code() == code)
    }
}

/// The name of a state in rows: the outcome's own name once there is one, as in `docs/architecture.md`.
pub fn state_code(state: State, outcome: Option<Outcome>) -> &'static str {
    match (state, outcome) {
        (State::Received, _) => "received",
        (State::Sent, _) => "sent",
        (State::Decided, Some(outcome)) => outcome.code(),
        (State::Decided, None) => "sent",
        (State::VerbSent, Some(Outcome::Dlq)) => "reject_sent",
        (State::VerbSent, _) => "ack_sent",
        (State::Settled, _) => "settled",
    }
}

/// The state of that name.
pub fn state_from_code(code: &str) -> Option<State> {
    match code {
        "received" => Some(State::Received),
        "sent" => Some(State::Sent),
        "ack_sent" | "reject_sent" => Some(State::VerbSent),
        "settled" => Some(State::Settled),
        other => Outcome::from_code(other).map(|_| State::Decided),
    }
}

/// One row of a key, as far as the rules look at it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Its number among the rows of its key, from 1.
    pub n: u32,
    /// How far it is.
    pub state: State,
    /// Set from [`State::Decided`] on.
    pub outcome: Option<Outcome>,
    /// Fixed from [`State::Sent`] on.
    pub run_id: Option<RunId>,
    /// The epoch its delivery was last held in; [`RELEASED`] once we gave it back.
    pub epoch: Epoch,
    /// It was made by a delivery that was not redelivered. Two such rows of one key are two messages.
    pub is_first_delivery: bool,
    /// Digest of routing key and body.
    pub content: String,
    /// How often the refused message was put back and taken up.
    pub replays: u32,
    /// How long before the end of its epoch it was settled, in milliseconds; `None` while the epoch lives, or where its
    /// end was not seen.
    pub settled_before_end_ms: Option<i64>,
}

/// The epoch of a row whose delivery we gave back ourselves: older than every other.
pub const RELEASED: Epoch = Epoch(0);

/// A classic broker that is killed at once gives back messages whose settlement it had read but not yet written down.
/// Rows settled so shortly before their epoch ended are not believed settled. Tried on 3.10: hundreds came back.
pub const UNSETTLED_BY_KILL_MS: i64 = 5_000;

/// What the rules need to know of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// The broker's word that it may have been delivered before.
    pub redelivered: bool,
    /// It was refused from this queue so often and put back, as far as the broker counts that; `None`: never.
    pub refused_times: Option<u32>,
    /// The epoch it arrived in.
    pub epoch: Epoch,
    /// Where its key comes from.
    pub key_kind: KeyKind,
    /// Digest of routing key and body.
    pub content: &'a str,
}

/// Which row a delivery belongs to and what to do first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    /// A new row with this number.
    New {
        /// Its number.
        n: u32,
        /// Another content was seen under the same message id: worth a WARNING, merged all the same.
        id_collision: bool,
    },
    /// The row `n` of an older epoch, which nothing was asked for yet.
    Start {
        /// Its number.
        n: u32,
    },
    /// The row `n`, whose request may have been carried out: look the run up before asking again.
    LookUp {
        /// Its number.
        n: u32,
    },
    /// The row `n`, which was refused and whose message was put back: start it again, under the run id of its next replay.
    Replay {
        /// Its number.
        n: u32,
    },
    /// The row `n`, whose outcome is known: settle the same way again, start nothing.
    SettleAgain {
        /// Its number.
        n: u32,
        /// Its outcome.
        outcome: Outcome,
    },
}

/// What the rules need to know of all rows of a key, however many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The highest number that was ever given out, rows that were removed included; 0 where there was none.
    pub highest: u32,
    /// Two or more rows were made by deliveries that were not redelivered: two or more messages.
    pub has_twins: bool,
    /// The newest row has another content than the delivery.
    pub other_content: bool,
}

impl Seen {
    /// Counted over all rows of the key. `removed_up_to`: see [`super::retention`].
    pub fn over(rows: &[Row], content: &str, removed_up_to: u32) -> Self {
        let newest = rows.iter().max_by_key(|row| row.n);
        Self {
            highest: newest.map_or(0, |row| row.n).max(removed_up_to),
            has_twins: rows.iter().filter(|row| row.is_first_delivery).count() > 1,
            other_content: newest.is_some_and(|row| row.content != content),
        }
    }
}

/// Finds the row of a delivery among the rows of its key. `open` need hold only those that may be bound: the unsettled ones and,
/// for a message id, those that were settled shortly before their epoch ended.
///
/// - Not redelivered: a new row. A known fingerprint is then a deliberate twin.
/// - Redelivered: the first unsettled row of an older epoch in the order received, sent, decided, verb sent. A verb that
///   was sent usually arrived, and its message does not come again; where a fingerprint is known to have twins, such a row
///   is left alone, since binding a twin to it would lose the twin. It costs a double where the verb did not arrive.
/// - None of these, but a row that was settled in the last [`UNSETTLED_BY_KILL_MS`] of its epoch: that row again where
///   the key is a message id. A fingerprint takes the next number: a counted double rather than a loss.
/// - Refused and put back (a replay): the first refused row, to be started again; of a replay that is redelivered, after the unsettled
///   ones, but for those whose rejection surely arrived. What it does with rows that started something: [`started_before`].
/// - Else a new row.
pub fn bind(open: &[Row], seen: Seen, arrival: &Arrival<'_>) -> Binding {
    if arrival.redelivered
        && let Some(row) = unsettled_of_older_epoch(open, seen, arrival)
    {
        return resume(row);
    }
    if let Some(row) = refused(open, arrival) {
        return Binding::Replay { n: row.n };
    }
    if arrival.redelivered
        && arrival.key_kind.is_an_id()
        && let Some(binding) = open.iter().filter(|row| row.epoch < arrival.epoch).find_map(settled_again)
    {
        return binding;
    }
    let id_collision = arrival.key_kind == KeyKind::MessageId && seen.other_content;
    Binding::New { n: seen.highest + 1, id_collision }
}

fn unsettled_of_older_epoch<'a>(open: &'a [Row], seen: Seen, arrival: &Arrival<'_>) -> Option<&'a Row> {
    let has_twins = seen.has_twins && arrival.key_kind == KeyKind::Fingerprint;
    open.iter()
        .filter(|row| row.epoch < arrival.epoch && row.state != State::Settled)
        .filter(|row| !(has_twins && row.state == State::VerbSent))
        .filter(|row| !is_refused_for_good(row, arrival))
        .min_by_key(|row| (rank(row.state), row.n))
}

/// The first row that was refused, of a message that was refused and put back.
fn refused<'a>(open: &'a [Row], arrival: &Arrival<'_>) -> Option<&'a Row> {
    open.iter().filter(|row| is_refused_for_good(row, arrival)).min_by_key(|row| row.n)
}

/// Whether the rejection of this row arrived at the broker and its message is this one. A delivery that is not redelivered proves
/// it, since it was published anew; of a redelivery the broker's count does, as long as it counts.
///
/// A row whose rejection this very channel has yet to confirm is left alone: the confirmation would settle what was begun anew.
fn is_refused_for_good(row: &Row, arrival: &Arrival<'_>) -> bool {
    let is_told = row.state == State::Settled || row.state == State::VerbSent && row.epoch < arrival.epoch;
    is_told
        && row.outcome == Some(Outcome::Dlq)
        && arrival.refused_times.is_some_and(|times| !arrival.redelivered || times > row.replays)
}

/// The row that a replay leaves as it is: one that started something, or was dropped, beside another target's that was refused.
/// Asked where [`bind`] found no row, and only of a message that has a refused row: of any other one a twin would be lost.
pub fn started_before(open: &[Row]) -> Option<Binding> {
    let told = open.iter().filter(|row| matches!(row.state, State::VerbSent | State::Settled));
    let kept = told.filter_map(|row| Some((row.n, row.outcome.filter(|outcome| *outcome != Outcome::Dlq)?)));
    kept.max_by_key(|(n, _)| *n).map(|(n, outcome)| Binding::SettleAgain { n, outcome })
}

fn rank(state: State) -> u8 {
    match state {
        State::Received => 0,
        State::Sent => 1,
        State::Decided => 2,
        State::VerbSent => 3,
        State::Settled => 4,
    }
}

fn resume(row: &Row) -> Binding {
    let n = row.n;
    match (row.state, row.outcome) {
        (State::Received, _) => Binding::Start { n },
        (_, Some(outcome)) => Binding::SettleAgain { n, outcome },
        (_, None) => Binding::LookUp { n },
    }
}

fn settled_again(row: &Row) -> Option<Binding> {
    let outcome = row.outcome?;
    let late = row.settled_before_end_ms.is_some_and(|ms| ms < UNSETTLED_BY_KILL_MS);
    (row.state == State::Settled && late).then_some(Binding::SettleAgain { n: row.n, outcome })
}

/// Whose run it is that already has our run id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This message's: started by an earlier attempt, or by one of the same id.
    Ours,
    /// Another message's: this one takes the next number.
    Other,
}

/// The number that a row takes when its run id belongs to another message, given the highest of its key.
///
/// A fingerprint whose runs this ledger does not know of (its file was lost, or another watcher counts too) may have had
/// thousands: it goes on from the time in seconds, which is above all of them, instead of asking for each in turn.
pub fn number_after_clash(highest: u32, key_kind: KeyKind, now_ms: i64) -> u32 {
    let next = highest.saturating_add(1);
    match key_kind {
        KeyKind::MessageId | KeyKind::DedupKey => next,
        KeyKind::Fingerprint => next.max(u32::try_from(now_ms / 1_000).unwrap_or(next)),
    }
}

/// What is known when Airflow holds a run under our run id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clash {
    /// This row's request may have been carried out before.
    pub sent_before: bool,
    /// The delivery was redelivered.
    pub redelivered: bool,
    /// Where the key comes from.
    pub key_kind: KeyKind,
    /// What the run's own conf says.
    pub conf: ConfOrigin,
}

/// Whether a run's conf names the connection, queue and message that we hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfOrigin {
    /// It names at least the queue, and all that it names is ours.
    Same,
    /// It names another connection, queue or message id: surely not ours.
    Different,
    /// It names nothing we know (a run made by hand, or an emptied conf).
    Silent,
}

/// Decides whose run it is.
///
/// A conf that names another origin is another message's run, whatever else holds: two brokers may have a queue of one
/// name, and `a__b` + `c` makes the same id as `a` + `b__c`.
pub fn owner(clash: Clash) -> Owner {
    match clash.conf {
        ConfOrigin::Different => Owner::Other,
        ConfOrigin::Same => match clash.key_kind {
            KeyKind::MessageId | KeyKind::DedupKey => Owner::Ours,
            KeyKind::Fingerprint => by_history(clash),
        },
        ConfOrigin::Silent => by_history(clash),
    }
}

/// A redelivery without a row was never asked for by this watcher as far as it knows. Under a message id the run is its
/// own all the same; a fingerprint may have twins, so it takes the next number: a double rather than a loss.
fn by_history(clash: Clash) -> Owner {
    let is_known = match clash.key_kind {
        KeyKind::MessageId | KeyKind::DedupKey => clash.sent_before || clash.redelivered,
        KeyKind::Fingerprint => clash.sent_before,
    };
    if is_known { Owner::Ours } else { Owner::Other }
}
