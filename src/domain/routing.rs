//! Which subscriptions a delivery starts, and what becomes of one that starts none.
//!
//! Serves the data flow: one consumer takes the deliveries of a queue for every subscription that names it. Filters are
//! judged before; here their verdicts are put together. Must not know what a filter is.
//!
//! Invariants (tests below): an acknowledgement needs at least one row that takes part, and every known row of the queue
//! must have read the message, rejected it and allowed that it goes; a message that nobody could read is never acknowledged.

use super::ids::SubscriptionId;
use super::options::OnUnreadable;

/// What a subscription's filter says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It accepts the message.
    Match,
    /// It read the message and rejects it.
    Miss,
    /// It could not be evaluated on this message.
    Error,
}

/// What a row of the state file is to its queue now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It runs, or would if its target took runs.
    Listening,
    /// Airflow does not have its DAG yet.
    Waiting,
    /// Its DAG is paused.
    Paused,
    /// Its declaration is gone, and the row is kept for some cycles.
    InGrace,
    /// Switched off by a person.
    Disabled,
    /// Its declaration cannot be acted on.
    Invalid,
    /// The row was deleted and is remembered.
    Tombstoned,
}

impl Standing {
    /// Every one of them.
    pub const ALL: [Self; 7] =
        [Self::Listening, Self::Waiting, Self::Paused, Self::InGrace, Self::Disabled, Self::Invalid, Self::Tombstoned];

    /// Whether its matches are started. The others only forbid that a message is acknowledged without a run.
    pub fn takes_part(self) -> bool {
        match self {
            Self::Listening | Self::Waiting | Self::Paused | Self::InGrace => true,
            Self::Disabled | Self::Invalid | Self::Tombstoned => false,
        }
    }
}

/// One known row of the queue, with what its filter says of the delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The row.
    pub subscription: SubscriptionId,
    /// What it is to the queue now.
    pub standing: Standing,
    /// It allows that what it rejects is acknowledged, and so dropped. `false` where its options cannot be read.
    pub ack_unmatched: bool,
    /// What it wants done with a message that it cannot read.
    pub on_unreadable: OnUnreadable,
    /// `None`: its filter is not known. Rows that do not take part are judged as well, as far as theirs is.
    pub verdict: Option<Verdict>,
}

/// What is done with a delivery, as far as filters decide it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Routed {
    /// These are started, every one of them, in the order of the rows.
    Start(Vec<SubscriptionId>),
    /// Nothing is started.
    NoMatch(NoMatch),
}

/// What becomes of a delivery that starts nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoMatch {
    /// Acknowledged: every known row rejects it and allows that it goes.
    Drop,
    /// Given back after a growing pause.
    Return(ReturnedFor),
    /// Dead-lettered: those that could not read it say so, and nobody else could still take it.
    DeadLetter,
}

/// Why a delivery that starts nothing stays in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReturnedFor {
    /// All that take part reject it, and a row that takes part keeps what it rejects.
    Miss,
    /// All that take part reject it and would let it go; a row that does not take part may want it.
    Absent,
    /// A filter could not be evaluated.
    Unreadable,
    /// No row takes part.
    Nobody,
}

impl ReturnedFor {
    /// The stable name.
    pub fn code(self) -> &'static str {
        match self {
            Self::Miss => "filter_miss",
            Self::Absent => "kept_for_another_row",
            Self::Unreadable => "filter_error",
            Self::Nobody => "no_subscription",
        }
    }
}

/// Puts the verdicts of all known rows of a queue together.
pub fn route(rows: &[Row]) -> Routed {
    let taking = || rows.iter().filter(|row| row.standing.takes_part());
    let start: Vec<_> =
        taking().filter(|row| row.verdict == Some(Verdict::Match)).map(|row| row.subscription).collect();
    if !start.is_empty() {
        return Routed::Start(start);
    }
    Routed::NoMatch(if taking().next().is_none() {
        NoMatch::Return(ReturnedFor::Nobody)
    } else if taking().any(is_unreadable) {
        unreadable(rows)
    } else if rows.iter().all(lets_go) {
        NoMatch::Drop
    } else if taking().all(lets_go) {
        NoMatch::Return(ReturnedFor::Absent)
    } else {
        NoMatch::Return(ReturnedFor::Miss)
    })
}

