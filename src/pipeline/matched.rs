//! The way of one match of a delivery: start the target, and again, until its row has an outcome.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

use super::body;
use super::context::Arrow;
use super::dags::ask_in_place;
use super::delivery::Desk;
use super::flights::Seat;
use super::hold::{Woken, pause, unless_ended};
use super::ledgered::Ledgered;
use super::member::Member;
use super::signals::Order;
use crate::domain::attempt::{Attempt, Command, Hold, Input, Trouble, conf_origin};
use crate::domain::dag_state::DagView;
use crate::domain::envelope::Envelope;
use crate::domain::gate::{Deliver, Dropped, Judgement, deliver, judge};
use crate::domain::key::{DeliveryKey, KeyKind};
use crate::domain::ledger::{Binding, ConfOrigin, Outcome};
use crate::domain::options::OnMissing;
use crate::domain::outcome::{RunLookup, TriggerAnswer};
use crate::domain::payload::message_head;
use crate::domain::settlement::{Match, Progress};
use crate::domain::shutdown::Phase;
use crate::domain::subscription::Subscription;
use crate::domain::target::TargetHistory;
use crate::ports::{Dags, Runs, Settler};
use crate::store::StoreError;

/// A delivery as its matches see it.
pub(super) struct InHand<S> {
    pub(super) envelope: Envelope,
    pub(super) key: DeliveryKey,
    pub(super) seat: Rc<Seat<S>>,
    /// Matches that wait for their target.
    blocked: Cell<usize>,
    /// That number has changed.
    pub(super) changed: Notify,
}

impl<S> InHand<S> {
    pub(super) fn new(envelope: Envelope, seat: Rc<Seat<S>>) -> Rc<Self> {
        let key = DeliveryKey::of(&envelope);
        Rc::new(Self { envelope, key, seat, blocked: Cell::default(), changed: Notify::new() })
    }

    pub(super) fn blocked(&self) -> usize {
        self.blocked.get()
    }

    fn block(self: &Rc<Self>) -> Blocked<S> {
        self.blocked.set(self.blocked.get() + 1);
        self.changed.notify_one();
        Blocked(Rc::clone(self))
    }
}

/// One match waits for its target for as long as this lives.
struct Blocked<S>(Rc<InHand<S>>);

impl<S> Drop for Blocked<S> {
    fn drop(&mut self) {
        self.0.blocked.set(self.0.blocked.get() - 1);
        self.0.changed.notify_one();
    }
}

/// One match. `subscription` holds the options that the delivery was received under, which count to its end.
pub(super) struct Matched<R, S> {
    pub(super) desk: Rc<Desk<R, S>>,
    pub(super) hand: Rc<InHand<S>>,
    pub(super) member: Rc<Member>,
    pub(super) subscription: Rc<Subscription>,
    pub(super) ledgered: Ledgered,
    attempt: Attempt,
    /// Its outcome, and why.
    done: Option<(Outcome, String)>,
    /// The outcome was found in the row.
    pub(super) is_known: bool,
    /// It has no neighbours: its outcome is written down with its verb.
    is_alone: bool,
    /// A place among the requests under way, taken before the row was written as sent.
    permit: Option<OwnedSemaphorePermit>,
    /// The row says that the run may have been asked for.
    recorded_sent: bool,
    /// Something was asked of the target.
    pub(super) tried: bool,
    phase: watch::Receiver<Phase>,
    dag: watch::Receiver<DagView>,
    orders: watch::Receiver<Order>,
}

