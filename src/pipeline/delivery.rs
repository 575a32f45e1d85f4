//! The way of one delivery: judge → record intent → start every match → settle → record.

mod ending;
mod intent;
mod spending;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::budget::{self, Call, HoldBack};
use super::channel::Held;
use super::context::{Arrow, Context};
use super::copies::Copies;
use super::flights::{Flights, Seat};
use super::hold::{Woken, pause, wait};
use super::in_hand::InHand;
use super::matched::Matched;
use super::member::Members;
use super::parking::Parking;
use super::sight::Sight;
use super::signals::Order;
use crate::domain::envelope::Envelope;
use crate::domain::options::OnBudget;
use crate::domain::park::Why;
use crate::domain::routing::{NoMatch, ReturnedFor};
use crate::domain::settlement::{Match, Settlement, settle};
use crate::domain::shutdown::Phase;
use crate::domain::table::Table;
use crate::domain::window::{Place, excess, leaves_room, place, prefetch, window};
use crate::ports::{Dags, Runs, Settler, Verb};
use crate::store::StoreError;
use crate::store::ledger::RowId;

/// What the deliveries of one consumer share.
pub(super) struct Desk<R, S> {
    pub(super) context: Rc<Context<R>>,
    pub(super) members: Members,
    pub(super) flights: Flights<S>,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) orders: watch::Receiver<Order>,
    pub(super) sight: Sight,
    pub(super) copies: Copies,
    pub(super) hold_back: Rc<HoldBack>,
}

impl<R, S> Desk<R, S> {
    /// The window of the queue.
    pub(super) fn window(&self) -> u16 {
        let orders = self.orders.borrow();
        let mut taking_part = orders.table.taking_part();
        let only = taking_part.next().filter(|_| taking_part.next().is_none());
        let runs = only.and_then(|route| route.subscription.options.max_concurrent_runs);
        window(self.context.limits.prefetch, runs)
    }

    /// The prefetch that its consumer should have.
    pub(super) fn prefetch(&self) -> u16 {
        let has_filter = self.orders.borrow().table.has_filter();
        prefetch(self.window(), &self.sight.facts(), has_filter)
    }
}

