//! What a delivery's matches together make of it: one settlement for all of them.
//!
//! Serves the data flow. What a delivery matched is frozen with its ledger rows until it is settled; [`judge`] says which
//! matches a delivery has, [`settle`] what is to be done with it now. Both are total and carry nothing out.
//!
//! Invariants (tests below, `shared_queue_model.rs`): nothing is acknowledged unless every match was started or a recorded
//! drop applies; the order of the matches decides nothing; a message that started something is never judged again.

use super::ids::SubscriptionId;
use super::ledger::Outcome;
use super::routing::{NoMatch, Routed, Row, route};

/// How far one match of a delivery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// Its run was surely not asked for, or surely not made.
    Unsent,
    /// Its run may have been made: it is looked up before anything else.
    InDoubt,
    /// Its row has an outcome.
    Done(Outcome),
}

/// One match of a delivery: a subscription, and a row of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// Whose match it is.
    pub subscription: SubscriptionId,
    /// How far it is.
    pub progress: Progress,
    /// The subscription still takes part: it was neither deleted nor disabled meanwhile.
    pub is_wanted: bool,
}

impl Match {
    /// Whether this message has a run of this subscription.
    fn has_started(&self) -> bool {
        match self.progress {
            Progress::Done(Outcome::Started | Outcome::Duplicate) => true,
            Progress::Done(Outcome::Dropped | Outcome::Dlq) | Progress::Unsent | Progress::InDoubt => false,
        }
    }

    fn is_done(&self) -> bool {
        match self.progress {
            Progress::Done(_) => true,
            Progress::Unsent | Progress::InDoubt => false,
        }
    }
}

/// The reason of a recorded drop: the subscription went before its run was asked for, and another one got the message.
pub const SUBSCRIPTION_REMOVED: &str = "subscription removed";

/// What is to be done with a delivery now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Settlement {
    /// Record these as dropped with [`SUBSCRIPTION_REMOVED`], then acknowledge.
    Ack {
        /// Matches whose subscription went.
        drop: Vec<SubscriptionId>,
    },
    /// Record these as dropped, keep the body unless it is safe elsewhere, then dead-letter.
    DeadLetter {
        /// Matches whose subscription went.
        drop: Vec<SubscriptionId>,
    },
    /// Keep it unsettled. All others of its matches are done.
    Hold {
        /// Whose run may have been made already: looked up first.
        look_up: Vec<SubscriptionId>,
        /// Whose run is still to be asked for.
        start: Vec<SubscriptionId>,
    },
    /// Nothing of it was started and a subscription went: [`judge`] it against the rows of now.
    JudgeAgain,
    /// Give it back after a pause.
    Park(NoMatch),
}

/// Decides what to do with a delivery of these matches. `no_match` counts only where there are none.
pub fn settle(matches: &[Match], no_match: Option<NoMatch>) -> Settlement {
    if matches.is_empty() {
        return match no_match {
            Some(NoMatch::Drop) => Settlement::Ack { drop: Vec::new() },
            Some(NoMatch::DeadLetter) => Settlement::DeadLetter { drop: Vec::new() },
            Some(returned @ NoMatch::Return(_)) => Settlement::Park(returned),
            None => Settlement::JudgeAgain,
        };
    }
    let ids = |wanted: &dyn Fn(&Match) -> bool| -> Vec<SubscriptionId> {
        matches.iter().filter(|one| wanted(one)).map(|one| one.subscription).collect()
    };
    let look_up = ids(&|one| one.progress == Progress::InDoubt);
    let start = ids(&|one| one.progress == Progress::Unsent && one.is_wanted);
    let gone = ids(&|one| one.progress == Progress::Unsent && !one.is_wanted);
    if !look_up.is_empty() || !start.is_empty() {
        return Settlement::Hold { look_up, start };
    }
    let is_refused = matches.iter().any(|one| one.progress == Progress::Done(Outcome::Dlq));
    if !gone.is_empty() && !matches.iter().any(Match::has_started) {
        return Settlement::JudgeAgain;
    }
    if is_refused { Settlement::DeadLetter { drop: gone } } else { Settlement::Ack { drop: gone } }
}

