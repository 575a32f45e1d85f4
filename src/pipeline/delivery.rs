//! The way of one delivery: record intent → start the target → settle → record.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::channel::Held;
use super::context::{Arrow, Context};
use super::dags::ask_in_place;
use super::flights::{Flights, Seat};
use super::hold::{Woken, pause, unless_ended, wait};
use super::ledgered::{self, Ledgered};
use super::report::Report;
use crate::domain::attempt::{Attempt, Command, Hold, Input, Trouble, conf_origin};
use crate::domain::conf;
use crate::domain::dag_state::DagView;
use crate::domain::envelope::Envelope;
use crate::domain::gate::{Deliver, Dropped, Judgement, deliver, judge};
use crate::domain::key::{DeliveryKey, KeyKind};
use crate::domain::ledger::{Binding, ConfOrigin, Outcome};
use crate::domain::options::OnMissing;
use crate::domain::outcome::{RunLookup, TriggerAnswer};
use crate::domain::payload::{immediate_conf, message_head};
use crate::domain::shutdown::Phase;
use crate::domain::subscription::Subscription;
use crate::domain::target::TargetHistory;
use crate::ports::{Dags, Runs, Settler, Verb};
use crate::store::StoreError;
use crate::store::ledger::RowId;

/// What the deliveries of one consumer share.
pub(super) struct Desk<R, S> {
    pub(super) context: Rc<Context<R>>,
    pub(super) report: Report,
    pub(super) flights: Flights<S>,
    pub(super) phase: watch::Receiver<Phase>,
}

/// The row of a delivery, once there is one: for whoever has to clean up after a panic.
pub(super) type Noted = Rc<Cell<Option<RowId>>>;

/// Sees one delivery through to its end: settled, given back, or left to the end of its channel.
/// `subscription` holds the options that the delivery was received under, which count to its end.
pub(super) async fn handle<R: Runs + Dags, S: Settler>(
    desk: Rc<Desk<R, S>>,
    subscription: Rc<Subscription>,
    envelope: Envelope,
    held: Held<S>,
    noted: Noted,
) {
    let (key, phase) = (DeliveryKey::of(&envelope), desk.phase.clone());
    let dag = desk.context.dags.watch(&subscription.dag_id);
    let mut task = Task { desk, subscription, envelope, key, phase, dag, noted, tried: false };
    let Some(mut flight) = task.record_intent(held).await else { return };
    let ended = match task.start(&mut flight).await {
        Ok((outcome, reason)) => {
            flight.permit = None;
            task.settle(&flight, outcome, reason).await
        }
        Err(woken) => Err(woken),
    };
    if ended == Err(Woken::Deadline) {
        task.give_back(&flight).await;
    }
}

struct Task<R, S> {
    desk: Rc<Desk<R, S>>,
    subscription: Rc<Subscription>,
    envelope: Envelope,
    key: DeliveryKey,
    phase: watch::Receiver<Phase>,
    dag: watch::Receiver<DagView>,
    noted: Noted,
    /// Something was asked of the target.
    tried: bool,
}

/// A row under way. It lands by drop at the latest, so that no way out forgets it.
struct Flight<R, S> {
    desk: Rc<Desk<R, S>>,
    ledgered: Ledgered,
    seat: Rc<Seat<S>>,
    /// A place among the requests under way, taken before the row was written as sent.
    permit: Option<OwnedSemaphorePermit>,
    /// The row says that the run may have been asked for.
    recorded_sent: bool,
}

impl<R, S> Flight<R, S> {
    fn land(&self) {
        if let Some(row) = self.ledgered.row {
            self.desk.flights.land(row, &self.seat);
        }
    }
}

impl<R, S> Drop for Flight<R, S> {
    fn drop(&mut self) {
        self.land();
    }
}

impl<R: Runs + Dags, S: Settler> Task<R, S> {
    fn now_ms(&self) -> i64 {
        self.desk.context.now_ms()
    }

