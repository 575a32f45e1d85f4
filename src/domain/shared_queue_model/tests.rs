//! What has to hold in every walk.

use super::*;

/// A small generator of our own (xorshift), so that a walk can be walked again by its seed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % u64::try_from(bound).unwrap()).unwrap()
    }
}

use Verdict::{Error, Match as Yes, Miss};

/// How a walk goes.
#[derive(Clone, Copy)]
struct Walk {
    kills: u32,
    flaps: bool,
    removals: bool,
    mutation: Mutation,
}

const QUIET: Walk = Walk {
    kills: 0,
    flaps: false,
    removals: false,
    mutation: Mutation { rows_one_by_one: false, blocked_keep_all: false, never_roll: false },
};

/// The full number belongs to the full round (`./tests/run --all`).
fn seeds(all: u64) -> u64 {
    if std::env::var_os("RMQ_TEST_ALL").is_some() { all } else { all / 20 }
}

fn start(dice: &mut Dice, walk: Walk) -> World {
    let window = [1, 2, 3, 4, 8][dice.below(5)];
    let subscriptions = 1 + dice.below(3);
    let verdict = |dice: &mut Dice| [Yes, Yes, Miss, Miss, Error][dice.below(5)];
    let messages = (0..1 + dice.below(12)).map(|_| (0..subscriptions).map(|_| verdict(dice)).collect()).collect();
    let mut world = World::new(window, subscriptions, messages);
    world.mutation = walk.mutation;
    world
}

fn walk(seed: u64, walk: Walk) -> World {
    let mut dice = Dice::new(seed);
    let mut world = start(&mut dice, walk);
    for _ in 0..300 {
        match dice.below(20) {
            0..6 => drop(world.deliver()),
            6..15 if !world.flights.is_empty() => {
                let f = dice.below(world.flights.len());
                world.advance(f);
            }
            15 => world.pass(i64::try_from(dice.below(2_000)).unwrap()),
            16 if walk.flaps => {
                let at = dice.below(world.is_up.len());
                world.is_up[at] = !world.is_up[at];
            }
            17 if world.kills < walk.kills => world.kill(),
            18 if walk.removals => {
                let at = dice.below(world.rows.len());
                world.rows[at].standing =
                    if world.rows[at].standing.takes_part() { Standing::Disabled } else { Standing::Listening };
            }
            19 => world.pass(i64::try_from(dice.below(100_000)).unwrap()),
            _ => {}
        }
    }
    world
}

/// Everything works again; goes on until nothing matches in the queue any more, within the time that the rules allow.
fn finish(world: &mut World) {
    world.is_up.iter_mut().for_each(|is_up| *is_up = true);
    world.rows.iter_mut().for_each(|row| row.standing = Standing::Listening);
    for _ in 0..120 {
        run_at_once(world);
        let is_over =
            |m: &Message| m.place != Where::Ready && m.place != Where::Unsettled || !m.verdicts.contains(&Yes);
        if world.messages.iter().all(is_over) {
            return;
        }
        world.pass(30_000);
    }
    panic!("messages that match are left: {:#?}\n{:#?}", world.messages, world.flights);
}

fn exactly_once(world: &World, seed: u64) -> Result<(), String> {
    for (at, message) in world.messages.iter().enumerate() {
        for (id, verdict) in (0_i64..).zip(&message.verdicts) {
            let want = usize::from(*verdict == Yes);
            let got = world.runs_of(id, at);
            if got != want {
                return Err(format!("seed {seed}: message {at} has {got} runs of subscription {id}: {message:?}"));
            }
        }
        let is_gone = message.place == Where::Acked;
        if is_gone != message.verdicts.contains(&Yes) {
            return Err(format!("seed {seed}: {message:?}"));
        }
    }
    Ok(())
}

fn holds(seeds: u64, how: Walk) -> Result<(), String> {
    for seed in 0..seeds {
        let mut world = walk(seed, how);
        finish(&mut world);
        exactly_once(&world, seed)?;
    }
    Ok(())
}

#[test]
fn each_message_starts_each_subscription_that_matches_it_exactly_once_whatever_dies() {
    holds(seeds(2_000), QUIET).unwrap();
    holds(seeds(2_000), Walk { flaps: true, ..QUIET }).unwrap();
    holds(seeds(4_000), Walk { flaps: true, kills: 4, ..QUIET }).unwrap();
}

#[test]
fn rows_that_are_not_made_together_lose_a_match_at_a_kill() {
    let mutation = Mutation { rows_one_by_one: true, ..Mutation::default() };
    let lost = holds(4_000, Walk { kills: 4, flaps: true, mutation, ..QUIET });
    assert!(lost.is_err(), "the walk does not see what it is for");
}

