//! The ledger's rules walked through every order of events of a small world: a queue, Airflow, one or two watchers, each
//! arrow of the data flow, and a budget of crashes, broker kills and lost answers at any moment between two arrows.
//!
//! The search is exhaustive within its budgets: states are remembered, every successor is visited. Airflow and the broker
//! are modelled by what they guarantee: a run id exists once; an unsettled message comes back as redelivered; a killed
//! broker may also bring back what was settled shortly before.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod walks;

use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::domain::attempt::{Attempt, Command, Input, TargetView};
use crate::domain::outcome::{FoundRun, RunLookup, TriggerAnswer};
use crate::domain::retention::remembered;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Ready {
        redelivered: bool,
    },
    Held {
        watcher: usize,
    },
    /// Settled, but a kill of the broker may bring it back.
    Unsynced,
    /// In the dead-letter queue, from which somebody puts it back.
    DeadLettered,
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Delivered,
    Next(Command),
    /// The verb is on the wire.
    Verb,
    /// The broker has read the verb; we do not know it yet.
    Read,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Flight {
    message: usize,
    redelivered: bool,
    refused_times: u32,
    row: u32,
    attempt: Option<Attempt>,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Watcher {
    epoch: i64,
    rows: BTreeMap<char, Vec<Row>>,
    /// Rows that were removed had no number above this one.
    removed_up_to: u32,
    flights: Vec<Flight>,
}

/// Budgets of misfortune.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Luck {
    watcher_kills: u8,
    broker_kills: u8,
    lost_answers: u8,
    /// Rows that are removed.
    prunes: u8,
    /// Requests that Airflow refuses, for this time.
    refusals: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    key_kind: KeyKind,
    keys: Vec<char>,
    places: Vec<Place>,
    /// How often the broker dead-lettered each message.
    refused_times: Vec<u32>,
    /// Run ids in Airflow: all that counts is how many there are for each key.
    runs: BTreeMap<String, char>,
    watchers: Vec<Watcher>,
    luck: Luck,
    brought_back: bool,
    /// At a kill, a message had arrived and was not noted in the ledger yet.
    any_unnoted: bool,
}

const VIEW: TargetView = TargetView { is_failing: false, others_pass: false };

impl World {
    fn new(key_kind: KeyKind, keys: &str, watchers: usize, luck: Luck) -> Self {
        let keys: Vec<char> = keys.chars().collect();
        World {
            key_kind,
            places: vec![Place::Ready { redelivered: false }; keys.len()],
            refused_times: vec![0; keys.len()],
            keys,
            runs: BTreeMap::new(),
            watchers: vec![
                Watcher { epoch: 1, rows: BTreeMap::new(), removed_up_to: 0, flights: Vec::new() };
                watchers
            ],
            luck,
            brought_back: false,
            any_unnoted: false,
        }
    }

    fn successors(&self) -> Vec<World> {
        let mut next = Vec::new();
        for message in (0..self.places.len()).filter(|message| self.places[*message] == Place::DeadLettered) {
            let mut world = self.clone();
            world.places[message] = Place::Ready { redelivered: false };
            next.push(world);
        }
        if self.luck.prunes > 0 {
            next.extend(self.written());
            (0..self.watchers.len()).for_each(|w| next.extend(self.pruned(w)));
        }
        for w in 0..self.watchers.len() {
            next.extend(self.deliver(w));
            for f in 0..self.watchers[w].flights.len() {
                next.extend(self.advance(w, f));
            }
            if self.luck.watcher_kills > 0 {
                let mut world = self.clone();
                world.luck.watcher_kills -= 1;
                world.end_epoch(w, None);
                next.push(world);
            }
        }
        if self.luck.broker_kills > 0 {
            next.push(self.kill_broker(false));
            next.push(self.kill_broker(true));
        }
        next
    }

    /// The broker has written everything down.
    fn written(&self) -> Option<World> {
        let mut world = self.clone();
        let unsynced = world.places.iter_mut().filter(|place| **place == Place::Unsynced);
        let synced = unsynced.map(|place| *place = Place::Gone).count();
        (synced > 0).then_some(world)
    }

    /// Each settled row removed in turn: of messages that were settled long enough ago for no broker to bring them back.
    fn pruned(&self, w: usize) -> Vec<World> {
        let is_old = |key: &char| {
            let mut places = self.keys.iter().zip(&self.places).filter(|(of, _)| *of == key);
            !places.any(|(_, place)| *place == Place::Unsynced)
        };
        let rows = self.watchers[w].rows.iter().filter(|(key, _)| is_old(key));
        let is_driven = |key: char, n: u32| {
            let mut flights = self.watchers[w].flights.iter();
            flights.any(|flight| self.keys[flight.message] == key && flight.row == n)
        };
        let settled = rows.flat_map(|(key, rows)| {
            let settled = rows.iter().enumerate();
            let settled = settled.filter(|(_, row)| row.state == State::Settled && !is_driven(*key, row.n));
            settled.map(|(at, row)| (*key, at, row.n))
        });
        let pruned = settled.map(|(key, at, n)| {
            let mut world = self.clone();
            world.luck.prunes -= 1;
            let watcher = &mut world.watchers[w];
            watcher.rows.get_mut(&key).unwrap().remove(at);
            watcher.removed_up_to = watcher.removed_up_to.max(remembered(self.key_kind, n).unwrap_or(0));
            world
        });
        pruned.collect()
    }

