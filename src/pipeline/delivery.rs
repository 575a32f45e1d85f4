//! The way of one delivery: judge → record intent → start every match → settle → record.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::channel::Held;
use super::context::{Arrow, Context};
use super::flights::{Boarding, Flights, Seat};
use super::hold::{Woken, pause, wait};
use super::ledgered::{self, Ledgered};
use super::matched::{InHand, Matched};
use super::member::Members;
use super::parking::Parking;
use super::sight::Sight;
use super::signals::Order;
use crate::domain::envelope::Envelope;
use crate::domain::ids::SubscriptionId;
use crate::domain::ledger::{Binding, Outcome};
use crate::domain::miss_series::Seen;
use crate::domain::park::Why;
use crate::domain::payload::message_head;
use crate::domain::routing::{NoMatch, ReturnedFor, Verdict};
use crate::domain::settlement::{Match, SUBSCRIPTION_REMOVED, Settlement, settle};
use crate::domain::shutdown::Phase;
use crate::domain::table::Table;
use crate::domain::window::{Place, excess, place};
use crate::ports::{Dags, Runs, Settler, Verb};
use crate::store::StoreError;
use crate::store::ledger::{Candidate, RowId};

/// What the deliveries of one consumer share.
pub(super) struct Desk<R, S> {
    pub(super) context: Rc<Context<R>>,
    pub(super) members: Members,
    pub(super) flights: Flights<S>,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) orders: watch::Receiver<Order>,
    pub(super) sight: Sight,
}

/// The rows of a delivery, once there are any: for whoever has to clean up after a panic.
pub(super) type Noted = Rc<RefCell<Vec<RowId>>>;

/// Sees one delivery through to its end: settled, given back, or left to the end of its channel. What is returned is to be
/// parked.
pub(super) async fn handle<R: Runs + Dags, S: Settler>(
    desk: Rc<Desk<R, S>>,
    table: Table,
    envelope: Envelope,
    held: Held<S>,
    noted: Noted,
) -> Option<(Held<S>, Parking)> {
    let hand = InHand::new(envelope, Seat::new(held));
    let (phase, aboard) = (desk.phase.clone(), Aboard { desk: Rc::clone(&desk), seat: Rc::clone(&hand.seat) });
    let mut delivery = Delivery {
        desk,
        table,
        hand,
        noted,
        matches: Vec::new(),
        no_match: None,
        error: None,
        again: Cell::default(),
        phase,
        aboard,
    };
    let parking = delivery.see_through().await?;
    Some((delivery.hand.seat.take().filter(Held::can_be_settled)?, parking))
}

/// Rows under way. They land by drop at the latest, so that no way out forgets them.
struct Aboard<R, S> {
    desk: Rc<Desk<R, S>>,
    seat: Rc<Seat<S>>,
}

impl<R, S> Drop for Aboard<R, S> {
    fn drop(&mut self) {
        self.desk.flights.land(&self.seat);
    }
}

struct Delivery<R: Runs + Dags, S: Settler> {
    desk: Rc<Desk<R, S>>,
    /// The rows that it is judged by.
    table: Table,
    hand: Rc<InHand<S>>,
    noted: Noted,
    matches: Vec<Matched<R, S>>,
    no_match: Option<NoMatch>,
    /// What a filter failed with on it.
    error: Option<String>,
    /// Its rows were released, to be judged anew.
    again: Cell<bool>,
    phase: watch::Receiver<Phase>,
    aboard: Aboard<R, S>,
}

impl<R: Runs + Dags, S: Settler> Delivery<R, S> {
    fn now_ms(&self) -> i64 {
        self.desk.context.now_ms()
    }

    async fn see_through(&mut self) -> Option<Parking> {
        self.desk.context.at(Arrow::Received);
        self.desk.sight.learn(&self.hand.envelope);
        loop {
            match self.judge_and_drive().await? {
                Judging::Done => return None,
                Judging::Park(parking) => return Some(parking),
                Judging::Anew => {
                    self.again.set(true);
                    self.table = self.desk.orders.borrow().table.clone();
                }
            }
        }
    }

