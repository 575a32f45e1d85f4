//! The schedule of pauses, the memory of sightings, and the set of what is parked.

use proptest::prelude::*;

use super::*;

const DEADLINE: Duration = Duration::from_secs(1500);

fn parked(tag: u64, due_ms: i64, why: Why) -> Parked {
    Parked { tag: DeliveryTag(tag), turn: 0, bytes: 1, due_ms, why }
}

const MISS: Why = Why::NoMatch(ReturnedFor::Miss);

fn tags(list: &[Parked]) -> Vec<u64> {
    list.iter().map(|one| one.tag.0).collect()
}

#[test]
fn pauses_double_from_a_tenth_of_a_second_to_a_minute() {
    let ms: Vec<u128> = (0..12).map(|seen| pause(seen, Limit::None, DEADLINE).as_millis()).collect();
    assert_eq!(ms, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000]);
    assert_eq!(pause(u32::MAX, Limit::None, DEADLINE), LONGEST_PAUSE);
    let within_a_minute = ms
        .iter()
        .scan(0, |at, pause| {
            *at += pause;
            Some(*at)
        })
        .filter(|at| *at <= 60_000)
        .count();
    assert!(within_a_minute < 15, "{within_a_minute} redeliveries in 60 s");
}

#[test]
fn where_returns_may_be_counted_pauses_grow_to_the_ack_deadline() {
    for limit in [Limit::At(20), Limit::At(0), Limit::Unknown] {
        assert_eq!(pause(9, limit, DEADLINE).as_millis(), 51_200, "{limit:?}");
        assert_eq!(pause(10, limit, DEADLINE).as_millis(), 102_400, "{limit:?}");
        assert_eq!(pause(14, limit, DEADLINE), DEADLINE, "{limit:?}");
    }
    assert_eq!(pause(30, Limit::None, Duration::from_secs(5)), Duration::from_secs(5), "never past the deadline");
}

#[test]
fn many_parked_ones_come_back_at_a_bounded_rate() {
    let ms: Vec<u128> = [0, 25, 5000, MOST_PARKED].map(|parked| shortest_pause(parked).as_millis()).to_vec();
    assert_eq!(ms, [0, 100, 20_000, 40_000], "a few wait no longer for one another");
    assert_eq!(shortest_pause(usize::MAX), LONGEST_PAUSE);
}

#[test]
fn sightings_of_a_classic_queue_are_remembered_and_those_of_a_quorum_queue_are_the_brokers() {
    let mut sightings = Sightings::default();
    let seen: Vec<u32> = [false, true, true, true].map(|redelivered| sightings.note(7, redelivered, None)).to_vec();
    assert_eq!(seen, [0, 1, 2, 3]);
    assert_eq!(sightings.note(7, false, None), 0, "a new message, equal to the first");
    assert_eq!(sightings.note(8, true, None), 0, "seen by somebody else");
    assert_eq!(sightings.note(9, true, Some(12)), 12);
    assert_eq!(sightings.len(), 2, "what the broker counts is not remembered");
}

#[test]
fn the_message_seen_longest_ago_is_forgotten_first() {
    let mut sightings = Sightings::with_room(2);
    for key in [1, 2, 1, 3] {
        sightings.note(key, true, None);
    }
    assert_eq!(sightings.note(1, true, None), 2);
    assert_eq!(sightings.note(2, true, None), 0);
    const { assert!(SIGHTINGS_KEPT >= MOST_PARKED) };
}

#[test]
fn what_is_due_comes_out_once_in_the_order_of_the_queue() {
    let mut set = ParkedSet::new(Epoch(1));
    for (tag, due_ms) in [(5, 30), (2, 20), (9, 10), (3, 99)] {
        set.park(parked(tag, due_ms, MISS));
    }
    assert_eq!(set.next_due_ms(), Some(10));
    assert_eq!(tags(&set.take_due(30)), [2, 5, 9]);
    assert_eq!(tags(&set.take_due(30)), [0_u64; 0]);
    assert_eq!((set.len(), set.in_turn(), set.next_due_ms()), (1, 1, Some(99)));
}

#[test]
fn a_consumer_is_rolled_when_parked_ones_fill_half_its_window() {
    for (window, parked, held, want) in [
        (32, 15, 0, false),
        (32, 16, 0, true),
        (32, 16, 31, true),
        (32, 16, 32, false),
        (5, 2, 0, false),
        (5, 3, 0, true),
        (1, 0, 0, false),
        (1, 1, 0, true),
        (1, 1, 1, false),
        (0, 1, 0, true),
    ] {
        assert_eq!(should_roll(window, parked, held, true), want, "{window} {parked} {held}");
        assert!(!should_roll(window, parked, held, false));
    }
}

#[test]
fn after_a_roll_what_was_parked_does_not_count_against_the_window() {
    let mut set = ParkedSet::new(Epoch(1));
    (0..16).for_each(|tag| set.park(parked(tag, 100, MISS)));
    set.rolled();
    assert_eq!((set.len(), set.in_turn()), (16, 0));
    set.park(Parked { turn: set.turn(), ..parked(16, 50, MISS) });
    assert_eq!(set.in_turn(), 1);
    // Drained from the old stream after the roll: it does not count either.
    set.park(parked(17, 50, MISS));
    assert_eq!(set.in_turn(), 1);
    assert_eq!(set.take_due(100).len(), 18);
    assert_eq!(set.in_turn(), 0);
}