/// A subscription that goes and comes may miss what another one got meanwhile, by a recorded drop. Nothing else is lost,
/// nothing is doubled, and nothing is acknowledged without a run.
#[test]
fn subscriptions_that_go_and_come_lose_only_what_is_recorded_as_dropped() {
    for seed in 0..seeds(4_000) {
        let mut world = walk(seed, Walk { flaps: true, kills: 3, removals: true, ..QUIET });
        finish(&mut world);
        for (at, message) in world.messages.iter().enumerate() {
            let runs: Vec<usize> = (0_i64..).zip(&message.verdicts).map(|(id, _)| world.runs_of(id, at)).collect();
            for ((id, verdict), runs) in (0_i64..).zip(&message.verdicts).zip(&runs) {
                assert!(*runs <= usize::from(*verdict == Yes), "seed {seed}: {message:?} has {runs} runs of {id}");
            }
            let acked = message.place == Where::Acked;
            assert!(!acked || runs.contains(&1), "seed {seed}: {message:?} was acknowledged without a run");
        }
    }
}

#[test]
fn no_message_comes_back_but_for_a_kill_a_pause_or_a_deadline() {
    for seed in 0..seeds(2_000) {
        let how = Walk { flaps: true, ..QUIET };
        let mut dice = Dice::new(seed);
        let subscriptions = start(&mut dice, how).rows.len();
        let world = walk(seed, how);
        for message in &world.messages {
            let bound = world.now_ms / 1_500_000;
            let is_held = subscriptions == 1 && message.verdicts.contains(&Yes);
            assert!(!is_held || i64::from(message.returns) <= bound, "seed {seed}: {message:?} in {} ms", world.now_ms);
            // A foreign message: 0.1 s doubling to 60 s.
            let seconds = world.now_ms / 1_000;
            assert!(i64::from(message.returns) <= 10 + seconds / 50, "seed {seed}: {message:?} in {seconds} s");
        }
    }
}

#[test]
fn what_is_held_stays_below_two_windows_whatever_flaps() {
    for seed in 0..seeds(2_000) {
        let world = walk(seed, Walk { flaps: true, ..QUIET });
        let most = 2 * usize::from(world.window);
        assert!(world.most_held <= most, "seed {seed}: {} of {most}", world.most_held);
    }
}

/// Delivers and advances without a moment passing, until nothing moves.
fn run_at_once(world: &mut World) {
    loop {
        let mut moved = world.deliver();
        for f in (0..world.flights.len()).rev() {
            let before = format!("{:?}", world.flights[f]);
            world.advance(f);
            moved |= world.flights.get(f).is_none_or(|flight| format!("{flight:?}") != before);
        }
        if !moved {
            return;
        }
    }
}

fn behind(foreign: usize, window: u16, last: &[Verdict], first: &[Verdict]) -> World {
    let mut messages = vec![first.to_vec(); foreign];
    messages.push(last.to_vec());
    World::new(window, last.len(), messages)
}

#[test]
fn a_match_behind_any_number_of_misses_is_reached_before_one_of_them_comes_back() {
    for (foreign, window) in [(0, 1), (5, 1), (100, 32), (500, 8), (301, 5), (64, 32)] {
        let mut world = behind(foreign, window, &[Yes], &[Miss]);
        run_at_once(&mut world);
        assert_eq!((world.runs_of(0, foreign), world.now_ms), (1, 0), "{foreign} misses, window {window}");
        let mut world = behind(foreign, window, &[Yes], &[Error]);
        run_at_once(&mut world);
        assert_eq!(world.runs_of(0, foreign), 1, "{foreign} errors, window {window}");
    }
    let mut stuck = behind(100, 32, &[Yes], &[Miss]);
    stuck.mutation.never_roll = true;
    run_at_once(&mut stuck);
    assert_eq!(stuck.runs_of(0, 100), 0, "without a roll it is not reached");
}

#[test]
fn two_blocked_subscriptions_never_stop_a_third() {
    for window in [1, 2, 5, 32] {
        for first in [[Yes, Yes, Miss], [Yes, Miss, Miss], [Yes, Yes, Yes]] {
            let mut world = behind(200, window, &[Miss, Miss, Yes], &first);
            world.is_up = vec![false, false, true];
            run_at_once(&mut world);
            let third = (0..=200).filter(|at| world.runs_of(2, *at) == 1).count();
            let want = if first[2] == Yes { 201 } else { 1 };
            assert_eq!(third, want, "window {window}, {first:?}");
            assert!(world.kept_by_blocked() <= usize::from(window) / 2, "{}", world.kept_by_blocked());
        }
    }
    let mut stuck = behind(200, 8, &[Miss, Miss, Yes], &[Yes, Yes, Miss]);
    stuck.is_up = vec![false, false, true];
    stuck.mutation.blocked_keep_all = true;
    run_at_once(&mut stuck);
    assert_eq!(stuck.runs_of(2, 200), 0, "were they to keep all, the third would stand still");
}

#[test]
fn a_queue_whose_only_target_is_down_holds_a_window_and_returns_nothing() {
    let mut world = World::new(8, 1, vec![vec![Yes]; 50]);
    world.is_up[0] = false;
    for _ in 0..180 {
        run_at_once(&mut world);
        world.pass(1_000);
    }
    assert!(world.most_held <= 8, "{}", world.most_held);
    world.is_up[0] = true;
    for _ in 0..90 {
        run_at_once(&mut world);
        world.pass(1_000);
    }
    exactly_once(&world, 0).unwrap();
    assert!(world.messages.iter().all(|message| message.returns == 0));
}