impl<R, S> Desk<R, S> {
    /// How long a delivery that arrives now may stay unsettled: as the most careful subscription says, and no longer than the
    /// broker waits.
    pub(super) fn ack_deadline(&self) -> Duration {
        let configured = self.context.limits.ack_deadline;
        self.sight.ack_deadline(self.orders.borrow().table.ack_deadline(configured))
    }
}
/// How long deliveries stay that are held beyond the share of blocked subscriptions.
const CROWDED_FOR: Duration = Duration::from_secs(1);

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
    let (envelope, copy) = desk.copies.undressed(envelope, &table, desk.context.body_limits());
    let number = copy.as_ref().map(|header| header.copy);
    let hand = InHand::new((envelope, copy), Seat::new(held, number));
    let (phase, aboard) = (desk.phase.clone(), Aboard { desk: Rc::clone(&desk), seat: Rc::clone(&hand.seat) });
    let mut delivery = Delivery {
        desk,
        table,
        hand,
        noted,
        matches: Vec::new(),
        no_match: None,
        beside: None,
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
    /// Its row as a message that is for nobody, where it has one.
    beside: Option<RowId>,
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
        self.keep_if_last().await;
        match self.drive().await {
            Ok(judging) => Some(judging),
            Err(Woken::Deadline) => {
                self.give_back().await;
                None
            }
            Err(Woken::Crowded) => Some(Judging::Park(self.crowded())),
            Err(Woken::Replaced) => {
                let rows = self.noted.borrow().clone();
                self.acknowledge_replaced(rows).await.ok()?;
                None
            }
            Err(Woken::Due | Woken::Lost | Woken::Stopping | Woken::Removed | Woken::Spent(_)) => None,
        }
    }

    fn bytes(&self) -> u64 {
        u64::try_from(self.hand.envelope.body.len()).unwrap_or(u64::MAX)
    }

    /// How long it may stay with us.
    fn time_left(&self) -> Duration {
        self.hand.seat.with(|held| held.time_left()).unwrap_or_default()
    }

    /// Parked behind the share of blocked subscriptions, to the ack deadline or until one of them takes runs again.
    fn crowded(&self) -> Parking {
        let rows = self.noted.borrow().clone();
        let waits_for = self.matches.iter().filter(|one| !one.is_done()).map(|one| one.subscription.id).collect();
        Parking { why: Why::Blocked, bytes: self.bytes(), pause: self.time_left(), stays: true, rows, waits_for }
    }

    /// Parked because it starts nothing.
    fn unmatched(&self, seen: u32, reason: ReturnedFor) -> Parking {
        let pause = self.desk.sight.pause(seen, self.desk.ack_deadline()).min(self.time_left());
        let (rows, waits_for) = (self.noted.borrow().clone(), Vec::new());
        Parking { why: Why::NoMatch(reason), bytes: self.bytes(), pause, stays: false, rows, waits_for }
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
                    Err(Woken::Spent(act)) => {
                        if self.spend(act).await? {
                            return Ok(Judging::Done);
                        }
                    }
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
                    self.have_kept().await?;
                    self.finish(Verb::DeadLetter, &drop).await?;
                    return Ok(Judging::Done);
                }
                Settlement::JudgeAgain => {
                    self.release_rows().await?;
                    return Ok(Judging::Anew);
                }
                Settlement::Park(NoMatch::Return(reason)) => return self.park_unmatched(reason).await,
                // Neither is given back.
                Settlement::Park(NoMatch::Drop | NoMatch::DeadLetter) => return Ok(Judging::Done),
            }
        }
    }

    /// Drives the open matches beside one another until each has ended. An error is what ended the delivery for some.
    async fn run_matches(&mut self) -> Result<(), Woken> {
        let Self { desk, hand, matches, .. } = self;
        let recorded = matches.iter().all(|one| one.ledgered.row.is_some());
        let wishes: Vec<OnBudget> =
            matches.iter().filter(|one| !one.is_done()).map(|one| one.subscription.options.on_budget).collect();
        let mut look = None;
        let open = matches.iter_mut().filter(|one| !one.is_done());
        let mut under_way: FuturesUnordered<_> = open.map(Matched::run).collect();
        let (mut ended, mut kept, mut orders) = (Ok(()), None, desk.orders.clone());
        let (mut targets, mut crowded_at) = (desk.context.targets.changes(), None);
        loop {
            tokio::select! {
                biased;
                ran = under_way.next() => match ran {
                    Some(ran) => ended = ended.and(ran),
                    None => return ended,
                },
                () = hand.changed.notified() => {}
                Ok(()) = orders.changed() => {}
                () = sleep_until(look.unwrap_or_else(Instant::now)), if look.is_some() => {}
                Ok(()) = targets.changed(), if kept.is_some() => {}
                () = sleep_until(crowded_at.unwrap_or_else(Instant::now)), if crowded_at.is_some() => {}
            }
            look = None;
            if under_way.is_empty() || hand.blocked() < under_way.len() {
                (kept, crowded_at) = (None, None);
                continue;
            }
            if hand.seat.is_replaced() {
                return ended.and(Err(Woken::Replaced));
            }
            match budget::call(desk, hand, &wishes, recorded) {
                Call::Nothing => {}
                Call::Act(act) => return ended.and(Err(Woken::Spent(act))),
                Call::Stay(at) => {
                    // Parked it would come back.
                    look = at;
                    kept.get_or_insert_with(|| desk.sight.keep());
                    continue;
                }
            }
            // Half a window of one is nothing, and nobody would be there to try the target again.
            let window = desk.window().max(2);
            let (members, facts) = (desk.orders.borrow().table.taking_part().count(), desk.sight.facts());
            let is_crowded = match kept {
                _ if !leaves_room(desk.members.can_any_run(&desk.orders.borrow().table), &facts) => false,
                Some(_) => excess(window, members, desk.sight.kept(), &facts) > 0,
                None => place(window, members, desk.sight.kept(), &facts) == Place::Park,
            };
            // What is held already leaves a little later: where Airflow as a whole was down, others recover at about the same time.
            let is_over = kept.is_none() || crowded_at.is_some_and(|at| at <= Instant::now());
            if is_crowded && is_over {
                return ended.and(Err(Woken::Crowded));
            }
            crowded_at = is_crowded.then(|| crowded_at.unwrap_or_else(|| Instant::now() + CROWDED_FOR));
            kept.get_or_insert_with(|| desk.sight.keep());
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
            ended @ (Woken::Lost
            | Woken::Deadline
            | Woken::Stopping
            | Woken::Removed
            | Woken::Crowded
            | Woken::Spent(_)
            | Woken::Replaced) => Err(ended),
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
