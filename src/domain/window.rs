//! How the window of a queue is shared: what is held, what is parked instead, and whether anything is consumed at all.
//!
//! Serves the data flow. A delivery whose targets cannot take runs stays unsettled and counts against the consumer's
//! prefetch, the window. On a queue with several subscriptions the blocked ones must not fill it.
//!
//! Invariants (tests below, `shared_queue_model.rs`): blocked subscriptions together keep at most half a shared window; a
//! queue with one subscription that can run is consumed; single-active consumers are never cancelled or rolled.

use super::ids::SubscriptionId;
use super::park::MOST_PARKED;
use super::queue_facts::QueueFacts;

/// What keeps a subscription from starting a run now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Blocker {
    /// Airflow does not have its DAG yet.
    WaitingForDag,
    /// Its DAG is paused, and its messages are to wait.
    PausedDag,
    /// Its target takes no runs: the breaker is open, with this reason.
    Target(String),
    /// So many runs of it are under way as it may have at once.
    RunsUnderWay(u8),
}

impl Blocker {
    /// The stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::WaitingForDag => "waiting_for_dag",
            Self::PausedDag => "paused_dag",
            Self::Target(_) => "target",
            Self::RunsUnderWay(_) => "max_concurrent_runs",
        }
    }

    /// Whether it passes by itself as soon as a run of ours is done: then there is nothing to cancel a consumer for.
    fn is_our_own_bound(&self) -> bool {
        match self {
            Self::RunsUnderWay(_) => true,
            Self::WaitingForDag | Self::PausedDag | Self::Target(_) => false,
        }
    }
}

/// A subscription that takes part, and what blocks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The row.
    pub subscription: SubscriptionId,
    /// `None`: it can run.
    pub blocker: Option<Blocker>,
}

/// Where a delivery stays whose remaining matches all belong to blocked subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the window, retried in place.
    Hold,
    /// Parked, with the ack deadline as its pause.
    Park,
}

/// Decides where such a delivery stays. Called once its ready matches were started.
///
/// `subscriptions`: those of the queue that take part. `kept_by_blocked`: other deliveries of this channel that are held for
/// blocked subscriptions alone, of every turn of the consumer.
pub fn place(window: u16, subscriptions: usize, kept_by_blocked: usize, facts: &QueueFacts) -> Place {
    let has_room = share(window, subscriptions, facts).is_none_or(|share| kept_by_blocked < share);
    if has_room { Place::Hold } else { Place::Park }
}

/// Whether deliveries that are held for blocked subscriptions have to leave room for others. Where nobody can run the consumer
/// goes, and what is held stays: a target that flaps costs no return. A consumer that stays needs its room.
pub fn leaves_room(can_any_run: bool, facts: &QueueFacts) -> bool {
    can_any_run || is_handed_over(facts)
}

/// Whether the queue's consumer should be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consuming {
    /// It should.
    Consume,
    /// It is cancelled until a subscription can run. What is held is kept.
    Cancel,
}

/// How the consumer of a queue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// It is there.
    pub is_consuming: bool,
    /// Deliveries that are kept and not parked, of every turn of the consumer.
    pub held: usize,
    /// The window.
    pub window: u16,
}

/// Decides whether the queue is consumed.
///
/// A cancelled consumer's deliveries do not count against the prefetch of the next one, so each return to consuming may
/// bring another window: it waits until what is held is below it. Nor is the queue consumed for the sake of a half-open
/// breaker while a delivery of that target is held, which is the probe: see [`super::breaker::Breaker::blocked`].
pub fn consuming(members: &[Member], stream: Stream, facts: &QueueFacts) -> Consuming {
    let keeps_it = |member: &Member| member.blocker.as_ref().is_none_or(Blocker::is_our_own_bound);
    let has_room = stream.is_consuming || stream.held < usize::from(stream.window.max(1));
    let is_needed = members.iter().any(keeps_it) && has_room;
    // A cancelled single-active consumer hands the queue over while we hold its head.
    if is_needed || (is_handed_over(facts) && !members.is_empty()) { Consuming::Consume } else { Consuming::Cancel }
}

