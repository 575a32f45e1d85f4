//! What is asked of Airflow for a match, each request in its place among all that are under way.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;

use super::Matched;
use crate::domain::attempt::{Hold, Input, Trouble, conf_origin};
use crate::domain::gate::{Deliver, Dropped, Judgement, deliver, judge};
use crate::domain::ledger::ConfOrigin;
use crate::domain::options::OnMissing;
use crate::domain::outcome::{RunLookup, TriggerAnswer};
use crate::pipeline::body::{self, NoConf};
use crate::pipeline::context::Arrow;
use crate::pipeline::dags::ask_in_place;
use crate::pipeline::history::{answer_text, lookup_text};
use crate::pipeline::hold::Woken;
use crate::pipeline::places::Place;
use crate::pipeline::targets::Ask;
use crate::ports::{Dags, Runs, Settler};

/// How soon a message looks again that lets another one be the probe.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl<R: Runs + Dags, S: Settler> Matched<R, S> {
    /// Waits until a run may be asked for, or says why the message is dropped. That is decided on an answer to a question asked
    /// here and now; without one the delivery is held.
    pub(super) async fn clear_to_start(&mut self) -> Result<Option<Dropped>, Woken> {
        let options = &Rc::clone(&self.subscription).options;
        let mut tries = 0;
        loop {
            let view = self.dag.borrow_and_update().clone();
            let judgement = match deliver(options, &view) {
                // Much may have changed while it waited.
                Deliver::Start | Deliver::AskAgain if self.let_through().await? => continue,
                Deliver::Start => Judgement::Start,
                Deliver::Hold(closed) => Judgement::Hold(closed),
                Deliver::AskAgain => {
                    let Some(_place) = self.permit().await? else { continue };
                    let drops = options.on_missing == OnMissing::Ack;
                    let (said, view) = ask_in_place(&self.desk.context, &self.subscription.dag_id, drops).await;
                    judge(options, &view, &said)
                }
            };
            match judgement {
                Judgement::Start => return Ok(None),
                Judgement::Drop(reason) => return Ok(Some(reason)),
                Judgement::Hold(_) => {
                    (self.permit, self.probe) = (None, None);
                    let _blocked = self.hand.block();
                    // The gate says why; it is looked at again when Airflow says something else.
                    let mut dag = self.dag.clone();
                    self.unless_ended(async { drop(dag.changed().await) }).await?;
                }
                Judgement::Unsure(reason) => {
                    tries += 1;
                    self.target.could_not_say(&self.key, &reason, self.desk.context.seed());
                    let hold = Hold { trouble: Trouble::Unavailable, reason, at_least: None, tries };
                    self.hold(&hold).await?;
                }
            }
        }
    }

    /// Asks for the run, unless its target turns out to take none: then it begins anew.
    pub(super) async fn trigger(&mut self) -> Result<Input, Woken> {
        let desk = Rc::clone(&self.desk);
        let (envelope, run) = (&Rc::clone(&self.hand).envelope, self.ledgered.run_id.clone());
        let conf = match body::conf(&desk.context, envelope, self.subscription.id, (&run, &self.ledgered.key)).await {
            Ok(conf) => conf,
            Err(NoConf::Unfit(reason)) => return Ok(Input::Unfit(reason)),
            Err(NoConf::Later(reason)) => return Ok(Input::NotNow(reason)),
        };
        let Some(_permit) = self.permit_once_recorded().await? else { return Ok(Input::Begin) };
        self.tried = true;
        let answer = desk.context.runs.trigger(&self.subscription.dag_id, &run, &conf).await;
        desk.context.at(Arrow::Answered);
        let since_ms = self.target.answered(&self.key, &answer, desk.context.seed());
        self.probe = None;
        if let Some(since_ms) = since_ms
            && let Err(error) = desk.context.store.set_not_ready(self.subscription.dag_id.clone(), since_ms).await
        {
            tracing::debug!(%error, "a restart will not know since when the DAG is not ready");
        }
        if let Some(text) = answer_text(&answer) {
            self.note_attempt(text).await;
        }
        if let TriggerAnswer::TargetFault(reason) = &answer {
            desk.context.dags.doubt(&self.subscription.dag_id);
            self.member.report.not_ready(reason, self.target.not_ready());
        }
        Ok(Input::Answer(answer))
    }

    pub(super) async fn look_up(&mut self) -> Result<Input, Woken> {
        self.let_through().await?;
        let Some(_permit) = self.permit().await? else { return Ok(Input::Begin) };
        let lookup = self.desk.context.runs.look_up(&self.subscription.dag_id, &self.ledgered.run_id).await;
        self.note_attempt(lookup_text(&lookup)).await;
        let origin = match &lookup {
            RunLookup::Found(run) => conf_origin(&run.conf, &self.hand.envelope, &self.ledgered.key),
            RunLookup::Absent | RunLookup::Unknown(_) => ConfOrigin::Silent,
        };
        if let RunLookup::Unknown(reason) = &lookup {
            self.target.could_not_say(&self.key, reason, self.desk.context.seed());
            self.probe = None;
        }
        Ok(Input::LookedUp(lookup, origin))
    }

    /// For people who ask why.
    async fn note_attempt(&self, text: String) {
        if let Some(row) = self.ledgered.row {
            let (store, run_id) = (&self.desk.context.store, self.ledgered.run_id.clone());
            store.attempt_failed(row, run_id, text, self.now_ms()).await;
        }
    }

    /// Waits while its target takes no runs and another message is the one that may ask. Returns whether it had to.
    pub(super) async fn let_through(&mut self) -> Result<bool, Woken> {
        let (target, member, hand) = (Rc::clone(&self.target), Rc::clone(&self.member), Rc::clone(&self.hand));
        let mut waits = None;
        while self.probe.is_none() {
            let turned = target.turned();
            let until_ms = match target.ask(&self.key) {
                Ask::Go(probe) => {
                    self.probe = probe;
                    return Ok(waits.is_some());
                }
                Ask::Wait(until_ms) => until_ms,
            };
            if waits.is_none() {
                self.permit = None;
                let held = member.report.waiting_for(&self.desk.context, &target).await;
                waits = Some((held, hand.block(), target.wait(&self.key)));
            }
            let left = until_ms.map(|until_ms| u64::try_from(until_ms - self.now_ms()).unwrap_or(0));
            let pause = left.map_or(LOOK_AGAIN, Duration::from_millis);
            let look_again = async {
                tokio::select! {
                    biased;
                    () = turned => {}
                    () = sleep(pause) => {}
                }
            };
            self.unless_ended(look_again).await?;
        }
        Ok(false)
    }

    /// One of the runs that its subscription may have under way: waits until one is free.
    pub(super) async fn take_slot(&mut self) -> Result<(), Woken> {
        if self.slot.is_none() {
            let member = Rc::clone(&self.member);
            let slot = match member.slots.try_take() {
                Some(slot) => slot,
                None => {
                    let _blocked = self.hand.block();
                    self.unless_ended(member.slots.take(None)).await?
                }
            };
            self.slot = Some(slot);
        }
        Ok(())
    }

    /// A place among the requests under way. Waiting for one ends with the delivery. `None`: its target takes no runs any more.
    pub(super) async fn permit(&mut self) -> Result<Option<Place>, Woken> {
        let permit = match self.permit.take() {
            Some(permit) => permit,
            None => {
                let desk = Rc::clone(&self.desk);
                self.unless_ended(desk.context.requests.take(Some(self.subscription.id))).await?
            }
        };
        if self.probe.is_none() {
            match self.target.ask(&self.key) {
                Ask::Go(probe) => self.probe = probe,
                Ask::Wait(_) => return Ok(None),
            }
        }
        Ok(Some(permit))
    }

    /// A place among the requests under way, with the row saying that the run may have been asked for. Without that record
    /// nothing is asked, except for a message whose id alone tells it apart. No place is kept while the state file is waited for.
    /// `None`: its target takes no runs any more.
    pub(super) async fn permit_once_recorded(&mut self) -> Result<Option<Place>, Woken> {
        let mut tries = 0;
        loop {
            let Some(permit) = self.permit().await? else { return Ok(None) };
            if self.recorded_sent {
                return Ok(Some(permit));
            }
            match self.ledgered.mark_sent(&self.desk.context.store, self.now_ms()).await {
                Ok(()) => self.recorded_sent = true,
                Err(_) if self.ledgered.key.kind().is_an_id() => return Ok(Some(permit)),
                Err(error) => {
                    drop(permit);
                    self.probe = None;
                    tries += 1;
                    self.store_refused(&error, tries).await?;
                    continue;
                }
            }
            return Ok(Some(permit));
        }
    }
}
