//! The decisions of a shared queue put together and walked at random: a queue, one consumer with a window, subscriptions with
//! verdicts, targets that go up and down, and kills between any two steps.
//!
//! Routing, settlement, parking, windows, breakers and the ledger's binding are the product's own; the broker and Airflow are
//! modelled by what they guarantee. The pipeline around them is as thin here as can be: what it must do in which order is
//! what ADR-0024 says it does.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::attempt::Trouble;
use super::breaker::{Breaker, Permission, Sign};
use super::ids::{DeliveryTag, Epoch, SubscriptionId};
use super::key::KeyKind;
use super::ledger::{self, Arrival, Binding, Outcome, Seen, State};
use super::options::OnUnreadable;
use super::park::{Parked, ParkedSet, Room, Why, pause, should_roll};
use super::queue_facts::{Limit, QueueFacts};
use super::routing::{NoMatch, Row, Standing, Verdict};
use super::settlement::{Judged, Match, Progress, Settlement, judge, settle};
use super::window::{Blocker, Consuming, Member, Place, Stream, consuming, place};

#[cfg(test)]
mod tests;

const DEADLINE: Duration = Duration::from_secs(1500);

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Ready,
    Unsettled,
    Acked,
    DeadLettered,
}

#[derive(Clone, Debug)]
struct Message {
    verdicts: Vec<Verdict>,
    place: Where,
    redelivered: bool,
    returns: u32,
}

/// A delivery on its way, not parked.
#[derive(Clone, Debug)]
struct Flight {
    message: usize,
    tag: u64,
    turn: u32,
    since_ms: i64,
    /// Its open matches all belong to blocked subscriptions.
    is_blocked: bool,
    judged: Option<Judged>,
    /// Row numbers of its matches.
    rows: BTreeMap<i64, u32>,
    /// The verb is on the wire.
    verb: Option<Where>,
}

/// What the world may do wrong in a step.
#[derive(Clone, Copy, Debug, Default)]
struct Mutation {
    rows_one_by_one: bool,
    blocked_keep_all: bool,
    never_roll: bool,
}

struct World {
    now_ms: i64,
    epoch: i64,
    window: u16,
    key_kind: KeyKind,
    mutation: Mutation,
    messages: Vec<Message>,
    ready: BTreeSet<usize>,
    rows: Vec<Row>,
    is_up: Vec<bool>,
    breakers: Vec<Breaker>,
    ledger: BTreeMap<(i64, usize), Vec<ledger::Row>>,
    runs: BTreeMap<(i64, usize, u32), u32>,
    is_consuming: bool,
    flights: Vec<Flight>,
    parked: ParkedSet,
    parked_messages: BTreeMap<u64, usize>,
    next_tag: u64,
    most_held: usize,
    kills: u32,
}

impl World {
    fn new(window: u16, subscriptions: usize, verdicts: Vec<Vec<Verdict>>) -> Self {
        let row = |id: i64| Row {
            subscription: SubscriptionId(id),
            standing: Standing::Listening,
            ack_unmatched: false,
            on_unreadable: OnUnreadable::Return,
            verdict: None,
        };
        let message = |verdicts| Message { verdicts, place: Where::Ready, redelivered: false, returns: 0 };
        let messages: Vec<_> = verdicts.into_iter().map(message).collect();
        Self {
            now_ms: 0,
            epoch: 1,
            window,
            key_kind: KeyKind::Fingerprint,
            mutation: Mutation::default(),
            ready: (0..messages.len()).collect(),
            messages,
            rows: (0..i64::try_from(subscriptions).unwrap()).map(row).collect(),
            is_up: vec![true; subscriptions],
            breakers: vec![Breaker::default(); subscriptions],
            ledger: BTreeMap::new(),
            runs: BTreeMap::new(),
            is_consuming: true,
            flights: Vec::new(),
            parked: ParkedSet::new(Epoch(1)),
            parked_messages: BTreeMap::new(),
            next_tag: 1,
            most_held: 0,
            kills: 0,
        }
    }

    fn facts() -> QueueFacts {
        QueueFacts { single_active_consumer: Some(false), exclusive: Some(false), ..QueueFacts::default() }
    }

    fn members(&self) -> Vec<Member> {
        let taking = self.rows.iter().filter(|row| row.standing.takes_part());
        let member = |row: &Row| {
            let at = usize::try_from(row.subscription.0).unwrap();
            let has_held = self.flights.iter().any(|flight| flight.waits_for(row.subscription));
            let blocker = self.breakers[at].blocked(has_held, self.now_ms).map(Blocker::Target);
            Member { subscription: row.subscription, blocker }
        };
        taking.map(member).collect()
    }