    fn deliver(&self, w: usize) -> Option<World> {
        let message = self.places.iter().position(|place| matches!(place, Place::Ready { .. }))?;
        let Place::Ready { redelivered } = self.places[message] else { return None };
        let mut world = self.clone();
        world.places[message] = Place::Held { watcher: w };
        let refused_times = self.refused_times[message];
        let (row, attempt, stage) = (0, None, Stage::Delivered);
        world.watchers[w].flights.push(Flight { message, redelivered, refused_times, row, attempt, stage });
        Some(world)
    }

    /// A watcher or its connection dies: what it holds comes back, what is on the wire is lost.
    fn end_epoch(&mut self, w: usize, settled_before_end_ms: Option<i64>) {
        self.any_unnoted |= self.watchers[w].flights.iter().any(|flight| flight.stage == Stage::Delivered);
        let watcher = &mut self.watchers[w];
        watcher.flights.clear();
        for row in watcher.rows.values_mut().flatten().filter(|row| row.epoch.0 == watcher.epoch) {
            row.settled_before_end_ms = settled_before_end_ms;
        }
        watcher.epoch += 1;
        for place in &mut self.places {
            if *place == (Place::Held { watcher: w }) {
                *place = Place::Ready { redelivered: true };
            }
        }
    }

    fn kill_broker(&self, brings_back: bool) -> World {
        let mut world = self.clone();
        world.luck.broker_kills -= 1;
        (0..world.watchers.len()).for_each(|w| world.end_epoch(w, Some(0)));
        for place in world.places.iter_mut().filter(|place| **place == Place::Unsynced) {
            world.brought_back |= brings_back;
            *place = if brings_back { Place::Ready { redelivered: true } } else { Place::Gone };
        }
        world
    }

    fn advance(&self, w: usize, f: usize) -> Vec<World> {
        let flight = self.watchers[w].flights[f].clone();
        let mut world = self.clone();
        match &flight.stage {
            Stage::Delivered => world.bind(w, f),
            Stage::Next(Command::Trigger) => return self.trigger(w, f),
            Stage::Next(Command::LookUp) => {
                let (lookup, origin) = world.look_up(w, f);
                world.step(w, f, Input::LookedUp(lookup, origin));
            }
            Stage::Next(Command::TakeNextNumber) => {
                let key = self.keys[flight.message];
                // Above all numbers that anybody has counted to, as the time in seconds is.
                let n = (Seen::over(&world.watchers[w].rows[&key], "c", world.watchers[w].removed_up_to).highest + 1)
                    .max(100 + u32::try_from(world.runs.len()).unwrap());
                let row = world.row(w, f);
                row.n = n;
                world.watchers[w].flights[f].row = n;
                world.step(w, f, Input::Begin);
            }
            Stage::Next(Command::Hold(_)) => world.step(w, f, Input::Begin),
            Stage::Next(Command::Finish { outcome, .. }) => {
                let row = world.row(w, f);
                (row.state, row.outcome) = (State::Decided, Some(*outcome));
                world.row(w, f).state = State::VerbSent;
                world.watchers[w].flights[f].stage = Stage::Verb;
            }
            Stage::Verb => {
                let is_refused = world.row(w, f).outcome == Some(Outcome::Dlq);
                world.places[flight.message] = if is_refused { Place::DeadLettered } else { Place::Unsynced };
                world.refused_times[flight.message] += u32::from(is_refused);
                world.watchers[w].flights[f].stage = Stage::Read;
            }
            Stage::Read => {
                let row = world.row(w, f);
                if row.state == State::VerbSent {
                    row.state = State::Settled;
                }
                world.watchers[w].flights.remove(f);
            }
        }
        vec![world]
    }

    fn row(&mut self, w: usize, f: usize) -> &mut Row {
        let Flight { message, row, .. } = self.watchers[w].flights[f];
        let rows = self.watchers[w].rows.get_mut(&self.keys[message]).unwrap();
        rows.iter_mut().find(|r| r.n == row).unwrap()
    }