    /// Writes the row before anything is asked of the target. `None`: another task drives the row, or the delivery ended.
    async fn record_intent(&mut self, held: Held<S>) -> Option<Flight<R, S>> {
        self.desk.context.at(Arrow::Received);
        let seat = Seat::new(held);
        let mut permit = Arc::clone(&self.desk.context.requests).try_acquire_owned().ok();
        let mut tries = 0;
        let ledgered = loop {
            match self.bind(permit.is_some()).await {
                Ok(ledgered) => break ledgered,
                Err(error) => {
                    // Others may need the place meanwhile.
                    permit = None;
                    let desk = Rc::clone(&self.desk);
                    let _held = desk.report.store_refused(&desk.context, &error).await;
                    tries += 1;
                    self.pause(&seat, tries, None).await.ok()?;
                }
            }
        };
        if let Binding::New { id_collision: true, .. } = ledgered.binding {
            self.desk.report.id_collision(&ledgered.run_id, self.now_ms());
        }
        self.noted.set(ledgered.row);
        let seat = match ledgered.row {
            Some(row) => self.desk.flights.board(row, seat.take()?)?,
            None => seat,
        };
        self.desk.context.at(Arrow::Recorded);
        let recorded_sent = permit.is_some();
        Some(Flight { desk: Rc::clone(&self.desk), ledgered, seat, permit, recorded_sent })
    }

    async fn bind(&self, send: bool) -> Result<Ledgered, StoreError> {
        let (store, dag) = (&self.desk.context.store, &self.subscription.dag_id);
        ledgered::bind(store, &self.envelope, &self.key, dag, send, self.now_ms()).await
    }

    /// Asks for the run, and again, until the row has an outcome. An error says what ended the delivery before that.
    async fn start(&mut self, flight: &mut Flight<R, S>) -> Result<(Outcome, String), Woken> {
        let (kind, redelivered) = (self.key.kind(), self.envelope.redelivered);
        let mut attempt = match flight.ledgered.binding {
            Binding::New { .. } | Binding::Start { .. } => Attempt::fresh(kind, redelivered),
            Binding::LookUp { .. } => Attempt::resumed(kind, redelivered),
            Binding::SettleAgain { outcome, .. } => return Ok((outcome, String::new())),
        };
        let mut input = Input::Begin;
        loop {
            let view = self.history(|history, key| history.view(key));
            input = match attempt.step(input, view, self.now_ms()) {
                Command::Trigger => match self.clear_to_start(flight).await? {
                    None => Input::Answer(self.trigger(flight).await?),
                    Some(dropped) => {
                        let reason = dropped.code().to_owned();
                        self.say_finished(flight, Outcome::Dropped, &reason).await;
                        return Ok((Outcome::Dropped, reason));
                    }
                },
                Command::LookUp => self.look_up(flight).await?,
                Command::TakeNextNumber => self.take_next_number(flight).await?,
                Command::Hold(hold) => self.hold(flight, &hold).await?,
                Command::Finish { outcome, reason } => {
                    self.say_finished(flight, outcome, &reason).await;
                    return Ok((outcome, reason));
                }
            };
        }
    }

    /// Waits until a run may be asked for, or says why the message is dropped. That is decided on an answer to a question asked
    /// here and now; without one the delivery is held.
    async fn clear_to_start(&mut self, flight: &mut Flight<R, S>) -> Result<Option<Dropped>, Woken> {
        let options = &Rc::clone(&self.subscription).options;
        let mut tries = 0;
        loop {
            let view = self.dag.borrow_and_update().clone();
            let judgement = match deliver(options, &view) {
                Deliver::Start => Judgement::Start,
                Deliver::Hold(closed) => Judgement::Hold(closed),
                Deliver::AskAgain => {
                    let _place = self.permit(flight).await?;
                    let drops = options.on_missing == OnMissing::Ack;
                    let (said, view) = ask_in_place(&self.desk.context, &self.subscription.dag_id, drops).await;
                    judge(options, &view, &said)
                }
            };
            match judgement {
                Judgement::Start => return Ok(None),
                Judgement::Drop(reason) => return Ok(Some(reason)),
                Judgement::Hold(_) => {
                    flight.permit = None;
                    // The gate says why; it is looked at again when Airflow says something else.
                    drop(unless_ended(&flight.seat, &mut self.phase, self.dag.changed()).await?);
                }
                Judgement::Unsure(reason) => {
                    tries += 1;
                    let hold = Hold { trouble: Trouble::Unavailable, reason, at_least: None, tries };
                    self.hold(flight, &hold).await?;
                }
            }
        }
    }

