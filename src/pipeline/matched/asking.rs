//! What is asked of Airflow for a match, each request in its place among all that are under way.

use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::Matched;
use crate::domain::attempt::{Hold, Input, Trouble, conf_origin};
use crate::domain::gate::{Deliver, Dropped, Judgement, deliver, judge};
use crate::domain::key::KeyKind;
use crate::domain::ledger::ConfOrigin;
use crate::domain::options::OnMissing;
use crate::domain::outcome::{RunLookup, TriggerAnswer};
use crate::pipeline::body;
use crate::pipeline::context::Arrow;
use crate::pipeline::dags::ask_in_place;
use crate::pipeline::hold::Woken;
use crate::ports::{Dags, Runs, Settler};

impl<R: Runs + Dags, S: Settler> Matched<R, S> {
    /// Waits until a run may be asked for, or says why the message is dropped. That is decided on an answer to a question asked
    /// here and now; without one the delivery is held.
    pub(super) async fn clear_to_start(&mut self) -> Result<Option<Dropped>, Woken> {
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

    pub(super) async fn trigger(&mut self) -> Result<TriggerAnswer, Woken> {
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

    pub(super) async fn look_up(&mut self) -> Result<Input, Woken> {
        let _permit = self.permit().await?;
        let lookup = self.desk.context.runs.look_up(&self.subscription.dag_id, &self.ledgered.run_id).await;
        let origin = match &lookup {
            RunLookup::Found(run) => conf_origin(&run.conf, &self.hand.envelope),
            RunLookup::Absent | RunLookup::Unknown(_) => ConfOrigin::Silent,
        };
        Ok(Input::LookedUp(lookup, origin))
    }

    /// A place among the requests under way. Waiting for one ends with the delivery.
    pub(super) async fn permit(&mut self) -> Result<OwnedSemaphorePermit, Woken> {
        if let Some(permit) = self.permit.take() {
            return Ok(permit);
        }
        let requests = Arc::clone(&self.desk.context.requests);
        let permit = self.unless_ended(requests.acquire_owned()).await?;
        Ok(permit.expect("the semaphore is never closed"))
    }

    /// A place among the requests under way, with the row saying that the run may have been asked for. Without that record
    /// nothing is asked, except for a message whose id alone tells it apart. No place is kept while the state file is waited for.
    pub(super) async fn permit_once_recorded(&mut self) -> Result<OwnedSemaphorePermit, Woken> {
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
}
