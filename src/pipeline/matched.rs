//! The way of one match of a delivery: start the target, and again, until its row has an outcome.

mod asking;
mod holding;

use std::rc::Rc;

use tokio::sync::watch;

use super::delivery::Desk;
use super::hold::Woken;
use super::in_hand::InHand;
use super::ledgered::Ledgered;
use super::member::Member;
use super::places::Place;
use super::signals::Order;
use super::targets::{Probe, Target};
use crate::domain::attempt::{Attempt, Command, Input};
use crate::domain::budget::KEPT_MOST_BYTES;
use crate::domain::dag_state::DagView;
use crate::domain::envelope::Envelope;
use crate::domain::ledger::{Binding, Outcome};
use crate::domain::payload::message_head;
use crate::domain::settlement::{Match, Progress};
use crate::domain::shutdown::Phase;
use crate::domain::subscription::Subscription;
use crate::ports::{Dags, Runs, Settler};
use crate::store::StoreError;

/// What was taken ahead of the row, so that this is written as sent at once.
pub(super) struct Ahead {
    pub(super) slot: Place,
    pub(super) place: Place,
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
    target: Rc<Target>,
    /// What tells this message from the others of its target.
    key: Rc<str>,
    /// One of the runs that its subscription may have under way, to the outcome.
    slot: Option<Place>,
    /// A place among the requests under way, taken before the row was written as sent.
    permit: Option<Place>,
    /// Its target takes no runs, and it is the one that may ask.
    probe: Option<Probe>,
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
        ahead: Option<Ahead>,
        is_alone: bool,
    ) -> Self {
        let Envelope { conn_id, queue, .. } = &hand.envelope;
        let key = format!("{conn_id}/{queue}/{}", ledgered.key.text()).into();
        let (slot, permit) = ahead.map(|ahead| (ahead.slot, ahead.place)).unzip();
        let (kind, redelivered) = (ledgered.key.kind(), hand.envelope.redelivered);
        let (attempt, done) = match ledgered.binding {
            Binding::Start { .. } if hand.copy.is_some() => (Attempt::of_copy(kind), None),
            Binding::New { .. } | Binding::Start { .. } | Binding::Replay { .. } => {
                (Attempt::fresh(kind, redelivered), None)
            }
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
            target: desk.context.targets.get(&subscription.dag_id),
            key,
            slot: slot.filter(|_| done.is_none()),
            permit: permit.filter(|_| done.is_none()),
            probe: None,
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
        (self.permit, self.probe) = (None, None);
        let Some((outcome, reason)) = found else {
            self.slot = None;
            return Ok(());
        };
        self.say_finished(outcome, &reason).await;
        if outcome == Outcome::Dlq {
            self.keep_refused(&reason).await?;
        } else if let (Some(row), false) = (self.ledgered.row, self.is_alone) {
            self.desk.context.store.decide(row, outcome, reason.clone(), self.now_ms()).await;
        }
        self.done = Some((outcome, reason));
        self.slot = None;
        Ok(())
    }

    async fn start(&mut self) -> Result<Option<(Outcome, String)>, Woken> {
        let (mut input, mut unrecorded) = (Input::Begin, 0);
        self.take_slot().await?;
        loop {
            let view = self.target.view(&self.key);
            input = match self.attempt.step(input, view, self.now_ms()) {
                Command::Trigger if !self.is_wanted() => return Ok(None),
                Command::Trigger => match self.clear_to_start().await? {
                    None => self.trigger().await?,
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

    async fn say_finished(&self, outcome: Outcome, reason: &str) {
        let (report, run_id) = (&self.member.report, &self.ledgered.run_id);
        match outcome {
            Outcome::Started => report.started(run_id, self.now_ms()),
            Outcome::Duplicate => report.duplicate(run_id, self.now_ms()),
            Outcome::Dropped => report.dropped(run_id, reason, self.now_ms()),
            Outcome::Dlq => report.refused(run_id, reason, self.now_ms()),
        }
        if report.passed(&self.desk.context, outcome).await {
            self.desk.members.recovers(self.subscription.id);
        }
    }

    /// Ends it without a run, since the message comes back no more.
    pub(super) async fn refuse(&mut self, reason: &str) -> Result<(), Woken> {
        self.permit = None;
        self.keep_refused(reason).await?;
        self.say_finished(Outcome::Dlq, reason).await;
        self.done = Some((Outcome::Dlq, reason.to_owned()));
        Ok(())
    }

    /// What is refused is kept before it is rejected, unless it is too large: whether it may be rejected then is asked before that is
    /// done.
    async fn keep_refused(&mut self, reason: &str) -> Result<(), Woken> {
        let Some(row) = self.ledgered.row else {
            // Nothing is recorded of it, so nothing can be kept: hold it until the state file takes it.
            self.pause(u32::MAX, Some(self.desk.ack_deadline())).await?;
            return Err(Woken::Deadline);
        };
        if u64::try_from(self.hand.envelope.body.len()).is_ok_and(|bytes| bytes > KEPT_MOST_BYTES) {
            return Ok(());
        }
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