    /// The consumer as the window's rules want it, then one delivery if the broker has one to give.
    fn deliver(&mut self) -> bool {
        let held = self.flights.len();
        let stream = Stream { is_consuming: self.is_consuming, held, window: self.window };
        let was_consuming = self.is_consuming;
        self.is_consuming = consuming(&self.members(), stream, &Self::facts()) == Consuming::Consume;
        let in_turn = self.parked.in_turn();
        let rolls = should_roll(self.window, in_turn, held, !self.mutation.never_roll);
        if self.is_consuming && (!was_consuming || rolls) {
            self.parked.rolled();
        }
        let counted =
            self.flights.iter().filter(|flight| flight.turn == self.parked.turn()).count() + self.parked.in_turn();
        if !self.is_consuming || counted >= usize::from(self.window) {
            return false;
        }
        let Some(message) = self.ready.pop_first() else { return false };
        self.messages[message].place = Where::Unsettled;
        self.flights.push(Flight {
            message,
            tag: self.next_tag,
            turn: self.parked.turn(),
            since_ms: self.now_ms,
            is_blocked: false,
            judged: None,
            rows: BTreeMap::new(),
            verb: None,
        });
        self.next_tag += 1;
        self.most_held = self.most_held.max(self.flights.len());
        true
    }

    /// One step of a delivery. A kill may come before it or after it.
    fn advance(&mut self, f: usize) {
        if let Some(verb) = self.flights[f].verb {
            return self.read_verb(f, verb);
        }
        let standings = self.rows.clone();
        for one in self.flights[f].judged.iter_mut().flat_map(|judged| &mut judged.matches) {
            let row = standings.iter().find(|row| row.subscription == one.subscription).unwrap();
            one.is_wanted = row.standing.takes_part();
        }
        let Some(judged) = self.flights[f].judged.clone() else { return self.judge(f) };
        match settle(&judged.matches, judged.no_match) {
            Settlement::Ack { drop } => self.send_verb(f, &drop, Where::Acked),
            Settlement::DeadLetter { drop } => self.send_verb(f, &drop, Where::DeadLettered),
            Settlement::Hold { look_up, start } => self.try_all(f, look_up, start),
            Settlement::JudgeAgain => {
                self.flights[f].judged = None;
                self.judge(f);
            }
            Settlement::Park(why) => self.park_no_match(f, why),
        }
    }

    /// The rows of all matches are bound or made in one transaction.
    fn judge(&mut self, f: usize) {
        let Flight { message, ref rows, .. } = self.flights[f];
        let (redelivered, verdicts) = (self.messages[message].redelivered, self.messages[message].verdicts.clone());
        let arrival = Arrival {
            redelivered,
            refused_times: None,
            epoch: Epoch(self.epoch),
            key_kind: self.key_kind,
            content: "c",
        };
        let mut numbers = rows.clone();
        let mut frozen: Vec<Match> = Vec::new();
        for row in self.rows.clone() {
            let id = row.subscription;
            let of_key = self.ledger.get(&(id.0, message)).cloned().unwrap_or_default();
            let own = numbers.get(&id.0).and_then(|n| of_key.iter().find(|row| row.n == *n));
            let progress = match own {
                Some(own) => match (own.state, own.outcome) {
                    (_, Some(outcome)) => Progress::Done(outcome),
                    (State::Received, None) => Progress::Unsent,
                    (State::Sent | State::Decided | State::VerbSent | State::Settled, None) => Progress::InDoubt,
                },
                None => match ledger::bind(&of_key, Seen::over(&of_key, "c", 0), &arrival) {
                    Binding::New { .. } => continue,
                    Binding::Start { n } => self.bound(&mut numbers, (id.0, message), n, Progress::Unsent),
                    Binding::LookUp { n } | Binding::Replay { n } => {
                        self.bound(&mut numbers, (id.0, message), n, Progress::InDoubt)
                    }
                    Binding::SettleAgain { n, outcome } => {
                        self.bound(&mut numbers, (id.0, message), n, Progress::Done(outcome))
                    }
                },
            };
            frozen.push(Match { subscription: id, progress, is_wanted: row.standing.takes_part() });
        }
        let with_verdicts: Vec<Row> =
            self.rows.iter().zip(verdicts).map(|(row, verdict)| Row { verdict: Some(verdict), ..*row }).collect();
        let judged = judge(&frozen, &with_verdicts);
        for id in &judged.release {
            let n = numbers.remove(&id.0).unwrap();
            self.row((id.0, message), n).epoch = ledger::RELEASED;
        }
        let most = if self.mutation.rows_one_by_one { 1 } else { judged.matches.len() };
        for one in judged.matches.iter().take(most) {
            let id = one.subscription.0;
            numbers.entry(id).or_insert_with(|| {
                let of_key = self.ledger.entry((id, message)).or_default();
                let n = Seen::over(of_key, "c", 0).highest + 1;
                of_key.push(new_row(n, Epoch(self.epoch), !redelivered));
                n
            });
        }
        (self.flights[f].judged, self.flights[f].rows) = (Some(judged), numbers);
    }