    fn bind(&mut self, w: usize, f: usize) {
        let key_kind = self.key_kind;
        let watcher = &mut self.watchers[w];
        let epoch = Epoch(watcher.epoch);
        let flight = &mut watcher.flights[f];
        let rows = watcher.rows.entry(self.keys[flight.message]).or_default();
        let redelivered = flight.redelivered;
        let refused_times = (flight.refused_times > 0).then_some(flight.refused_times);
        let arrival = Arrival { redelivered, refused_times, epoch, key_kind, content: "c" };
        let binding = bind(rows, Seen::over(rows, "c", watcher.removed_up_to), &arrival);
        let (n, attempt, stage) = match binding {
            Binding::New { n, .. } => {
                let content = "c".to_owned();
                rows.push(Row {
                    n,
                    state: State::Sent,
                    outcome: None,
                    run_id: None,
                    epoch,
                    is_first_delivery: !redelivered,
                    content,
                    replays: 0,
                    settled_before_end_ms: None,
                });
                (n, Attempt::fresh(key_kind, redelivered), None)
            }
            Binding::Replay { n } => {
                let row = rows.iter_mut().find(|row| row.n == n).unwrap();
                (row.outcome, row.replays) = (None, row.replays + 1);
                (n, Attempt::fresh(key_kind, redelivered), None)
            }
            Binding::Start { n } => (n, Attempt::fresh(key_kind, redelivered), None),
            Binding::LookUp { n } => (n, Attempt::resumed(key_kind, redelivered), None),
            Binding::SettleAgain { n, outcome } => {
                let done = Command::Finish { outcome, reason: String::new() };
                (n, Attempt::fresh(key_kind, redelivered), Some(Stage::Next(done)))
            }
        };
        let row = rows.iter_mut().find(|row| row.n == n).unwrap();
        row.epoch = epoch;
        row.state = if row.outcome.is_none() { State::Sent } else { row.state };
        (flight.row, flight.attempt) = (n, Some(attempt));
        match stage {
            Some(stage) => flight.stage = stage,
            None => self.step(w, f, Input::Begin),
        }
    }

    fn step(&mut self, w: usize, f: usize, input: Input) {
        let flight = &mut self.watchers[w].flights[f];
        flight.stage = Stage::Next(flight.attempt.as_mut().unwrap().step(input, VIEW, 0));
    }

    /// As `run_id` makes them: message ids share one, fingerprints have one for each n.
    fn run_id(&self, w: usize, f: usize) -> String {
        let Flight { message, row, .. } = self.watchers[w].flights[f];
        let key = self.keys[message];
        let replays = self.watchers[w].rows[&key].iter().find(|r| r.n == row).unwrap().replays;
        match self.key_kind {
            KeyKind::MessageId | KeyKind::DedupKey => format!("{key}r{replays}"),
            KeyKind::Fingerprint => format!("{key}{row}r{replays}"),
        }
    }

    fn trigger(&self, w: usize, f: usize) -> Vec<World> {
        let id = self.run_id(w, f);
        let key = self.keys[self.watchers[w].flights[f].message];
        let mut world = self.clone();
        let answer = match world.runs.insert(id, key) {
            None => TriggerAnswer::Created,
            Some(_) => TriggerAnswer::Conflict(String::new()),
        };
        let mut next = Vec::new();
        if world.luck.refusals > 0 {
            let mut refused = self.clone();
            refused.luck.refusals -= 1;
            refused.step(w, f, Input::Answer(TriggerAnswer::Refused(String::new())));
            next.push(refused);
        }
        if world.luck.lost_answers > 0 {
            let mut unlucky = world.clone();
            unlucky.luck.lost_answers -= 1;
            unlucky.step(w, f, Input::Answer(TriggerAnswer::Ambiguous(String::new())));
            let mut never_arrived = self.clone();
            never_arrived.luck.lost_answers -= 1;
            never_arrived.step(w, f, Input::Answer(TriggerAnswer::Ambiguous(String::new())));
            next.extend([unlucky, never_arrived]);
        }
        world.step(w, f, Input::Answer(answer));
        next.push(world);
        next
    }

    fn look_up(&self, w: usize, f: usize) -> (RunLookup, ConfOrigin) {
        match self.runs.get(&self.run_id(w, f)) {
            Some(_) => {
                let run = FoundRun { state: "queued".into(), conf: serde_json::Value::Null };
                (RunLookup::Found(run), ConfOrigin::Same)
            }
            None => (RunLookup::Absent, ConfOrigin::Silent),
        }
    }

    fn is_over(&self) -> bool {
        self.places.iter().all(|place| matches!(place, Place::Unsynced | Place::Gone))
            && self.watchers.iter().all(|watcher| watcher.flights.is_empty())
    }

    fn runs_of(&self, key: char) -> usize {
        self.runs.values().filter(|of| **of == key).count()
    }
}

/// Visits every state and hands the final ones to `check`; returns how many final states there were.
fn explore(start: World, check: impl Fn(&World)) -> usize {
    let (mut seen, mut open, mut ends) = (HashSet::new(), vec![start], 0);
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let next = world.successors();
        if world.is_over() {
            ends += 1;
            check(&world);
        } else {
            assert!(!next.is_empty(), "stuck: {world:#?}");
        }
        open.extend(next);
    }
    assert!(ends > 0);
    ends
}
