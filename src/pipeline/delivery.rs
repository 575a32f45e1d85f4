//! The way of one delivery: judge → record intent → start every match → settle → record.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::channel::Held;
use super::context::{Arrow, Context};
use super::flights::{Boarding, Flights, Seat};
use super::hold::{Woken, pause, wait};
use super::ledgered::{self, Ledgered};
use super::matched::{InHand, Matched};
use super::member::Members;
use super::signals::Order;
use crate::domain::envelope::Envelope;
use crate::domain::ids::SubscriptionId;
use crate::domain::ledger::{Binding, Outcome};
use crate::domain::routing::{NoMatch, Verdict};
use crate::domain::settlement::{Match, SUBSCRIPTION_REMOVED, Settlement, settle};
use crate::domain::shutdown::Phase;
use crate::domain::table::Table;
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
    /// A target takes runs again.
    pub(super) recovered: Notify,
}

/// The rows of a delivery, once there are any: for whoever has to clean up after a panic.
pub(super) type Noted = Rc<RefCell<Vec<RowId>>>;

/// Sees one delivery through to its end: settled, given back, or left to the end of its channel.
pub(super) async fn handle<R: Runs + Dags, S: Settler>(
    desk: Rc<Desk<R, S>>,
    table: Table,
    envelope: Envelope,
    held: Held<S>,
    noted: Noted,
) {
    let hand = InHand::new(envelope, Seat::new(held));
    let (phase, aboard) = (desk.phase.clone(), Aboard { desk: Rc::clone(&desk), seat: Rc::clone(&hand.seat) });
    let mut delivery = Delivery {
        desk,
        table,
        hand,
        noted,
        matches: Vec::new(),
        no_match: None,
        again: Cell::default(),
        phase,
        aboard,
    };
    delivery.see_through().await;
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
    /// Its rows were released, to be judged anew.
    again: Cell<bool>,
    phase: watch::Receiver<Phase>,
    aboard: Aboard<R, S>,
}

impl<R: Runs + Dags, S: Settler> Delivery<R, S> {
    fn now_ms(&self) -> i64 {
        self.desk.context.now_ms()
    }

    async fn see_through(&mut self) {
        self.desk.context.at(Arrow::Received);
        while let Some(Judging::Anew) = self.judge_and_drive().await {
            self.again.set(true);
            self.table = self.desk.orders.borrow().table.clone();
        }
    }

    async fn judge_and_drive(&mut self) -> Option<Judging> {
        self.record_intent().await?;
        match self.hand_in().await? {
            Judging::Anew => return self.release_rows().await.ok().map(|()| Judging::Anew),
            Judging::Done => {}
        }
        self.desk.context.at(Arrow::Recorded);
        match self.drive().await {
            Ok(judging) => Some(judging),
            Err(Woken::Deadline) => {
                self.give_back().await;
                None
            }
            Err(Woken::Due | Woken::Lost | Woken::Stopping | Woken::Removed) => None,
        }
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
                    self.finish(Verb::DeadLetter, &drop).await?;
                    return Ok(Judging::Done);
                }
                Settlement::JudgeAgain => {
                    self.release_rows().await?;
                    return Ok(Judging::Anew);
                }
                Settlement::Park(_) => {
                    self.pause(u32::MAX, Some(Duration::from_secs(1))).await?;
                    return Err(Woken::Deadline);
                }
            }
        }
    }

    /// Drives the open matches beside one another until each has ended. An error is what ended the delivery for some.
    async fn run_matches(&mut self) -> Result<(), Woken> {
        let open = self.matches.iter_mut().filter(|one| !one.is_done());
        let mut under_way: FuturesUnordered<_> = open.map(Matched::run).collect();
        let mut ended = Ok(());
        while let Some(ran) = under_way.next().await {
            ended = ended.and(ran);
        }
        ended
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
            ended @ (Woken::Lost | Woken::Deadline | Woken::Stopping | Woken::Removed) => Err(ended),
        }
    }
}

/// What is next for a delivery.
enum Judging {
    /// Its rows were released: it is judged by the rows of now.
    Anew,
    /// Nothing.
    Done,
}