    async fn judge_and_drive(&mut self) -> Option<Judging> {
        self.record_intent().await?;
        match self.hand_in().await? {
            Judging::Anew => return self.release_rows().await.ok().map(|()| Judging::Anew),
            Judging::Done | Judging::Park(_) => {}
        }
        self.desk.context.at(Arrow::Recorded);
        match self.drive().await {
            Ok(judging) => Some(judging),
            Err(Woken::Deadline) => {
                self.give_back().await;
                None
            }
            Err(Woken::Crowded) => Some(Judging::Park(self.crowded())),
            Err(Woken::Due | Woken::Lost | Woken::Stopping | Woken::Removed) => None,
        }
    }

    fn bytes(&self) -> u64 {
        u64::try_from(self.hand.envelope.body.len()).unwrap_or(u64::MAX)
    }

    /// How long it may stay with us.
    fn time_left(&self) -> Duration {
        let left = self.hand.seat.with(|held| held.deadline.saturating_duration_since(Instant::now()));
        left.unwrap_or_default()
    }

    /// Parked behind the share of blocked subscriptions, to the ack deadline or until one of them takes runs again.
    fn crowded(&self) -> Parking {
        let rows = self.noted.borrow().clone();
        Parking { why: Why::Blocked, bytes: self.bytes(), pause: self.time_left(), stays: true, rows }
    }

    /// Parked because it starts nothing.
    fn unmatched(&self, reason: ReturnedFor) -> Parking {
        let Self { desk, hand, .. } = self;
        let ack_deadline = desk.context.limits.ack_deadline;
        let (pause, stays) = desk.sight.pause(&hand.envelope, &hand.key, ack_deadline);
        let (pause, rows) = (pause.min(self.time_left()), Vec::new());
        Parking { why: Why::NoMatch(reason), bytes: self.bytes(), pause, stays, rows }
    }

    /// Writes the rows before anything is asked of a target. `None`: the delivery ended.
    async fn record_intent(&mut self) -> Option<()> {
        let verdicts = self.table.judge(&self.hand.envelope, self.desk.context.body_limits());
        let mut places: Vec<(SubscriptionId, OwnedSemaphorePermit)> = Vec::new();
        for row in verdicts.rows.iter().filter(|row| row.verdict == Some(Verdict::Match)) {
            let place = Arc::clone(&self.desk.context.requests).try_acquire_owned();
            places.extend(place.ok().map(|place| (row.subscription, place)));
        }
        let mut tries = 0;
        let bound = loop {
            let has_place = |id| places.iter().any(|(of, _)| *of == id);
            let candidate = |(row, route): (&_, &Rc<crate::domain::table::Route>)| Candidate {
                target: format!("dag:{}", route.subscription.dag_id),
                key: None,
                row: *row,
                send: has_place(route.subscription.id),
            };
            let candidates = verdicts.rows.iter().zip(self.table.routes()).map(candidate).collect();
            let (store, what) = (&self.desk.context.store, (&self.hand.envelope, &self.hand.key));
            match ledgered::bind(store, what, candidates, self.again.get(), self.now_ms()).await {
                Ok(bound) => break bound,
                Err(error) => {
                    // Others may need the places meanwhile.
                    places.clear();
                    tries += 1;
                    self.store_refused(&error, tries).await.ok()?;
                }
            }
        };
        self.no_match = bound.no_match;
        if !self.again.get() {
            let (matched, dropped) = (!bound.matches.is_empty(), bound.no_match == Some(NoMatch::Drop));
            let error = verdicts.error.as_deref();
            self.desk.sight.note(&self.hand.envelope.queue, Seen { matched, dropped, error });
        }
        self.error = verdicts.error;
        let is_alone = bound.matches.len() == 1;
        self.noted.replace(bound.matches.iter().filter_map(|one| one.row).collect());
        let of = |ledgered: Ledgered| {
            let route = self.table.get(ledgered.subscription)?;
            let at = places.iter().position(|(of, _)| *of == ledgered.subscription);
            let place = at.map(|at| places.swap_remove(at).1);
            Some(Matched::new((&self.desk, &self.hand), &route.subscription, ledgered, place, is_alone))
        };
        self.matches = bound.matches.into_iter().filter_map(of).collect();
        for one in &self.matches {
            if let Binding::New { id_collision: true, .. } = one.ledgered.binding {
                one.member.report.id_collision(&one.ledgered.run_id, self.now_ms());
            }
        }
        Some(())
    }