/// How many deliveries held for blocked subscriptions have to be parked after the table of rows has changed: a queue that
/// had one subscription may hold a whole window for it.
pub fn excess(window: u16, subscriptions: usize, kept_by_blocked: usize, facts: &QueueFacts) -> usize {
    match share(window, subscriptions, facts) {
        Some(share) => kept_by_blocked.saturating_sub(share),
        None => 0,
    }
}

/// How many deliveries blocked subscriptions together may keep open; `None`: as many as come.
fn share(window: u16, subscriptions: usize, facts: &QueueFacts) -> Option<usize> {
    if subscriptions > 1 {
        Some(usize::from(window) / 2)
    } else {
        // Its prefetch is far above the window, and what is held keeps its body.
        is_handed_over(facts).then_some(usize::from(window))
    }
}

/// Whether the consumer may be rolled: surely not where that hands the queue over to another one. Where it is not known
/// whether it would, it is rolled: a standby consumer of somebody else may then see messages of this queue before those
/// that are parked, and none is lost.
pub fn may_roll(facts: &QueueFacts) -> bool {
    !is_handed_over(facts)
}

/// The prefetch of a consumer: the window. Where the consumer cannot be rolled and a filter may reject messages, as many as
/// may be parked.
pub fn prefetch(window: u16, facts: &QueueFacts, has_filter: bool) -> u16 {
    let most = u16::try_from(MOST_PARKED).unwrap_or(u16::MAX);
    if is_handed_over(facts) && has_filter { most.max(window) } else { window.max(1) }
}

/// The window of a queue: `configured`, or the bound on the runs of the only subscription where that is smaller.
pub fn window(configured: u16, only_subscription_runs: Option<u8>) -> u16 {
    only_subscription_runs.map_or(configured, |runs| configured.min(u16::from(runs))).max(1)
}

/// What the rows of a queue say while deliveries are parked behind their share: who keeps them open.
pub fn blockers(members: &[Member]) -> Vec<(SubscriptionId, &Blocker)> {
    members.iter().filter_map(|member| member.blocker.as_ref().map(|blocker| (member.subscription, blocker))).collect()
}

