//! The delivery budget: how often a message may still go back to its queue, and what is done before that is used up.
//!
//! Serves the data flow. A quorum queue counts every return, of deliveries that were only prefetched too, and drops or
//! dead-letters the message at its limit. Asked when a delivery cannot be settled at once: before it is held or parked.
//!
//! Invariants (tests below): as long as this is heeded our own looking spends no message's last return; a copy is made only
//! where it brings returns back; nothing irreversible is done that one of the subscriptions does not want.

use super::options::OnBudget;
use super::queue_facts::Limit;

/// So many returns are kept for what nobody can foresee: kills, restarts, a lost link.
pub const RESERVE: u32 = 3;

/// How often the broker says that a message has come back: the header `x-delivery-count`. Only a redelivery has it from the
/// broker; on a first delivery a publisher wrote it.
pub fn returns_so_far(redelivered: bool, header: Option<i64>) -> Option<u32> {
    let counted = header.filter(|_| redelivered)?;
    Some(u32::try_from(counted.max(0)).unwrap_or(u32::MAX))
}

/// How many returns a message has left; `None`: any number, or not known.
pub fn left(limit: Limit, returns: Option<u32>) -> Option<u32> {
    match limit {
        Limit::None | Limit::Unknown => None,
        Limit::At(limit) => Some(limit.saturating_sub(returns.unwrap_or(0))),
    }
}

/// Whether giving the message back would end it: then it is rejected in all but name, and its body is kept first unless it is
/// safe elsewhere ([`super::queue_facts::QueueFacts::must_keep_rejected`]).
pub fn next_return_ends_it(limit: Limit, returns: Option<u32>) -> bool {
    left(limit, returns) == Some(0)
}

/// Whether no more are left than are kept in reserve: [`RESERVE`], or one less than the limit where that is smaller, so that
/// every message can be looked at once.
pub fn is_near_its_end(limit: Limit, returns: Option<u32>) -> bool {
    match limit {
        Limit::None | Limit::Unknown => false,
        Limit::At(most) => left(limit, returns).is_some_and(|left| left <= RESERVE.min(most.saturating_sub(1))),
    }
}

/// What is done with a delivery that is near the end of its budget and cannot be settled at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// A copy goes to the same queue, and the original is acknowledged once the copy is confirmed.
    Copy,
    /// The consumer is cancelled; the delivery is kept, given back once at the ack deadline, and not fetched again until
    /// somebody acts. The status says so.
    Hold,
    /// Dead-lettered.
    DeadLetter,
}

impl Act {
    /// The stable name.
    pub fn code(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Hold => "hold",
            Self::DeadLetter => "dead_letter",
        }
    }
}

/// Whether we may publish to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publishing {
    /// It was not refused yet.
    Possible,
    /// The broker refused it (403), or the copy would not fit.
    Refused,
}

/// Bytes of a body at most that is kept by us: as much as RabbitMQ 4 takes unless it is told otherwise.
pub const KEPT_MOST_BYTES: u64 = 16 * 1024 * 1024;

/// Whether a message may not be rejected, nor given back for the last time: nobody else is known to keep it, and it is too large to
/// be kept by us. `must_keep`: see [`super::queue_facts::QueueFacts::must_keep_rejected`].
pub fn must_not_reject(must_keep: bool, body_bytes: u64) -> bool {
    must_keep && body_bytes > KEPT_MOST_BYTES
}