    fn bound(&mut self, numbers: &mut BTreeMap<i64, u32>, key: (i64, usize), n: u32, progress: Progress) -> Progress {
        numbers.insert(key.0, n);
        self.row(key, n).epoch = Epoch(self.epoch);
        progress
    }

    fn row(&mut self, key: (i64, usize), n: u32) -> &mut ledger::Row {
        self.ledger.get_mut(&key).unwrap().iter_mut().find(|row| row.n == n).unwrap()
    }

    /// Asks for every run that may be asked for now; keeps or parks the delivery where none may.
    fn try_all(&mut self, f: usize, look_up: Vec<SubscriptionId>, start: Vec<SubscriptionId>) {
        let mut has_asked = false;
        for id in look_up.iter().chain(&start) {
            let at = usize::try_from(id.0).unwrap();
            let message = self.flights[f].message;
            let others_wait = self.flights.iter().any(|flight| flight.message != message && flight.waits_for(*id));
            let key = message.to_string();
            match self.breakers[at].ask(&key, others_wait, self.now_ms) {
                Permission::Go | Permission::GoAsProbe => {}
                Permission::Wait { .. } | Permission::LetAnother => continue,
            }
            has_asked = true;
            self.ask(f, *id);
            let down = || Sign::Down { trouble: Trouble::Unavailable, reason: "down".into(), at_least: None };
            let sign = if self.is_up[at] { Sign::Works } else { down() };
            self.breakers[at].answered(&key, sign, self.now_ms, 0);
            // One request a step, so that a kill can come between two.
            break;
        }
        let was_blocked = std::mem::replace(&mut self.flights[f].is_blocked, !has_asked);
        if has_asked || was_blocked {
            return;
        }
        let kept = self.flights.iter().filter(|flight| flight.is_blocked).count() - 1;
        let subscriptions = self.members().len();
        let parks = place(self.window, subscriptions, kept, &Self::facts()) == Place::Park;
        if parks && !self.mutation.blocked_keep_all && self.parked.room(1) == Room::Free {
            self.park(f, Why::Blocked, DEADLINE);
        }
    }

    /// A request. Where the target is down its answer is lost: it may have been carried out.
    fn ask(&mut self, f: usize, id: SubscriptionId) {
        let message = self.flights[f].message;
        // The row is written before anything is asked; where rows are made one by one, only now.
        let n = self.flights[f].rows.get(&id.0).copied().unwrap_or_else(|| {
            let of_key = self.ledger.entry((id.0, message)).or_default();
            let n = Seen::over(of_key, "c", 0).highest + 1;
            of_key.push(new_row(n, Epoch(self.epoch), true));
            n
        });
        self.flights[f].rows.insert(id.0, n);
        let is_up = self.is_up[usize::try_from(id.0).unwrap()];
        let judged = self.flights[f].judged.as_ref().unwrap();
        let is_wanted = judged.matches.iter().any(|one| one.subscription == id && one.is_wanted);
        // Of one whose subscription went, the run is looked up and not asked for.
        if is_wanted && (is_up || self.now_ms % 2 == 0) {
            self.runs.entry((id.0, message, n)).or_insert(1);
        }
        let is_there = self.runs.contains_key(&(id.0, message, n));
        let (progress, state, outcome) = match (is_up, is_there) {
            (true, true) => (Progress::Done(Outcome::Started), State::Decided, Some(Outcome::Started)),
            (true, false) => (Progress::Unsent, State::Received, None),
            (false, _) => (Progress::InDoubt, State::Sent, None),
        };
        let row = self.row((id.0, message), n);
        (row.state, row.outcome) = (state, outcome);
        let judged = self.flights[f].judged.as_mut().unwrap();
        judged.matches.iter_mut().find(|one| one.subscription == id).unwrap().progress = progress;
    }