/// Which matches a delivery has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Judged {
    /// They are frozen with it until it is settled.
    pub matches: Vec<Match>,
    /// What becomes of it where there are none.
    pub no_match: Option<NoMatch>,
    /// Rows of matches that it has no more. Nothing was asked for them: they are marked as given back, so that the message
    /// finds them again should their subscription return. Never recorded as dropped: that would settle it for good.
    pub release: Vec<SubscriptionId>,
}

/// Judges a delivery against the rows of its queue, given what earlier deliveries of the message left in the ledger (or
/// its copy carries): nothing at first.
///
/// - Something was started or may have been: what it matched then is what it matches now.
/// - Else an outcome that is recorded stays; all else is as the filters of now say.
pub fn judge(frozen: &[Match], rows: &[Row]) -> Judged {
    let is_bound = |one: &Match| one.has_started() || one.progress == Progress::InDoubt;
    if frozen.iter().any(is_bound) {
        return Judged { matches: frozen.to_vec(), no_match: None, release: Vec::new() };
    }
    let (mut matches, open): (Vec<Match>, Vec<Match>) = frozen.iter().partition(|one| one.is_done());
    let (started, no_match) = match route(rows) {
        Routed::Start(started) => (started, None),
        Routed::NoMatch(no_match) => (Vec::new(), Some(no_match)),
    };
    let release = open.iter().map(|one| one.subscription).filter(|id| !started.contains(id)).collect();
    for subscription in started {
        if !matches.iter().any(|one| one.subscription == subscription) {
            matches.push(Match { subscription, progress: Progress::Unsent, is_wanted: true });
        }
    }
    let no_match = no_match.filter(|_| matches.is_empty());
    Judged { matches, no_match, release }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Outcome::*;
    use super::Progress::*;
    use super::*;
    use crate::domain::options::OnUnreadable;
    use crate::domain::routing::{ReturnedFor, Standing, Verdict};

    fn of(progresses: &[(Progress, bool)]) -> Vec<Match> {
        let with_ids = (1..).zip(progresses);
        with_ids.map(|(id, (progress, is_wanted))| m(id, *progress, *is_wanted)).collect()
    }

    fn m(id: i64, progress: Progress, is_wanted: bool) -> Match {
        Match { subscription: SubscriptionId(id), progress, is_wanted }
    }

    fn ids(ids: &[i64]) -> Vec<SubscriptionId> {
        ids.iter().copied().map(SubscriptionId).collect()
    }

    fn ack(drop: &[i64]) -> Settlement {
        Settlement::Ack { drop: ids(drop) }
    }

    fn dead_letter(drop: &[i64]) -> Settlement {
        Settlement::DeadLetter { drop: ids(drop) }
    }

    fn hold(look_up: &[i64], start: &[i64]) -> Settlement {
        Settlement::Hold { look_up: ids(look_up), start: ids(start) }
    }

    #[test]
    fn two_matches_settle_together() {
        const GONE: (Progress, bool) = (Unsent, false);
        let (started, duplicate) = ((Done(Started), true), (Done(Duplicate), true));
        let (dropped, dlq) = ((Done(Dropped), true), (Done(Dlq), true));
        let (unsent, doubt, gone_doubt) = ((Unsent, true), (InDoubt, true), (InDoubt, false));
        for (first, second, want) in [
            (started, started, ack(&[])),
            (started, duplicate, ack(&[])),
            (started, dropped, ack(&[])),
            (dropped, dropped, ack(&[])),
            (started, dlq, dead_letter(&[])),
            (dropped, dlq, dead_letter(&[])),
            (dlq, dlq, dead_letter(&[])),
            (started, unsent, hold(&[], &[2])),
            (dlq, unsent, hold(&[], &[2])),
            (unsent, unsent, hold(&[], &[1, 2])),
            (started, doubt, hold(&[2], &[])),
            (doubt, unsent, hold(&[1], &[2])),
            (started, gone_doubt, hold(&[2], &[])),
            (started, GONE, ack(&[2])),
            (duplicate, GONE, ack(&[2])),
            (unsent, GONE, hold(&[], &[1])),
            (dropped, GONE, Settlement::JudgeAgain),
            (dlq, GONE, Settlement::JudgeAgain),
            (GONE, GONE, Settlement::JudgeAgain),
        ] {
            assert_eq!(settle(&of(&[first, second]), None), want, "{first:?} {second:?}");
        }
        let three = of(&[dlq, (Done(Started), false), GONE]);
        assert_eq!(settle(&three, None), dead_letter(&[3]), "a run that was started counts, whoever asked for it");
    }

    #[test]
    fn without_matches_the_verdicts_decide() {
        assert_eq!(settle(&[], Some(NoMatch::Drop)), ack(&[]));
        assert_eq!(settle(&[], Some(NoMatch::DeadLetter)), dead_letter(&[]));
        let returned = NoMatch::Return(ReturnedFor::Miss);
        assert_eq!(settle(&[], Some(returned)), Settlement::Park(returned));
        assert_eq!(settle(&[], None), Settlement::JudgeAgain);
    }

    fn row(id: i64, verdict: Verdict) -> Row {
        Row {
            subscription: SubscriptionId(id),
            standing: Standing::Listening,
            ack_unmatched: true,
            on_unreadable: OnUnreadable::Return,
            verdict: Some(verdict),
        }
    }

    #[test]
    fn a_message_that_started_something_keeps_its_matches() {
        let rows = [row(1, Verdict::Miss), row(3, Verdict::Match)];
        for first in [Done(Started), Done(Duplicate), InDoubt] {
            let frozen = of(&[(first, true), (Unsent, true)]);
            assert_eq!(judge(&frozen, &rows), Judged { matches: frozen, no_match: None, release: Vec::new() });
        }
    }

    #[test]
    fn a_message_that_started_nothing_is_judged_by_the_filters_of_now() {
        let rows = [row(1, Verdict::Miss), row(2, Verdict::Match), row(3, Verdict::Match)];
        let got = judge(&of(&[(Unsent, true), (Unsent, true)]), &rows);
        assert_eq!(got.matches, [m(2, Unsent, true), m(3, Unsent, true)]);
        assert_eq!(got.release, ids(&[1]));
        let got = judge(&of(&[(Unsent, false)]), &[row(2, Verdict::Miss)]);
        assert_eq!(got, Judged { matches: Vec::new(), no_match: Some(NoMatch::Drop), release: ids(&[1]) });
    }

    #[test]
    fn a_recorded_outcome_stays_when_the_message_is_judged_again() {
        let got = judge(&of(&[(Done(Dlq), true), (Unsent, false)]), &[row(1, Verdict::Match), row(2, Verdict::Miss)]);
        assert_eq!(got.matches, [m(1, Done(Dlq), true)]);
        assert_eq!(settle(&got.matches, got.no_match), dead_letter(&[]));
        let got = judge(&of(&[(Done(Dropped), true)]), &[row(1, Verdict::Miss)]);
        assert_eq!((settle(&got.matches, got.no_match), got.no_match), (ack(&[]), None));
    }

    /// Whatever up to three matches have come to, beside whatever the verdicts say, there is one answer, and it fits.
    #[test]
    fn settlement_is_total() {
        let progresses = [Unsent, InDoubt, Done(Started), Done(Duplicate), Done(Dropped), Done(Dlq)];
        let each: Vec<(Progress, bool)> = progresses.into_iter().flat_map(|one| [(one, true), (one, false)]).collect();
        let mut lists: Vec<Vec<(Progress, bool)>> = vec![Vec::new()];
        for from in 0..3 {
            let longer = lists
                .iter()
                .filter(|list| list.len() == from)
                .flat_map(|list| each.iter().map(|one| list.iter().copied().chain([*one]).collect()));
            lists.extend(longer.collect::<Vec<_>>());
        }
        assert_eq!(lists.len(), 1 + 12 + 144 + 1728);
        let returned =
            [ReturnedFor::Miss, ReturnedFor::Absent, ReturnedFor::Unreadable, ReturnedFor::Nobody].map(NoMatch::Return);
        for no_match in [None, Some(NoMatch::Drop), Some(NoMatch::DeadLetter)].into_iter().chain(returned.map(Some)) {
            for list in &lists {
                let got = settle(&of(list), no_match);
                let is_open = list.iter().any(|one| one.0 == InDoubt || *one == (Unsent, true));
                let is_refused = list.iter().any(|one| one.0 == Done(Dlq));
                let fits = match &got {
                    Settlement::Ack { .. } => {
                        !is_open && !is_refused && (!list.is_empty() || no_match == Some(NoMatch::Drop))
                    }
                    Settlement::DeadLetter { .. } => !is_open && (is_refused || list.is_empty()),
                    Settlement::Hold { .. } => is_open,
                    Settlement::JudgeAgain => !is_open,
                    Settlement::Park(why) => list.is_empty() && Some(*why) == no_match,
                };
                assert!(fits, "{list:?} {no_match:?}: {got:?}");
            }
        }
    }

    fn any_match() -> impl Strategy<Value = (Progress, bool)> {
        let progress =
            prop::sample::select(vec![Unsent, InDoubt, Done(Started), Done(Duplicate), Done(Dropped), Done(Dlq)]);
        (progress, any::<bool>())
    }

    fn sorted(settlement: Settlement) -> Settlement {
        let sort = |mut ids: Vec<SubscriptionId>| {
            ids.sort_unstable();
            ids
        };
        match settlement {
            Settlement::Ack { drop } => Settlement::Ack { drop: sort(drop) },
            Settlement::DeadLetter { drop } => Settlement::DeadLetter { drop: sort(drop) },
            Settlement::Hold { look_up, start } => Settlement::Hold { look_up: sort(look_up), start: sort(start) },
            same @ (Settlement::JudgeAgain | Settlement::Park(_)) => same,
        }
    }

    proptest! {
        #[test]
        fn nothing_is_acknowledged_before_every_match_is_accounted_for(list in prop::collection::vec(any_match(), 1..6)) {
            let matches = of(&list);
            let started = matches.iter().any(Match::has_started);
            match settle(&matches, Some(NoMatch::Drop)) {
                Settlement::Ack { drop } => {
                    for one in &matches {
                        let recorded = one.has_started() || one.progress == Done(Dropped);
                        let dropped = drop.contains(&one.subscription) && !one.is_wanted && started;
                        prop_assert!(recorded ^ dropped, "{:?}", one);
                    }
                }
                Settlement::DeadLetter { .. } => {
                    prop_assert!(matches.iter().any(|one| one.progress == Done(Dlq)));
                    prop_assert!(matches.iter().all(|one| one.is_done() || (!one.is_wanted && one.progress == Unsent)));
                }
                Settlement::Hold { look_up, start } => {
                    prop_assert_eq!(look_up.len() + start.len(), matches.iter().filter(|one| one.progress == InDoubt
                        || (one.progress == Unsent && one.is_wanted)).count());
                }
                Settlement::JudgeAgain => {
                    prop_assert!(!started);
                    prop_assert!(matches.iter().any(|one| !one.is_wanted && one.progress == Unsent));
                }
                Settlement::Park(_) => prop_assert!(false, "it has matches"),
            }
        }

        #[test]
        fn the_order_of_the_matches_decides_nothing(list in prop::collection::vec(any_match(), 1..6)) {
            let mut turned = of(&list);
            turned.reverse();
            prop_assert_eq!(sorted(settle(&of(&list), None)), sorted(settle(&turned, None)));
        }

        /// Judged again, a message never comes out as "judge again" for ever.
        #[test]
        fn judging_again_leads_somewhere(list in prop::collection::vec(any_match(), 0..4), verdicts in prop::collection::vec(0..3_u8, 0..5)) {
            let rows: Vec<Row> = (1..).zip(&verdicts).map(|(id, verdict)| row(id, match verdict {
                0 => Verdict::Match,
                1 => Verdict::Miss,
                _ => Verdict::Error,
            })).collect();
            let frozen = of(&list);
            if settle(&frozen, None) == Settlement::JudgeAgain {
                let judged = judge(&frozen, &rows);
                prop_assert_ne!(settle(&judged.matches, judged.no_match), Settlement::JudgeAgain);
            }
            let judged = judge(&frozen, &rows);
            prop_assert_eq!(judged.matches.is_empty(), judged.no_match.is_some());
            prop_assert_eq!(judge(&judged.matches, &rows).matches, judged.matches);
        }
    }
}