    /// Takes the rows over. `None`: another task drives these very rows.
    async fn hand_in(&mut self) -> Option<Judging> {
        let rows = self.noted.borrow().clone();
        match self.desk.flights.board(&self.hand.seat, &rows) {
            Boarding::Seated => Some(Judging::Done),
            Boarding::Joined => None,
            Boarding::Taken(other) => {
                let landed = async {
                    other.landed().await;
                };
                super::hold::unless_ended(&self.hand.seat, &mut self.phase, landed).await.ok()?;
                Some(Judging::Anew)
            }
        }
    }

    fn states(&self) -> Vec<Match> {
        self.matches.iter().map(Matched::state).collect()
    }

    /// Does what the state of the matches calls for, until the delivery is settled.
    async fn drive(&mut self) -> Result<Judging, Woken> {
        loop {
            match settle(&self.states(), self.no_match) {
                Settlement::Hold { .. } => match self.run_matches().await {
                    // The rows' newest delivery may have taken the seat of a lost one.
                    Err(Woken::Lost) if self.hand.seat.with(Held::can_be_settled) == Some(true) => {}
                    ran => ran?,
                },
                Settlement::Ack { drop } => {
                    self.finish(Verb::Ack, &drop).await?;
                    return Ok(Judging::Done);
                }
                Settlement::DeadLetter { drop } => {
                    if self.matches.is_empty() {
                        return self.dead_letter_unread().await.map(|()| Judging::Done);
                    }
                    self.finish(Verb::DeadLetter, &drop).await?;
                    return Ok(Judging::Done);
                }
                Settlement::JudgeAgain => {
                    self.release_rows().await?;
                    return Ok(Judging::Anew);
                }
                Settlement::Park(NoMatch::Return(reason)) => return Ok(Judging::Park(self.unmatched(reason))),
                // Neither is given back.
                Settlement::Park(NoMatch::Drop | NoMatch::DeadLetter) => return Ok(Judging::Done),
            }
        }
    }

    /// Drives the open matches beside one another until each has ended. An error is what ended the delivery for some.
    async fn run_matches(&mut self) -> Result<(), Woken> {
        let Self { desk, hand, matches, .. } = self;
        let open = matches.iter_mut().filter(|one| !one.is_done());
        let mut under_way: FuturesUnordered<_> = open.map(Matched::run).collect();
        let (mut ended, mut kept, mut orders) = (Ok(()), None, desk.orders.clone());
        loop {
            tokio::select! {
                biased;
                ran = under_way.next() => match ran {
                    Some(ran) => ended = ended.and(ran),
                    None => return ended,
                },
                () = hand.changed.notified() => {}
                Ok(()) = orders.changed() => {}
            }
            if under_way.is_empty() || hand.blocked() < under_way.len() {
                kept = None;
                continue;
            }
            // Half a window of one is nothing, and nobody would be there to try the target again.
            let window = desk.context.limits.prefetch.max(2);
            let (members, facts) = (desk.orders.borrow().table.taking_part().count(), desk.sight.facts());
            let is_crowded = match kept {
                Some(_) => excess(window, members, desk.sight.kept(), &facts) > 0,
                None => place(window, members, desk.sight.kept(), &facts) == Place::Park,
            };
            if is_crowded {
                return ended.and(Err(Woken::Crowded));
            }
            kept.get_or_insert_with(|| desk.sight.keep());
        }
    }

    /// Dead-letters a message that no filter could read. It is kept first, for want of a dead-letter exchange.
    async fn dead_letter_unread(&mut self) -> Result<(), Woken> {
        let reason = self.error.clone().unwrap_or_default();
        let (envelope, key) = (&self.hand.envelope, &self.hand.key);
        let (delivery, message) = (
            ledgered::delivery(envelope, key, self.again.get()),
            (message_head(envelope).to_string(), envelope.body.clone()),
        );
        let mut tries = 0;
        let row = loop {
            let (delivery, message, now_ms) = (delivery.clone(), message.clone(), self.now_ms());
            match self.desk.context.store.keep_unread(delivery, reason.clone(), message, now_ms).await {
                Ok(row) => break row,
                Err(error) => {
                    tries += 1;
                    self.store_refused(&error, tries).await?;
                }
            }
        };
        let now_ms = self.now_ms();
        self.desk.members.all().iter().for_each(|member| member.report.unreadable(&reason, now_ms));
        let held = self.hand.seat.take().filter(Held::can_be_settled).ok_or(Woken::Lost)?;
        self.desk.context.store.send_verb(vec![(row, Outcome::Dlq, String::new())], now_ms).await;
        held.settle(Verb::DeadLetter, vec![row]).await;
        self.desk.context.at(Arrow::VerbSent);
        Ok(())
    }