impl<R: Runs + Dags, S: Settler> Matched<R, S> {
    pub(super) fn new(
        (desk, hand): (&Rc<Desk<R, S>>, &Rc<InHand<S>>),
        subscription: &Rc<Subscription>,
        ledgered: Ledgered,
        permit: Option<OwnedSemaphorePermit>,
        is_alone: bool,
    ) -> Self {
        let (kind, redelivered) = (hand.key.kind(), hand.envelope.redelivered);
        let (attempt, done) = match ledgered.binding {
            Binding::New { .. } | Binding::Start { .. } => (Attempt::fresh(kind, redelivered), None),
            Binding::LookUp { .. } => (Attempt::resumed(kind, redelivered), None),
            Binding::SettleAgain { outcome, .. } => (Attempt::fresh(kind, redelivered), Some((outcome, String::new()))),
        };
        Self {
            desk: Rc::clone(desk),
            hand: Rc::clone(hand),
            member: desk.members.of(&desk.context, subscription),
            subscription: Rc::clone(subscription),
            ledgered,
            attempt,
            is_known: done.is_some(),
            permit: permit.filter(|_| done.is_none()),
            recorded_sent: false,
            done,
            is_alone,
            tried: false,
            phase: desk.phase.clone(),
            dag: desk.context.dags.watch(&subscription.dag_id),
            orders: desk.orders.clone(),
        }
        .recorded()
    }

    /// The row was written as sent where a place among the requests was there already.
    fn recorded(mut self) -> Self {
        self.recorded_sent = self.permit.is_some();
        self
    }

    /// How far it is.
    pub(super) fn state(&self) -> Match {
        let progress = self.done.as_ref().map_or(self.attempt.progress(), |(outcome, _)| Progress::Done(*outcome));
        Match { subscription: self.subscription.id, progress, is_wanted: self.is_wanted() }
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.is_some()
    }

    pub(super) fn outcome(&self) -> Option<&(Outcome, String)> {
        self.done.as_ref()
    }

    /// Ends it without a run.
    pub(super) fn drop_with(&mut self, reason: &str) {
        self.done = Some((Outcome::Dropped, reason.to_owned()));
    }

    fn is_wanted(&self) -> bool {
        self.orders.borrow().table.takes_part(self.subscription.id)
    }

    fn now_ms(&self) -> i64 {
        self.desk.context.now_ms()
    }

    /// Drives it until it has an outcome, or its subscription went and nothing was asked for. An error says what ended the
    /// delivery before that; it may be driven on after it.
    pub(super) async fn run(&mut self) -> Result<(), Woken> {
        let found = match self.start().await {
            Ok(found) => found,
            Err(Woken::Removed) => None,
            Err(woken) => return Err(woken),
        };
        self.permit = None;
        let Some((outcome, reason)) = found else { return Ok(()) };
        self.say_finished(outcome, &reason).await;
        if outcome == Outcome::Dlq {
            self.keep_refused(&reason).await?;
        } else if let (Some(row), false) = (self.ledgered.row, self.is_alone) {
            self.desk.context.store.decide(row, outcome, reason.clone(), self.now_ms()).await;
        }
        self.done = Some((outcome, reason));
        Ok(())
    }

    async fn start(&mut self) -> Result<Option<(Outcome, String)>, Woken> {
        let (mut input, mut unrecorded) = (Input::Begin, 0);
        loop {
            let view = self.history(|history, key| history.view(key));
            input = match self.attempt.step(input, view, self.now_ms()) {
                Command::Trigger if !self.is_wanted() => return Ok(None),
                Command::Trigger => match self.clear_to_start().await? {
                    None => Input::Answer(self.trigger().await?),
                    Some(dropped) => {
                        unrecorded += 1;
                        match self.record_drop(dropped.code(), unrecorded).await? {
                            Some(held) => held,
                            None => return Ok(Some((Outcome::Dropped, dropped.code().to_owned()))),
                        }
                    }
                },
                Command::LookUp => self.look_up().await?,
                Command::TakeNextNumber => self.take_next_number().await?,
                Command::Hold(hold) => self.hold(&hold).await?,
                Command::Finish { outcome, reason } => return Ok(Some((outcome, reason))),
            };
        }
    }