/// Decides it. `None`: the budget is not near its end.
///
/// `wishes`: of the subscriptions whose matches are open or, where nothing matched, of all that take part. The most careful
/// one counts: any `hold`, else any `copy`, and `dead_letter` only where all say so.
pub fn act(limit: Limit, returns: Option<u32>, wishes: &[OnBudget], publishing: Publishing) -> Option<Act> {
    if !is_near_its_end(limit, returns) {
        return None;
    }
    let any = |wish| wishes.contains(&wish);
    Some(if any(OnBudget::Hold) || wishes.is_empty() {
        Act::Hold
    } else if any(OnBudget::Copy) {
        // A copy of a message that never came back has no more returns than the message itself.
        let brings_some = returns.unwrap_or(0) > 0;
        if brings_some && publishing == Publishing::Possible { Act::Copy } else { Act::Hold }
    } else {
        Act::DeadLetter
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_count_on_a_first_delivery_is_a_publishers() {
        for (redelivered, header, want) in [
            (false, Some(19), None),
            (true, None, None),
            (true, Some(3), Some(3)),
            (true, Some(-1), Some(0)),
            (true, Some(i64::MAX), Some(u32::MAX)),
        ] {
            assert_eq!(returns_so_far(redelivered, header), want, "{redelivered} {header:?}");
        }
    }

    #[test]
    fn three_returns_are_kept_or_one_less_than_the_limit() {
        for (limit, first_near) in [(20, 17), (5, 2), (4, 1), (3, 1), (2, 1), (1, 1), (0, 0)] {
            let near = (0..=limit + 1).find(|returns| is_near_its_end(Limit::At(limit), Some(*returns)));
            assert_eq!(near, Some(first_near), "limit {limit}");
        }
        for limit in [Limit::None, Limit::Unknown] {
            assert!(!is_near_its_end(limit, Some(u32::MAX)));
            assert_eq!(left(limit, Some(1)), None);
        }
        assert!(!is_near_its_end(Limit::At(3), None), "it did not come back yet");
        assert!(next_return_ends_it(Limit::At(3), Some(3)) && !next_return_ends_it(Limit::At(3), Some(2)));
    }

    #[test]
    fn what_is_too_large_to_be_kept_is_rejected_only_where_somebody_else_keeps_it() {
        for (must_keep, bytes, want) in
            [(true, KEPT_MOST_BYTES, false), (true, KEPT_MOST_BYTES + 1, true), (false, u64::MAX, false)]
        {
            assert_eq!(must_not_reject(must_keep, bytes), want, "{must_keep} {bytes}");
        }
    }

    #[test]
    fn the_most_careful_wish_counts() {
        use OnBudget::{Copy, DeadLetter, Hold};
        for (wishes, want) in [
            (vec![Copy], Act::Copy),
            (vec![Hold], Act::Hold),
            (vec![DeadLetter], Act::DeadLetter),
            (vec![DeadLetter, Copy], Act::Copy),
            (vec![DeadLetter, Copy, Hold], Act::Hold),
            (vec![DeadLetter, Hold], Act::Hold),
            (vec![DeadLetter, DeadLetter], Act::DeadLetter),
            (vec![], Act::Hold),
        ] {
            assert_eq!(act(Limit::At(20), Some(17), &wishes, Publishing::Possible), Some(want), "{wishes:?}");
            assert_eq!(act(Limit::At(20), Some(16), &wishes, Publishing::Possible), None);
        }
        assert_eq!(act(Limit::At(20), Some(17), &[Copy], Publishing::Refused), Some(Act::Hold));
        assert_eq!(act(Limit::At(20), Some(17), &[DeadLetter], Publishing::Refused), Some(Act::DeadLetter));
        assert_eq!(act(Limit::At(0), None, &[Copy], Publishing::Possible), Some(Act::Hold), "copies would go round");
    }

    proptest! {
        #[test]
        fn our_own_looking_never_spends_the_last_return(limit in 0_u32..40) {
            let mut returns = 0;
            while !is_near_its_end(Limit::At(limit), Some(returns)) {
                returns += 1;
            }
            // The message survives `limit` returns; one more destroys it.
            prop_assert!(returns <= limit);
            prop_assert!(limit < 2 || limit - returns >= RESERVE.min(limit - 1));
        }

        #[test]
        fn what_is_near_its_end_stays_so(limit in 0_u32..40, returns in 0_u32..60) {
            let near = |returns| is_near_its_end(Limit::At(limit), Some(returns));
            prop_assert!(!near(returns) || near(returns + 1));
        }
    }
}