fn is_handed_over(facts: &QueueFacts) -> bool {
    facts.single_active_consumer == Some(true) || facts.exclusive == Some(true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain() -> QueueFacts {
        QueueFacts { single_active_consumer: Some(false), exclusive: Some(false), ..QueueFacts::default() }
    }

    fn single_active() -> QueueFacts {
        QueueFacts { single_active_consumer: Some(true), ..plain() }
    }

    fn exclusive() -> QueueFacts {
        QueueFacts { exclusive: Some(true), ..plain() }
    }

    const ON: Stream = Stream { is_consuming: true, held: 0, window: 32 };

    fn member(id: i64, blocker: Option<Blocker>) -> Member {
        Member { subscription: SubscriptionId(id), blocker }
    }

    #[test]
    fn blocked_subscriptions_together_keep_at_most_half_a_shared_window() {
        for (window, subscriptions, kept, want) in [
            (32, 2, 15, Place::Hold),
            (32, 2, 16, Place::Park),
            (32, 9, 16, Place::Park),
            (32, 1, 31, Place::Hold),
            (32, 1, 32, Place::Hold),
            (5, 2, 1, Place::Hold),
            (5, 2, 2, Place::Park),
            (1, 2, 0, Place::Park),
        ] {
            assert_eq!(place(window, subscriptions, kept, &plain()), want, "{window} {subscriptions} {kept}");
        }
        assert_eq!(place(32, 1, 31, &single_active()), Place::Hold);
        assert_eq!(place(32, 1, 32, &single_active()), Place::Park, "its prefetch is above its window");
    }

    #[test]
    fn consuming_is_cancelled_only_when_nothing_can_run() {
        let down = || Some(Blocker::Target("503".into()));
        assert_eq!(consuming(&[], ON, &plain()), Consuming::Cancel);
        assert_eq!(consuming(&[member(1, None)], ON, &plain()), Consuming::Consume);
        assert_eq!(consuming(&[member(1, down()), member(2, None)], ON, &plain()), Consuming::Consume);
        for blocker in [down(), Some(Blocker::WaitingForDag), Some(Blocker::PausedDag)] {
            let members = [member(1, blocker), member(2, down())];
            assert_eq!(consuming(&members, ON, &plain()), Consuming::Cancel);
            assert_eq!(consuming(&members, ON, &QueueFacts::default()), Consuming::Cancel, "nothing is known of it");
            assert_eq!(consuming(&members, ON, &single_active()), Consuming::Consume);
            assert_eq!(consuming(&members, ON, &exclusive()), Consuming::Consume);
        }
        let busy = [member(1, Some(Blocker::RunsUnderWay(1)))];
        assert_eq!(consuming(&busy, ON, &plain()), Consuming::Consume, "its runs end by themselves");
        assert_eq!(consuming(&[], ON, &single_active()), Consuming::Cancel, "nobody wants it");
    }

    #[test]
    fn where_the_consumer_goes_nothing_has_to_make_room() {
        for (can_any_run, facts, leaves) in [
            (true, plain(), true),
            (false, plain(), false),
            (false, QueueFacts::default(), false),
            (false, single_active(), true),
            (false, exclusive(), true),
        ] {
            assert_eq!(leaves_room(can_any_run, &facts), leaves, "{can_any_run} {facts:?}");
        }
    }

    #[test]
    fn consuming_begins_again_only_when_less_than_a_window_is_held() {
        let off = |held| Stream { is_consuming: false, held, window: 32 };
        assert_eq!(consuming(&[member(1, None)], off(31), &plain()), Consuming::Consume);
        assert_eq!(consuming(&[member(1, None)], off(32), &plain()), Consuming::Cancel);
        assert_eq!(
            consuming(&[member(1, None)], Stream { is_consuming: true, ..off(99) }, &plain()),
            Consuming::Consume
        );
    }

    #[test]
    fn a_second_subscription_frees_half_of_a_window_that_the_first_one_fills() {
        assert_eq!((excess(32, 1, 32, &plain()), excess(32, 2, 32, &plain()), excess(32, 2, 3, &plain())), (0, 16, 0));
    }

    #[test]
    fn where_a_roll_hands_the_queue_over_prefetch_is_the_cap_from_the_start() {
        for facts in [single_active(), exclusive()] {
            assert!(!may_roll(&facts));
            assert_eq!((prefetch(32, &facts, true), prefetch(32, &facts, false)), (10_000, 32));
        }
        for facts in [plain(), QueueFacts::default()] {
            assert!(may_roll(&facts));
            assert_eq!(prefetch(32, &facts, true), 32);
        }
    }

    #[test]
    fn the_only_subscription_of_a_queue_bounds_its_window() {
        assert_eq!((window(32, None), window(32, Some(4)), window(2, Some(4)), window(0, None)), (32, 4, 2, 1));
    }

    #[test]
    fn rows_name_who_blocks() {
        let members = [member(1, None), member(2, Some(Blocker::PausedDag)), member(3, Some(Blocker::RunsUnderWay(2)))];
        let got = blockers(&members);
        let codes: Vec<_> = got.iter().map(|(id, blocker)| (id.0, blocker.code())).collect();
        assert_eq!(codes, [(2, "paused_dag"), (3, "max_concurrent_runs")]);
    }

    proptest! {
        /// Parked and blocked deliveries can fill a window only so far that the consumer is rolled.
        #[test]
        fn a_full_window_of_misses_and_blocked_ones_is_always_rolled(window in 1_u16..200, subscriptions in 2_usize..9) {
            let mut kept = 0;
            while place(window, subscriptions, kept, &plain()) == Place::Hold {
                kept += 1;
            }
            prop_assert!(kept * 2 <= usize::from(window));
            let parked = usize::from(window) - kept;
            prop_assert!(crate::domain::park::should_roll(window, parked, kept, true));
        }
    }
}