    /// Waits until a run may be asked for, or says why the message is dropped. That is decided on an answer to a question asked
    /// here and now; without one the delivery is held.
    async fn clear_to_start(&mut self) -> Result<Option<Dropped>, Woken> {
        let options = &Rc::clone(&self.subscription).options;
        let mut tries = 0;
        loop {
            let view = self.dag.borrow_and_update().clone();
            let judgement = match deliver(options, &view) {
                Deliver::Start => Judgement::Start,
                Deliver::Hold(closed) => Judgement::Hold(closed),
                Deliver::AskAgain => {
                    let _place = self.permit().await?;
                    let drops = options.on_missing == OnMissing::Ack;
                    let (said, view) = ask_in_place(&self.desk.context, &self.subscription.dag_id, drops).await;
                    judge(options, &view, &said)
                }
            };
            match judgement {
                Judgement::Start => return Ok(None),
                Judgement::Drop(reason) => return Ok(Some(reason)),
                Judgement::Hold(_) => {
                    self.permit = None;
                    let _blocked = self.hand.block();
                    // The gate says why; it is looked at again when Airflow says something else.
                    let mut dag = self.dag.clone();
                    self.unless_ended(async { drop(dag.changed().await) }).await?;
                }
                Judgement::Unsure(reason) => {
                    tries += 1;
                    let hold = Hold { trouble: Trouble::Unavailable, reason, at_least: None, tries };
                    self.hold(&hold).await?;
                }
            }
        }
    }

    /// Records that the message is dropped. Without that record it is held (`Some`), and judged anew at every try: it may come to be
    /// started after all.
    async fn record_drop(&mut self, reason: &str, tries: u32) -> Result<Option<Input>, Woken> {
        let recorded = match self.ledgered.row {
            Some(row) => self.desk.context.store.drop_it(row, reason.to_owned(), self.now_ms()).await,
            None => Err(StoreError::NoRow),
        };
        let Err(error) = recorded else { return Ok(None) };
        self.permit = None;
        self.store_refused(&error, tries).await?;
        Ok(Some(Input::Begin))
    }