#[test]
fn at_the_cap_the_status_says_how_many_stand_in_the_way() {
    let mut set = ParkedSet::new(Epoch(1));
    (0..9_999).for_each(|tag| set.park(parked(tag, 0, MISS)));
    assert_eq!((set.room(1), set.blocked_by_unmatched(1)), (Room::Free, None));
    set.park(parked(9_999, 0, Why::Blocked));
    assert_eq!((set.room(1), set.blocked_by_unmatched(1)), (Room::Full, Some(9_999)));
    set.take_due(0);
    assert_eq!((set.room(1), set.blocked_by_unmatched(1)), (Room::Free, None));
    set.park(Parked { bytes: MOST_PARKED_BYTES - 1, ..parked(1, 0, MISS) });
    assert_eq!((set.room(1), set.blocked_by_unmatched(2)), (Room::Free, Some(1)), "what waits for room is larger");
    set.take_due(0);
    let big = Parked { bytes: MOST_PARKED_BYTES + 1, ..parked(1, 0, MISS) };
    assert_eq!(set.room(big.bytes), Room::Free, "one alone can always be parked");
    set.park(big);
    assert_eq!(set.room(0), Room::Full);
}

#[test]
fn a_change_of_the_rows_gives_back_all_but_those_it_would_destroy() {
    let mut set = ParkedSet::new(Epoch(1));
    (1..=4).rev().for_each(|tag| set.park(parked(tag, 1_000_000, MISS)));
    assert_eq!(tags(&set.take_for_new_rows(|tag| tag != DeliveryTag(2))), [1, 3, 4]);
    assert_eq!(set.len(), 1);
}

#[test]
fn an_unblocked_subscription_gets_back_its_own_and_not_the_foreign_ones() {
    let mut set = ParkedSet::new(Epoch(1));
    for (tag, why) in [(1, MISS), (2, Why::Blocked), (3, Why::Blocked), (4, Why::Blocked)] {
        set.park(parked(tag, 1_000_000, why));
    }
    assert_eq!(tags(&set.take_unblocked(|_| true, 2)), [2, 3]);
    assert_eq!(tags(&set.take_unblocked(|_| true, 9)), [4]);
}

proptest! {
    #[test]
    fn pauses_never_shrink_and_never_pass_the_deadline(seen in 0_u32..200, deadline_s in 1_u64..4000, limit in 0_u32..3) {
        let limit = [Limit::None, Limit::Unknown, Limit::At(20)][limit as usize];
        let deadline = Duration::from_secs(deadline_s);
        prop_assert!(pause(seen, limit, deadline) <= pause(seen + 1, limit, deadline));
        prop_assert!(pause(seen, limit, deadline) <= deadline);
        prop_assert!(pause(seen, limit, deadline) >= FIRST_PAUSE.min(deadline));
    }

    /// Against a plain list that is searched.
    #[test]
    fn the_set_counts_as_a_plain_list_does(steps in prop::collection::vec((0_u8..5, 0_u64..12, 0_i64..50), 0..80)) {
        let (mut set, mut plain) = (ParkedSet::new(Epoch(1)), Vec::<Parked>::new());
        for (kind, tag, time) in steps {
            let out = match kind {
                0 | 1 => {
                    let why = if kind == 0 { MISS } else { Why::Blocked };
                    let one = Parked { turn: set.turn(), bytes: tag, ..parked(tag, time, why) };
                    plain.retain(|other| other.tag != one.tag);
                    plain.push(one);
                    set.park(one);
                    continue;
                }
                2 => set.take_due(time),
                3 => set.take_unblocked(|_| true, 2),
                _ => { set.rolled(); continue; }
            };
            prop_assert!(out.is_sorted_by_key(|one| one.tag));
            for one in &out {
                prop_assert!(kind != 2 || one.due_ms <= time);
                prop_assert!(plain.contains(one));
            }
            plain.retain(|one| !out.contains(one));
            prop_assert!(kind != 2 || plain.iter().all(|one| one.due_ms > time));
            prop_assert_eq!(set.len(), plain.len());
            prop_assert_eq!(set.in_turn(), plain.iter().filter(|one| one.turn == set.turn()).count());
            prop_assert_eq!(set.bytes, plain.iter().map(|one| one.bytes).sum::<u64>());
            prop_assert_eq!(set.next_due_ms(), plain.iter().map(|one| one.due_ms).min());
            prop_assert_eq!(set.unmatched, plain.iter().filter(|one| one.why == MISS).count());
        }
    }

    #[test]
    fn memory_of_sightings_is_bounded(keys in prop::collection::vec(0_u128..50, 0..200), most in 1_usize..20) {
        let mut sightings = Sightings::with_room(most);
        for key in keys {
            sightings.note(key, true, None);
            prop_assert!(sightings.len() <= most);
            prop_assert!(!sightings.is_empty());
        }
    }
}