    async fn trigger(&mut self, flight: &mut Flight<R, S>) -> Result<TriggerAnswer, Woken> {
        let conf = immediate_conf(&self.envelope, self.subscription.id);
        let answer = match conf::validate(&conf) {
            Err(problem) => TriggerAnswer::Refused(problem.to_string()),
            Ok(()) => {
                let _permit = self.permit_once_recorded(flight).await?;
                self.tried = true;
                self.desk.context.runs.trigger(&self.subscription.dag_id, &flight.ledgered.run_id, &conf).await
            }
        };
        self.desk.context.at(Arrow::Answered);
        if let TriggerAnswer::TargetFault(_) = &answer {
            self.desk.context.dags.doubt(&self.subscription.dag_id);
        }
        self.history(|history, key| match &answer {
            TriggerAnswer::Created => history.passed(key),
            TriggerAnswer::Refused(_) => history.refused(key),
            TriggerAnswer::Unavailable { server_error: true, .. } => history.server_error(key),
            TriggerAnswer::Unavailable { .. }
            | TriggerAnswer::Conflict(_)
            | TriggerAnswer::TargetFault(_)
            | TriggerAnswer::AccessFault(_)
            | TriggerAnswer::Ambiguous(_) => {}
        });
        Ok(answer)
    }

    async fn look_up(&mut self, flight: &mut Flight<R, S>) -> Result<Input, Woken> {
        let _permit = self.permit(flight).await?;
        let lookup = self.desk.context.runs.look_up(&self.subscription.dag_id, &flight.ledgered.run_id).await;
        let origin = match &lookup {
            RunLookup::Found(run) => conf_origin(&run.conf, &self.envelope),
            RunLookup::Absent | RunLookup::Unknown(_) => ConfOrigin::Silent,
        };
        Ok(Input::LookedUp(lookup, origin))
    }

    /// A place among the requests under way. Waiting for one ends with the delivery.
    async fn permit(&mut self, flight: &mut Flight<R, S>) -> Result<OwnedSemaphorePermit, Woken> {
        if let Some(permit) = flight.permit.take() {
            return Ok(permit);
        }
        let requests = Arc::clone(&self.desk.context.requests);
        let permit = unless_ended(&flight.seat, &mut self.phase, requests.acquire_owned()).await?;
        Ok(permit.expect("the semaphore is never closed"))
    }

    /// A place among the requests under way, with the row saying that the run may have been asked for. Without that record
    /// nothing is asked, except for a message whose id alone tells it apart. No place is kept while the state file is waited for.
    async fn permit_once_recorded(&mut self, flight: &mut Flight<R, S>) -> Result<OwnedSemaphorePermit, Woken> {
        let mut tries = 0;
        loop {
            let permit = self.permit(flight).await?;
            if flight.recorded_sent {
                return Ok(permit);
            }
            match flight.ledgered.mark_sent(&self.desk.context.store, self.now_ms()).await {
                Ok(()) => flight.recorded_sent = true,
                Err(_) if self.key.kind() == KeyKind::MessageId => return Ok(permit),
                Err(error) => {
                    drop(permit);
                    let desk = Rc::clone(&self.desk);
                    let _held = desk.report.store_refused(&desk.context, &error).await;
                    tries += 1;
                    self.pause(&flight.seat, tries, None).await?;
                }
            }
        }
    }

    async fn take_next_number(&mut self, flight: &mut Flight<R, S>) -> Result<Input, Woken> {
        let mut tries = 0;
        loop {
            flight.permit = None;
            match flight.ledgered.take_next_number(&self.desk.context.store, self.now_ms()).await {
                Ok(()) => return Ok(Input::Begin),
                Err(error) => {
                    let desk = Rc::clone(&self.desk);
                    let _held = desk.report.store_refused(&desk.context, &error).await;
                    tries += 1;
                    self.pause(&flight.seat, tries, None).await?;
                }
            }
        }
    }

    async fn hold(&mut self, flight: &mut Flight<R, S>, hold: &Hold) -> Result<Input, Woken> {
        flight.permit = None;
        let desk = Rc::clone(&self.desk);
        let _held = desk.report.holding(&desk.context, hold).await;
        self.pause(&flight.seat, hold.tries, hold.at_least).await?;
        Ok(Input::Begin)
    }

