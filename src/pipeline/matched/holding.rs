//! A match that waits: for its target, for the state file, or for what ends the delivery.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Matched;
use crate::domain::attempt::{Hold, Input};
use crate::domain::settlement::Progress;
use crate::pipeline::hold::{Woken, pause, unless_ended};
use crate::ports::{Dags, Runs, Settler};
use crate::store::StoreError;

impl<R: Runs + Dags, S: Settler> Matched<R, S> {
    pub(super) async fn hold(&mut self, hold: &Hold) -> Result<Input, Woken> {
        (self.permit, self.probe) = (None, None);
        let (member, target) = (Rc::clone(&self.member), Rc::clone(&self.target));
        let _held_for = target.hold();
        let _held = member.report.holding(&self.desk.context, hold).await;
        let _blocked = self.hand.block();
        if hold.at_least.is_some() || target.is_open_to_all() {
            self.pause(hold.tries, hold.at_least).await?;
            return Ok(Input::Begin);
        }
        let due = Instant::now() + pause(hold.tries, None, self.desk.context.seed());
        // Once another message has found the target well, all are tried again.
        let is_well = async {
            while !target.is_open_to_all() {
                target.turned().await;
            }
        };
        let tried_again = async {
            tokio::select! {
                () = is_well => {}
                () = sleep_until(due) => {}
            }
        };
        self.unless_ended(tried_again).await?;
        Ok(Input::Begin)
    }

    /// Waits before the state file is asked again.
    pub(super) async fn store_refused(&mut self, error: &StoreError, tries: u32) -> Result<(), Woken> {
        let member = Rc::clone(&self.member);
        let _held = member.report.store_refused(&self.desk.context, error).await;
        self.pause(tries, None).await
    }

    pub(super) async fn pause(&mut self, tries: u32, at_least: Option<Duration>) -> Result<(), Woken> {
        let due = Instant::now() + pause(tries, at_least, self.desk.context.seed());
        self.unless_ended(sleep_until(due)).await
    }

    /// Waits for `work`, which must be cancel safe, or for what ends the delivery first. A subscription that goes ends it too,
    /// unless its run may have been asked for.
    pub(super) async fn unless_ended<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Woken> {
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
}
