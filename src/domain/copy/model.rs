//! The rules of copies walked through every order of events of one message: the original and its copies in the queue, a row,
//! a target, and a budget of copies and of kills between any two steps.
//!
//! The search is exhaustive within its budgets. At its end the message has exactly one run, whatever died.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::{BTreeSet, HashSet};

use super::*;
use crate::domain::ids::Epoch;
use crate::domain::key::KeyKind;
use crate::domain::ledger::{Arrival, Binding, Row, Seen, State, bind};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Ready { redelivered: bool },
    Held,
    Gone,
}

/// The original or a copy of it in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Instance {
    copy: u32,
    n: u32,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// May ask for the run, or make a copy.
    Drive,
    /// The row says sent; the request is to be made.
    Ask,
    Decide,
    /// The verb is on the wire; `replaced`: of a delivery that a copy stands for.
    Verb {
        replaced: bool,
    },
    Read {
        replaced: bool,
    },
    /// `made` is written.
    Publish,
    /// The copy is in the queue; the confirm is on its way.
    Confirm,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Flight {
    instance: usize,
    n: u32,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    key_kind: KeyKind,
    instances: Vec<Instance>,
    rows: Vec<(Row, Copies)>,
    runs: BTreeSet<u32>,
    flights: Vec<Flight>,
    epoch: i64,
    kills: u8,
    copies: u8,
}

impl World {
    fn new(key_kind: KeyKind, kills: u8, copies: u8) -> Self {
        let instances = vec![Instance { copy: 0, n: 0, place: Place::Ready { redelivered: false } }];
        let (rows, runs, flights) = (Vec::new(), BTreeSet::new(), Vec::new());
        Self { key_kind, instances, rows, runs, flights, epoch: 1, kills, copies }
    }

    fn successors(&self) -> Vec<Self> {
        let mut next = Vec::new();
        for (at, instance) in self.instances.iter().enumerate() {
            if let Place::Ready { .. } = instance.place {
                let mut world = self.clone();
                world.flights.push(Flight { instance: at, n: 0, stage: Stage::Drive });
                next.push(world.taking(at));
            }
        }
        for f in 0..self.flights.len() {
            next.extend(self.advance(f));
        }
        if self.kills > 0 {
            let mut world = self.clone();
            world.kills -= 1;
            world.epoch += 1;
            world.flights.clear();
            for instance in world.instances.iter_mut().filter(|instance| instance.place == Place::Held) {
                instance.place = Place::Ready { redelivered: true };
            }
            next.push(world);
        }
        next
    }

    /// The flight of a delivery knows from its place whether it was redelivered; the place is changed when it is bound.
    fn taking(mut self, instance: usize) -> Self {
        let redelivered = self.instances[instance].place == Place::Ready { redelivered: true };
        self.instances[instance].place = Place::Held;
        let f = self.flights.len() - 1;
        self.bind(f, redelivered);
        self
    }

    fn bind(&mut self, f: usize, redelivered: bool) {
        let Instance { copy, n, .. } = self.instances[self.flights[f].instance].clone();
        let (n, stage) = if copy > 0 { self.bind_copy(copy, n) } else { self.bind_original(redelivered) };
        let epoch = Epoch(self.epoch);
        if stage != (Stage::Verb { replaced: true }) {
            // What drove the row until now is replaced by this delivery.
            for (other, flight) in self.flights.iter_mut().enumerate().filter(|(_, flight)| flight.n == n) {
                let settles = matches!(flight.stage, Stage::Verb { .. } | Stage::Read { .. });
                if other != f && !settles {
                    flight.stage = Stage::Verb { replaced: true };
                }
            }
            self.row(n).0.epoch = epoch;
        }
        self.flights[f] = Flight { n, stage, ..self.flights[f].clone() };
    }

    fn bind_copy(&mut self, copy: u32, n: u32) -> (u32, Stage) {
        let run_id = RunId::new("r");
        let part = Part { target: "dag:a".into(), n, run_id, outcome: None };
        let (row, copies) = self.row(n);
        let binding = super::bind_copy(&part, copy, Some((row.state, row.outcome, *copies)));
        copies.confirmed = copies.confirmed.max(copy);
        let stage = match binding {
            CopyBinding::Stale => Stage::Verb { replaced: true },
            CopyBinding::SettleAgain(_) => Stage::Decide,
            CopyBinding::Start => Stage::Drive,
            CopyBinding::LookUp | CopyBinding::Adopt => Stage::Ask,
        };
        (n, stage)
    }