    /// Records the outcomes, then tells the broker.
    async fn finish(&mut self, verb: Verb, gone: &[SubscriptionId]) -> Result<(), Woken> {
        for one in self.matches.iter_mut().filter(|one| gone.contains(&one.subscription.id)) {
            one.drop_with(SUBSCRIPTION_REMOVED);
            one.member.report.removed(&one.ledgered.run_id, one.desk.context.now_ms());
        }
        self.desk.context.at(Arrow::Decided);
        // A redelivery from here on has a flight of its own, and finds the outcomes in the rows or the runs by their ids.
        self.desk.flights.land(&self.aboard.seat);
        let (store, now_ms) = (&self.desk.context.store, self.now_ms());
        let Some(held) = self.hand.seat.take().filter(Held::can_be_settled) else {
            for one in self.matches.iter().filter(|one| !one.is_known) {
                if let (Some(row), Some((outcome, reason))) = (one.ledgered.row, one.outcome()) {
                    store.decide(row, *outcome, reason.clone(), now_ms).await;
                }
            }
            return Err(Woken::Lost);
        };
        let decided = |one: &Matched<R, S>| {
            let (outcome, reason) = one.outcome()?;
            Some((one.ledgered.row?, *outcome, reason.clone()))
        };
        let rows: Vec<(RowId, Outcome, String)> = self.matches.iter().filter_map(decided).collect();
        let ids = rows.iter().map(|(row, _, _)| *row).collect();
        if !rows.is_empty() {
            store.send_verb(rows, now_ms).await;
        }
        held.settle(verb, ids).await;
        self.desk.context.at(Arrow::VerbSent);
        Ok(())
    }

    /// Marks every row as given back, and lets it go.
    async fn release_rows(&mut self) -> Result<(), Woken> {
        let mut tries = 0;
        loop {
            let rows = self.noted.borrow().clone();
            let released = match rows.is_empty() {
                true => Ok(()),
                false => self.desk.context.store.release(rows, self.now_ms()).await,
            };
            match released {
                Ok(()) => {
                    self.desk.flights.land(&self.aboard.seat);
                    self.matches.clear();
                    return Ok(());
                }
                Err(error) => {
                    tries += 1;
                    self.store_refused(&error, tries).await?;
                }
            }
        }
    }

    /// The delivery has been held as long as it may: it goes back to the broker and comes again.
    async fn give_back(&mut self) {
        let rows = self.noted.borrow().clone();
        if !rows.is_empty()
            && let Err(error) = self.desk.context.store.release(rows, self.now_ms()).await
        {
            // Given back without that record it would get new rows: it stays held to the end of its channel.
            for one in self.desk.members.all() {
                drop(one.report.store_refused(&self.desk.context, &error).await);
            }
            return;
        }
        self.desk.flights.land(&self.aboard.seat);
        if let Some(held) = self.hand.seat.take() {
            let tried = self.matches.iter().any(|one| one.tried);
            held.settle(if tried { Verb::GiveBackTried } else { Verb::GiveBackUntried }, Vec::new()).await;
        }
    }

    async fn store_refused(&mut self, error: &StoreError, tries: u32) -> Result<(), Woken> {
        let (members, context) = (self.desk.members.all(), Rc::clone(&self.desk.context));
        let mut held = Vec::new();
        for member in &members {
            held.push(member.report.store_refused(&context, error).await);
        }
        self.pause(tries, None).await
    }

    async fn pause(&mut self, tries: u32, at_least: Option<Duration>) -> Result<(), Woken> {
        let due = Instant::now() + pause(tries, at_least, self.desk.context.seed());
        match wait(&self.hand.seat, due, &mut self.phase).await {
            Woken::Due => Ok(()),
            ended @ (Woken::Lost | Woken::Deadline | Woken::Stopping | Woken::Removed | Woken::Crowded) => Err(ended),
        }
    }
}

/// What is next for a delivery.
enum Judging {
    /// Its rows were released: it is judged by the rows of now.
    Anew,
    /// It is parked.
    Park(Parking),
    /// Nothing.
    Done,
}