    async fn trigger(&mut self) -> Result<TriggerAnswer, Woken> {
        let desk = Rc::clone(&self.desk);
        let (envelope, run) = (&Rc::clone(&self.hand).envelope, self.ledgered.run_id.clone());
        let answer = match body::conf(&desk.context, envelope, self.subscription.id, &run).await {
            Err(instead) => instead,
            Ok(conf) => {
                let _permit = self.permit_once_recorded().await?;
                self.tried = true;
                desk.context.runs.trigger(&self.subscription.dag_id, &self.ledgered.run_id, &conf).await
            }
        };
        desk.context.at(Arrow::Answered);
        if let TriggerAnswer::TargetFault(_) = &answer {
            desk.context.dags.doubt(&self.subscription.dag_id);
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

    async fn look_up(&mut self) -> Result<Input, Woken> {
        let _permit = self.permit().await?;
        let lookup = self.desk.context.runs.look_up(&self.subscription.dag_id, &self.ledgered.run_id).await;
        let origin = match &lookup {
            RunLookup::Found(run) => conf_origin(&run.conf, &self.hand.envelope),
            RunLookup::Absent | RunLookup::Unknown(_) => ConfOrigin::Silent,
        };
        Ok(Input::LookedUp(lookup, origin))
    }

    /// A place among the requests under way. Waiting for one ends with the delivery.
    async fn permit(&mut self) -> Result<OwnedSemaphorePermit, Woken> {
        if let Some(permit) = self.permit.take() {
            return Ok(permit);
        }
        let requests = Arc::clone(&self.desk.context.requests);
        let permit = self.unless_ended(requests.acquire_owned()).await?;
        Ok(permit.expect("the semaphore is never closed"))
    }

    /// A place among the requests under way, with the row saying that the run may have been asked for. Without that record
    /// nothing is asked, except for a message whose id alone tells it apart. No place is kept while the state file is waited for.
    async fn permit_once_recorded(&mut self) -> Result<OwnedSemaphorePermit, Woken> {
        let mut tries = 0;
        loop {
            let permit = self.permit().await?;
            if self.recorded_sent {
                return Ok(permit);
            }
            match self.ledgered.mark_sent(&self.desk.context.store, self.now_ms()).await {
                Ok(()) => self.recorded_sent = true,
                Err(_) if self.hand.key.kind() == KeyKind::MessageId => return Ok(permit),
                Err(error) => {
                    drop(permit);
                    tries += 1;
                    self.store_refused(&error, tries).await?;
                }
            }
        }
    }

    async fn take_next_number(&mut self) -> Result<Input, Woken> {
        let mut tries = 0;
        loop {
            self.permit = None;
            match self.ledgered.take_next_number(&self.desk.context.store, self.now_ms()).await {
                Ok(()) => return Ok(Input::Begin),
                Err(error) => {
                    tries += 1;
                    self.store_refused(&error, tries).await?;
                }
            }
        }
    }

    async fn hold(&mut self, hold: &Hold) -> Result<Input, Woken> {
        self.permit = None;
        let member = Rc::clone(&self.member);
        let _held = member.report.holding(&self.desk.context, hold).await;
        let _blocked = self.hand.block();
        self.pause(hold.tries, hold.at_least).await?;
        Ok(Input::Begin)
    }

    /// Waits before the state file is asked again.
    async fn store_refused(&mut self, error: &StoreError, tries: u32) -> Result<(), Woken> {
        let member = Rc::clone(&self.member);
        let _held = member.report.store_refused(&self.desk.context, error).await;
        self.pause(tries, None).await
    }

    async fn pause(&mut self, tries: u32, at_least: Option<Duration>) -> Result<(), Woken> {
        let due = Instant::now() + pause(tries, at_least, self.desk.context.seed());
        self.unless_ended(sleep_until(due)).await
    }

    /// Waits for `work`, which must be cancel safe, or for what ends the delivery first. A subscription that goes ends it too,
    /// unless its run may have been asked for.
    async fn unless_ended<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Woken> {
        let (id, mut orders) = (self.subscription.id, self.orders.clone());
        let may_go = self.attempt.progress() == Progress::Unsent && self.done.is_none();
        let removed = async {
            if orders.wait_for(|order| !order.table.takes_part(id)).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = removed, if may_go => Err(Woken::Removed),
            done = unless_ended(&self.hand.seat, &mut self.phase, work) => done,
        }
    }

    fn history<T>(&self, look: impl FnOnce(&mut TargetHistory, &str) -> T) -> T {
        let mut targets = self.desk.context.targets.borrow_mut();
        look(targets.entry(self.subscription.dag_id.clone()).or_default(), self.hand.key.text())
    }

    async fn say_finished(&self, outcome: Outcome, reason: &str) {
        let (report, run_id) = (&self.member.report, &self.ledgered.run_id);
        match outcome {
            Outcome::Started => report.started(run_id, self.now_ms()),
            Outcome::Duplicate => report.duplicate(run_id, self.now_ms()),
            Outcome::Dropped => report.dropped(run_id, reason, self.now_ms()),
            Outcome::Dlq => report.refused(run_id, reason, self.now_ms()),
        }
        if report.passed(&self.desk.context, outcome).await {
            self.desk.members.recovered.notify_one();
        }
    }

    /// What is refused is kept before it is rejected, for want of a dead-letter exchange.
    async fn keep_refused(&mut self, reason: &str) -> Result<(), Woken> {
        let Some(row) = self.ledgered.row else {
            // Nothing is recorded of it, so nothing can be kept: hold it until the state file takes it.
            self.pause(u32::MAX, Some(self.desk.context.limits.ack_deadline)).await?;
            return Err(Woken::Deadline);
        };
        let message = (message_head(&self.hand.envelope).to_string(), self.hand.envelope.body.clone());
        let mut tries = 0;
        loop {
            let kept = self.desk.context.store.keep_refused(row, reason.to_owned(), message.clone(), self.now_ms());
            let Err(error) = kept.await else { return Ok(()) };
            tries += 1;
            self.store_refused(&error, tries).await?;
        }
    }
}
