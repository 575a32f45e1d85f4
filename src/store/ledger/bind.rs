//! A delivery and its rows: found or made, all of them in one transaction.

use rusqlite::Connection;

use super::copies::{self, PartBound};
use super::rows::{Of, insert, open_rows, release, resume, seen, take_up_again};
use super::{Bound, BoundMatch, Candidate, NewDelivery, RowId};
use crate::domain::ids::SubscriptionId;
use crate::domain::ledger::{self as rules, Arrival, Binding, Row, State, state_code};
use crate::domain::routing::{self, Verdict};
use crate::domain::run_id::{replay_run_id, run_id};
use crate::domain::settlement::{self, Match, Progress};

/// What the rules say of a delivery and one candidate.
struct Found<'a> {
    of: Of<'a>,
    candidate: &'a Candidate,
    rows: Vec<(RowId, Row)>,
    binding: Binding,
}

impl Found<'_> {
    /// The match that earlier deliveries of the message left.
    fn frozen(&self) -> Option<Match> {
        let progress = match self.binding {
            Binding::New { .. } => return None,
            Binding::Start { .. } | Binding::Replay { .. } => Progress::Unsent,
            Binding::LookUp { .. } => Progress::InDoubt,
            Binding::SettleAgain { outcome, .. } => Progress::Done(outcome),
        };
        let routing::Row { subscription, standing, .. } = self.candidate.row;
        Some(Match { subscription, progress, is_wanted: standing.takes_part() })
    }

    fn row(&self) -> Option<&(RowId, Row)> {
        match self.binding {
            Binding::New { .. } => None,
            Binding::Start { n } | Binding::LookUp { n } | Binding::Replay { n } | Binding::SettleAgain { n, .. } => {
                self.rows.iter().find(|(_, row)| row.n == n)
            }
        }
    }
}

pub(super) fn bind(
    connection: &Connection,
    d: &NewDelivery,
    candidates: &[Candidate],
    now_ms: i64,
) -> rusqlite::Result<Bound> {
    let redelivered = d.redelivered || d.again;
    let has_a_past = redelivered || d.refused_times.is_some();
    let replaced = copies::replaced(connection, d, candidates, now_ms)?;
    if !replaced.is_empty() {
        return Ok(superseded(replaced));
    }
    let beside = match copies::bind_unmatched(connection, d, now_ms)? {
        Some(PartBound::Stale) => return Ok(superseded(Vec::new())),
        Some(PartBound::Row((row, _), _)) => Some(row),
        None => None,
    };
    let mut found = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let of = Of { delivery: d, target: &candidate.target, key: candidate.key.as_ref().unwrap_or(&d.key) };
        let part = d.copy.as_ref().and_then(|header| Some((header, header.part_of(of.target)?)));
        if let Some(part) = part {
            match copies::bind_part(connection, of, part, Some(candidate.row.subscription), now_ms)? {
                PartBound::Stale => return Ok(superseded(Vec::new())),
                PartBound::Row(row, binding) => found.push(Found { of, candidate, rows: vec![row], binding }),
            }
            continue;
        }
        // A row that is not judged to match has something to say only where there may be rows of it.
        if !has_a_past && candidate.row.verdict != Some(Verdict::Match) {
            continue;
        }
        let arrival = Arrival {
            redelivered,
            refused_times: d.refused_times,
            epoch: d.epoch,
            key_kind: of.key.kind(),
            content: &d.content,
        };
        let rows = open_rows(connection, of)?;
        let open: Vec<Row> = rows.iter().map(|(_, row)| row.clone()).collect();
        let binding = rules::bind(&open, seen(connection, of)?, &arrival);
        found.push(Found { of, candidate, rows, binding });
    }
    if found.iter().any(|found| matches!(found.binding, Binding::Replay { .. })) {
        for found in found.iter_mut().filter(|found| matches!(found.binding, Binding::New { .. })) {
            let open: Vec<Row> = found.rows.iter().map(|(_, row)| row.clone()).collect();
            found.binding = rules::started_before(&open).unwrap_or(found.binding.clone());
        }
    }
    let frozen: Vec<Match> = found.iter().filter_map(Found::frozen).collect();
    let routed: Vec<routing::Row> = candidates.iter().map(|candidate| candidate.row).collect();
    let judged = settlement::judge(&frozen, &routed);
    let of = |id: SubscriptionId| found.iter().find(move |found| found.candidate.row.subscription == id);
    for (row, _) in judged.release.iter().filter_map(|id| of(*id)?.row()) {
        release(connection, *row, now_ms)?;
    }
    let matches = judged.matches.iter().filter_map(|one| of(one.subscription));
    let matches = matches.map(|found| keep(connection, found, now_ms)).collect::<rusqlite::Result<_>>()?;
    Ok(Bound { matches, no_match: judged.no_match, superseded: None, beside })
}

fn superseded(rows: Vec<RowId>) -> Bound {
    Bound { matches: Vec::new(), no_match: None, superseded: Some(rows), beside: None }
}

fn keep(connection: &Connection, found: &Found<'_>, now_ms: i64) -> rusqlite::Result<BoundMatch> {
    let Found { of, candidate, binding, .. } = found;
    let (subscription, binding) = (candidate.row.subscription, binding.clone());
    let state = state_code(if candidate.send { State::Sent } else { State::Received }, None);
    let named = |n| run_id(&of.delivery.queue, of.key, if of.key.kind().is_an_id() { 1 } else { n });
    match (&binding, found.row()) {
        (Binding::New { n, .. }, _) => {
            let run_id = named(*n);
            let row = insert(connection, *of, (Some(subscription), *n), state, &run_id, now_ms)?;
            Ok(BoundMatch { subscription, row, binding, run_id })
        }
        (Binding::Replay { n }, known) => {
            let (row, known) = known.expect("the rules name a row they were given");
            let (first, replay) = (if of.key.kind().is_an_id() { 1 } else { *n }, known.replays + 1);
            let run_id = replay_run_id(&of.delivery.queue, of.key, first, replay);
            take_up_again(connection, *row, state, (replay, &run_id), of.delivery.epoch, now_ms)?;
            Ok(BoundMatch { subscription, row: *row, binding, run_id })
        }
        (Binding::Start { n } | Binding::LookUp { n } | Binding::SettleAgain { n, .. }, known) => {
            let (row, known) = known.expect("the rules name a row they were given");
            let run_id = known.run_id.clone().unwrap_or_else(|| named(*n));
            let starts = matches!(binding, Binding::Start { .. });
            resume(connection, *row, starts.then_some(state), of.delivery.epoch, now_ms)?;
            Ok(BoundMatch { subscription, row: *row, binding, run_id })
        }
    }
}