    async fn pause(&mut self, seat: &Seat<S>, tries: u32, at_least: Option<std::time::Duration>) -> Result<(), Woken> {
        let due = Instant::now() + pause(tries, at_least, self.desk.context.seed());
        match wait(seat, due, &mut self.phase).await {
            Woken::Due => Ok(()),
            ended @ (Woken::Lost | Woken::Deadline | Woken::Stopping) => Err(ended),
        }
    }

    fn history<T>(&self, look: impl FnOnce(&mut TargetHistory, &str) -> T) -> T {
        let mut targets = self.desk.context.targets.borrow_mut();
        look(targets.entry(self.subscription.dag_id.clone()).or_default(), self.key.text())
    }

    async fn say_finished(&self, flight: &Flight<R, S>, outcome: Outcome, reason: &str) {
        let Desk { report, context, .. } = &*self.desk;
        let run_id = &flight.ledgered.run_id;
        match outcome {
            Outcome::Started => report.started(run_id, self.now_ms()),
            Outcome::Duplicate => report.duplicate(run_id, self.now_ms()),
            Outcome::Dropped => report.dropped(run_id, reason, self.now_ms()),
            Outcome::Dlq => report.refused(run_id, reason, self.now_ms()),
        }
        report.passed(context, outcome).await;
    }

    /// Records the outcome, then tells the broker. What is refused is kept first, for want of a dead-letter exchange.
    async fn settle(&mut self, flight: &Flight<R, S>, outcome: Outcome, reason: String) -> Result<(), Woken> {
        let is_known = matches!(flight.ledgered.binding, Binding::SettleAgain { .. });
        if outcome == Outcome::Dlq && !is_known {
            self.keep_refused(flight, &reason).await?;
        }
        self.desk.context.at(Arrow::Decided);
        // A redelivery from here on has a flight of its own, and finds the outcome in the row or the run by its id.
        flight.land();
        let (store, now_ms) = (&self.desk.context.store, self.now_ms());
        let held = flight.seat.take().filter(Held::can_be_settled);
        let Some(held) = held else {
            if !is_known {
                flight.ledgered.decide(store, outcome, reason, now_ms).await;
            }
            return Err(Woken::Lost);
        };
        flight.ledgered.send_verb(store, outcome, reason, now_ms).await;
        held.settle(verb(outcome), flight.ledgered.row).await;
        self.desk.context.at(Arrow::VerbSent);
        Ok(())
    }

    async fn keep_refused(&mut self, flight: &Flight<R, S>, reason: &str) -> Result<(), Woken> {
        let Some(row) = flight.ledgered.row else {
            // Nothing is recorded of it, so nothing can be kept: hold it until the state file takes it.
            self.pause(&flight.seat, u32::MAX, Some(self.desk.context.limits.ack_deadline)).await?;
            return Err(Woken::Deadline);
        };
        let message = (message_head(&self.envelope).to_string(), self.envelope.body.clone());
        let mut tries = 0;
        loop {
            let kept =
                self.desk.context.store.keep_refused(row, reason.to_owned(), message.clone(), self.now_ms()).await;
            let Err(error) = kept else { return Ok(()) };
            let desk = Rc::clone(&self.desk);
            let _held = desk.report.store_refused(&desk.context, &error).await;
            tries += 1;
            self.pause(&flight.seat, tries, None).await?;
        }
    }

    /// The delivery has been held as long as it may: it goes back to the broker and comes again.
    async fn give_back(&self, flight: &Flight<R, S>) {
        let now_ms = self.now_ms();
        if let Some(row) = flight.ledgered.row
            && let Err(error) = self.desk.context.store.release(row, now_ms).await
        {
            // Given back without that record it would get a second row: it stays held to the end of its channel.
            return drop(self.desk.report.store_refused(&self.desk.context, &error).await);
        }
        flight.land();
        if let Some(held) = flight.seat.take() {
            let verb = if self.tried { Verb::GiveBackTried } else { Verb::GiveBackUntried };
            held.settle(verb, None).await;
        }
    }
}

fn verb(outcome: Outcome) -> Verb {
    match outcome {
        Outcome::Started | Outcome::Duplicate | Outcome::Dropped => Verb::Ack,
        Outcome::Dlq => Verb::DeadLetter,
    }
}