/// A row that takes part and whose filter is not known has not read the message either.
fn is_unreadable(row: &Row) -> bool {
    match row.verdict {
        Some(Verdict::Error) | None => true,
        Some(Verdict::Match | Verdict::Miss) => false,
    }
}

/// Rejected, and it may go. A row that does not take part speaks for the messages it would have got: an `ack_unmatched` of
/// its own lets go what *it* rejects, never what it would have taken.
fn lets_go(row: &Row) -> bool {
    row.ack_unmatched && row.verdict == Some(Verdict::Miss)
}

fn unreadable(rows: &[Row]) -> NoMatch {
    let agrees = |row: &Row| match row.verdict {
        Some(Verdict::Miss) => true,
        Some(Verdict::Error) | None => row.standing.takes_part() && row.on_unreadable == OnUnreadable::DeadLetter,
        // Only a row that does not take part gets here: it would take the message.
        Some(Verdict::Match) => false,
    };
    if rows.iter().all(agrees) { NoMatch::DeadLetter } else { NoMatch::Return(ReturnedFor::Unreadable) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Standing::*;
    use super::Verdict::{Error, Match, Miss};
    use super::*;

    fn row(subscription: i64, standing: Standing, verdict: Option<Verdict>) -> Row {
        let subscription = SubscriptionId(subscription);
        Row { subscription, standing, ack_unmatched: false, on_unreadable: OnUnreadable::Return, verdict }
    }

    fn acks(row: Row) -> Row {
        Row { ack_unmatched: true, ..row }
    }

    fn dead_letters(row: Row) -> Row {
        Row { on_unreadable: OnUnreadable::DeadLetter, ..row }
    }

    fn listening(verdict: Verdict) -> Row {
        row(1, Listening, Some(verdict))
    }

    fn returned(reason: ReturnedFor) -> Routed {
        Routed::NoMatch(NoMatch::Return(reason))
    }

    #[test]
    fn every_match_is_started_whatever_the_others_say() {
        let rows = [
            listening(Error),
            row(2, Waiting, Some(Match)),
            acks(row(3, Listening, Some(Miss))),
            row(4, Paused, Some(Match)),
            row(5, InGrace, Some(Match)),
            row(6, Disabled, Some(Match)),
            row(7, Invalid, None),
        ];
        assert_eq!(route(&rows), Routed::Start(vec![SubscriptionId(2), SubscriptionId(4), SubscriptionId(5)]));
    }

    #[test]
    fn a_miss_is_dropped_only_when_every_known_row_rejects_it_and_lets_it_go() {
        let miss = acks(listening(Miss));
        assert_eq!(route(&[miss]), Routed::NoMatch(NoMatch::Drop));
        assert_eq!(route(&[listening(Miss)]), returned(ReturnedFor::Miss));
        for standing in Standing::ALL {
            let other = |verdict| row(2, standing, verdict);
            let kept = if standing.takes_part() { ReturnedFor::Miss } else { ReturnedFor::Absent };
            assert_eq!(route(&[miss, other(Some(Miss))]), returned(kept), "{standing:?}");
            assert_eq!(route(&[miss, acks(other(Some(Miss)))]), Routed::NoMatch(NoMatch::Drop), "{standing:?}");
            if !standing.takes_part() {
                for verdict in [None, Some(Match), Some(Error)] {
                    assert_eq!(route(&[miss, acks(other(verdict))]), returned(ReturnedFor::Absent), "{standing:?}");
                }
            }
        }
    }

    #[test]
    fn no_row_at_all_is_no_permission() {
        assert_eq!(route(&[]), returned(ReturnedFor::Nobody));
        assert_eq!(route(&[acks(row(1, Disabled, Some(Miss)))]), returned(ReturnedFor::Nobody));
    }

    #[test]
    fn an_unreadable_message_is_dead_lettered_only_when_all_agree() {
        let says_so = dead_letters(listening(Error));
        assert_eq!(route(&[says_so]), Routed::NoMatch(NoMatch::DeadLetter));
        assert_eq!(route(&[listening(Error)]), returned(ReturnedFor::Unreadable));
        let second = |row: Row| Row { subscription: SubscriptionId(2), ..row };
        for (other, want) in [
            (listening(Miss), Routed::NoMatch(NoMatch::DeadLetter)),
            (dead_letters(listening(Error)), Routed::NoMatch(NoMatch::DeadLetter)),
            (listening(Error), returned(ReturnedFor::Unreadable)),
            (row(2, Disabled, Some(Miss)), Routed::NoMatch(NoMatch::DeadLetter)),
            (row(2, Disabled, Some(Match)), returned(ReturnedFor::Unreadable)),
            (dead_letters(row(2, Disabled, Some(Error))), returned(ReturnedFor::Unreadable)),
            (dead_letters(row(2, Invalid, None)), returned(ReturnedFor::Unreadable)),
            (row(2, Tombstoned, None), returned(ReturnedFor::Unreadable)),
        ] {
            assert_eq!(route(&[says_so, second(other)]), want, "{other:?}");
        }
    }

    #[test]
    fn a_filter_that_is_not_known_has_not_read_the_message() {
        assert_eq!(route(&[acks(row(1, Listening, None))]), returned(ReturnedFor::Unreadable));
    }

    fn any_row() -> impl Strategy<Value = Row> {
        let standing = prop::sample::select(Standing::ALL.to_vec());
        let verdict = prop::option::weighted(0.9, prop::sample::select(vec![Match, Miss, Miss, Miss, Error]));
        (0..9_i64, standing, any::<bool>(), any::<bool>(), verdict).prop_map(
            |(id, standing, acks, rejects, verdict)| {
                let on_unreadable = if rejects { OnUnreadable::DeadLetter } else { OnUnreadable::Return };
                Row { subscription: SubscriptionId(id), standing, ack_unmatched: acks, on_unreadable, verdict }
            },
        )
    }

    proptest! {
        #[test]
        fn nothing_is_dropped_against_any_row(rows in prop::collection::vec(any_row(), 0..6)) {
            let takers = rows.iter().filter(|row| row.standing.takes_part());
            match route(&rows) {
                Routed::Start(started) => {
                    let matched: Vec<_> = takers.filter(|row| row.verdict == Some(Match)).map(|row| row.subscription).collect();
                    prop_assert!(!started.is_empty());
                    prop_assert_eq!(started, matched);
                }
                Routed::NoMatch(NoMatch::Drop) => {
                    prop_assert!(rows.iter().all(|row| row.ack_unmatched && row.verdict == Some(Miss)));
                    prop_assert!(takers.count() > 0);
                }
                Routed::NoMatch(NoMatch::DeadLetter) => {
                    prop_assert!(rows.iter().any(|row| row.standing.takes_part() && row.on_unreadable == OnUnreadable::DeadLetter));
                    prop_assert!(rows.iter().all(|row| row.verdict != Some(Match)));
                }
                Routed::NoMatch(NoMatch::Return(_)) => {
                    prop_assert!(takers.clone().all(|row| row.verdict != Some(Match)));
                }
            }
        }

        #[test]
        fn the_order_of_the_rows_decides_nothing(rows in prop::collection::vec(any_row(), 0..6).prop_shuffle()) {
            let mut turned = rows.clone();
            turned.reverse();
            match (route(&rows), route(&turned)) {
                (Routed::Start(mut one), Routed::Start(mut other)) => {
                    one.sort_unstable();
                    other.sort_unstable();
                    prop_assert_eq!(one, other);
                }
                (one, other) => prop_assert_eq!(one, other),
            }
        }
    }
}