    fn bind_original(&mut self, redelivered: bool) -> (u32, Stage) {
        if redelivered && let Some((row, _)) = self.rows.iter().find(|(_, copies)| is_replaced(*copies)) {
            return (row.n, Stage::Verb { replaced: true });
        }
        let rows: Vec<Row> = self.rows.iter().map(|(row, _)| row.clone()).collect();
        let arrival = Arrival {
            redelivered,
            refused_times: None,
            epoch: Epoch(self.epoch),
            key_kind: self.key_kind,
            content: "c",
        };
        match bind(&rows, Seen::over(&rows, "c", 0), &arrival) {
            Binding::New { n, .. } => {
                let row = Row {
                    n,
                    state: State::Received,
                    outcome: None,
                    run_id: None,
                    epoch: Epoch(self.epoch),
                    is_first_delivery: !redelivered,
                    content: "c".into(),
                    replays: 0,
                    settled_before_end_ms: None,
                };
                self.rows.push((row, Copies::default()));
                (n, Stage::Drive)
            }
            Binding::Start { n } => (n, Stage::Drive),
            Binding::LookUp { n } | Binding::Replay { n } => (n, Stage::Ask),
            Binding::SettleAgain { n, .. } => (n, Stage::Decide),
        }
    }

    fn row(&mut self, n: u32) -> &mut (Row, Copies) {
        self.rows.iter_mut().find(|(row, _)| row.n == n).unwrap()
    }

    fn advance(&self, f: usize) -> Vec<Self> {
        let Flight { instance, n, stage } = self.flights[f].clone();
        let mut world = self.clone();
        let mut next = Vec::new();
        match stage {
            Stage::Drive => {
                if self.copies > 0 {
                    let mut copying = self.clone();
                    copying.copies -= 1;
                    let copies = &mut copying.row(n).1;
                    copies.original_is_open |= copies.made == 0;
                    copies.made = copies.next();
                    copying.flights[f].stage = Stage::Publish;
                    next.push(copying);
                }
                world.row(n).0.state = State::Sent;
                world.flights[f].stage = Stage::Ask;
            }
            Stage::Ask => {
                world.runs.insert(n);
                world.flights[f].stage = Stage::Decide;
            }
            Stage::Decide => {
                let row = &mut world.row(n).0;
                (row.state, row.outcome) = (State::VerbSent, Some(Outcome::Started));
                world.flights[f].stage = Stage::Verb { replaced: false };
            }
            Stage::Verb { replaced } => {
                world.instances[instance].place = Place::Gone;
                world.flights[f].stage = Stage::Read { replaced };
            }
            Stage::Read { replaced } => {
                let copy = world.instances[instance].copy;
                let (row, copies) = world.row(n);
                copies.original_is_open &= copy != 0;
                if !replaced {
                    row.state = State::Settled;
                }
                world.flights.remove(f);
            }
            Stage::Publish => {
                let copy = world.row(n).1.made;
                world.instances.push(Instance { copy, n, place: Place::Ready { redelivered: false } });
                world.flights[f].stage = Stage::Confirm;
            }
            Stage::Confirm => {
                let copies = &mut world.row(n).1;
                copies.confirmed = copies.confirmed.max(copies.made);
                world.flights[f].stage = Stage::Verb { replaced: true };
            }
        }
        next.push(world);
        next
    }
}

fn explore(start: World) -> usize {
    let (mut seen, mut open, mut ends) = (HashSet::new(), vec![start], 0);
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        if world.instances.iter().all(|instance| instance.place == Place::Gone) && world.flights.is_empty() {
            ends += 1;
            assert_eq!(world.runs.len(), 1, "{world:#?}");
        }
        open.extend(world.successors());
    }
    ends
}

#[test]
fn a_message_and_its_copies_start_one_run_whatever_dies() {
    for key_kind in [KeyKind::MessageId, KeyKind::Fingerprint] {
        for (kills, copies) in [(0, 2), (1, 2), (2, 1), (2, 2)] {
            assert!(explore(World::new(key_kind, kills, copies)) > 1, "{kills} {copies}");
        }
    }
}