    fn park_no_match(&mut self, f: usize, why: NoMatch) {
        let NoMatch::Return(reason) = why else { panic!("{why:?} is settled") };
        if self.parked.room(1) == Room::Free {
            let seen = self.messages[self.flights[f].message].returns;
            self.park(f, Why::NoMatch(reason), pause(seen, Limit::None, DEADLINE));
        }
    }

    fn park(&mut self, f: usize, why: Why, pause: Duration) {
        let Flight { message, tag, turn, .. } = self.flights.remove(f);
        let due_ms = self.now_ms + i64::try_from(pause.as_millis()).unwrap();
        self.parked.park(Parked { tag: DeliveryTag(tag), turn, bytes: 1, due_ms, why });
        self.parked_messages.insert(tag, message);
    }

    fn send_verb(&mut self, f: usize, drop: &[SubscriptionId], verb: Where) {
        let Flight { message, ref rows, .. } = self.flights[f];
        for (id, n) in rows.clone() {
            let row = self.row((id, message), n);
            row.state = State::VerbSent;
            if drop.contains(&SubscriptionId(id)) {
                row.outcome = Some(Outcome::Dropped);
            }
        }
        self.flights[f].verb = Some(verb);
    }

    fn read_verb(&mut self, f: usize, verb: Where) {
        let Flight { message, rows, .. } = self.flights.remove(f);
        self.messages[message].place = verb;
        for (id, n) in rows {
            self.row((id, message), n).state = State::Settled;
        }
    }

    /// Time passes: what is due goes back, its rows marked first.
    fn pass(&mut self, ms: i64) {
        self.now_ms += ms;
        for one in self.parked.take_due(self.now_ms) {
            let message = self.parked_messages.remove(&one.tag.0).unwrap();
            self.give_back(message);
        }
        let deadline = self.now_ms - i64::try_from(DEADLINE.as_millis()).unwrap();
        while let Some(f) = self.flights.iter().position(|flight| flight.verb.is_none() && flight.since_ms <= deadline)
        {
            let flight = self.flights.remove(f);
            for breaker in &mut self.breakers {
                breaker.abandoned(&flight.message.to_string(), self.now_ms);
            }
            self.give_back(flight.message);
        }
    }

    fn give_back(&mut self, message: usize) {
        let epoch = Epoch(self.epoch);
        let of_message = self.ledger.iter_mut().filter(|((_, of), _)| *of == message).flat_map(|(_, rows)| rows);
        of_message.filter(|row| row.epoch == epoch).for_each(|row| row.epoch = ledger::RELEASED);
        self.back(message);
    }

    fn back(&mut self, message: usize) {
        let m = &mut self.messages[message];
        (m.place, m.redelivered, m.returns) = (Where::Ready, true, m.returns + 1);
        self.ready.insert(message);
    }

    /// The watcher is killed and starts again. Verbs on the wire are lost.
    fn kill(&mut self) {
        self.kills += 1;
        self.epoch += 1;
        (self.flights, self.parked) = (Vec::new(), ParkedSet::new(Epoch(self.epoch)));
        self.parked_messages.clear();
        self.breakers.iter_mut().for_each(|breaker| *breaker = Breaker::default());
        self.is_consuming = false;
        for message in 0..self.messages.len() {
            if self.messages[message].place == Where::Unsettled {
                self.back(message);
            }
        }
    }

    fn runs_of(&self, subscription: i64, message: usize) -> usize {
        self.runs.keys().filter(|(id, of, _)| (*id, *of) == (subscription, message)).count()
    }

    fn kept_by_blocked(&self) -> usize {
        self.flights.iter().filter(|flight| flight.is_blocked).count()
    }
}

impl Flight {
    fn waits_for(&self, id: SubscriptionId) -> bool {
        let matches = self.judged.iter().flat_map(|judged| &judged.matches);
        let is_open = |one: &Match| matches!(one.progress, Progress::Unsent | Progress::InDoubt);
        matches.clone().any(|one| one.subscription == id && is_open(one))
    }
}

fn new_row(n: u32, epoch: Epoch, is_first_delivery: bool) -> ledger::Row {
    ledger::Row {
        n,
        state: State::Received,
        outcome: None,
        run_id: None,
        epoch,
        is_first_delivery,
        content: "c".into(),
        replays: 0,
        settled_before_end_ms: None,
    }
}
