//! What is parked: given back in time, and the consumer rolled where it fills the window.

use std::rc::Rc;
use std::time::Duration;

use super::{Ended, SettlerOf, Worker, new_tag};
use crate::domain::ids::SubscriptionId;
use crate::domain::park::{Why, should_roll};
use crate::domain::window::{Blocker, blockers, may_roll};
use crate::pipeline::channel::Channel;
use crate::pipeline::parking::{Out, Parking};
use crate::ports::{Broker, Consumer as _, Dags, Runs, Verb};

/// How long parked deliveries stay that could not be given back for want of the state file.
const STORE_AGAIN: Duration = Duration::from_secs(5);

impl<R: Runs + Dags + 'static, B: Broker + 'static> Worker<R, B>
where
    SettlerOf<B>: 'static,
{
    /// Lets what is unblocked go, and rolls the consumer where parked ones fill its window.
    pub(super) async fn tend_parking(
        &mut self,
        consumer: &mut B::Consumer,
        channel: &Rc<Channel<SettlerOf<B>>>,
    ) -> Result<(), Ended> {
        let (window, held) = (self.desk.window(), self.held_open());
        self.let_out_unblocked(usize::from(window).saturating_sub(held)).await;
        self.say_who_blocks().await;
        let Some((_, lot)) = &self.lot else { return Ok(()) };
        let unmatched = lot.blocked_by_unmatched();
        let may_roll = may_roll(&self.desk.sight.facts());
        let is_full = should_roll(window, lot.in_turn(), held, may_roll);
        for member in self.desk.members.all() {
            member.report.blocked_by_unmatched(&self.desk.context, unmatched).await;
        }
        // Where a roll hands the queue over, the next attach brings the prefetch that is wanted now.
        let rolls = is_full || (may_roll && self.desk.prefetch() != self.prefetch);
        if !rolls || self.tag.is_none() {
            return Ok(());
        }
        self.roll(consumer, channel).await
    }

    /// What is parked for a subscription that takes runs again goes back, no more than can be begun or than fits.
    async fn let_out_unblocked(&mut self, mut room: usize) {
        let Some((_, lot)) = &mut self.lot else { return };
        for id in self.desk.members.take_recovered() {
            if let Some(last) = lot.last_for(id) {
                self.unblocking.insert(id, last);
            }
        }
        let mut all_out = Vec::new();
        for (id, last) in std::mem::take(&mut self.unblocking) {
            if self.members.iter().any(|member| member.subscription == id && member.blocker.is_some()) {
                continue;
            }
            let most = room.min(self.desk.members.free_slots(id));
            let out = lot.take_unblocked(id, last, most);
            room -= out.len();
            if most == 0 || !out.is_empty() {
                self.unblocking.insert(id, last);
            }
            all_out.extend(out);
        }
        self.give_back(all_out).await;
    }

    /// Blocked subscriptions with parked messages name who keeps the window open.
    async fn say_who_blocks(&self) {
        let Some((_, lot)) = &self.lot else { return };
        let table = self.signals.table();
        let name = |(id, blocker): (SubscriptionId, &Blocker)| {
            let route = table.get(id)?;
            Some(format!("DAG '{}' ({})", route.subscription.dag_id, blocker.code()))
        };
        let mut behind = None;
        for member in &self.members {
            let id = member.subscription;
            let is_behind = member.blocker.is_some() && lot.has_for(id);
            if is_behind && behind.is_none() {
                let names: Vec<_> = blockers(&self.members).into_iter().filter_map(name).collect();
                let names = names.join(", ");
                behind =
                    Some(format!("messages are parked behind the half of the window that is kept open for {names}"));
            }
            let report = self.desk.members.get(id);
            if let Some(member) = report {
                member.report.parked_behind(&self.desk.context, behind.clone().filter(|_| is_behind)).await;
            }
        }
    }

    /// Cancels and consumes again on the same channel: what is parked does not count against the new consumer's window.
    pub(super) async fn roll(
        &mut self,
        consumer: &mut B::Consumer,
        channel: &Rc<Channel<SettlerOf<B>>>,
    ) -> Result<(), Ended> {
        let on_their_way = tokio::select! {
            biased;
            () = self.signals.left() => return Err(Ended::Leaving),
            on_their_way = consumer.pause() => on_their_way,
        };
        on_their_way.into_iter().for_each(|envelope| self.take(envelope, channel));
        let (tag, prefetch) = (new_tag(&self.desk), self.desk.prefetch());
        let resumed = tokio::select! {
            biased;
            () = self.signals.left() => return Err(Ended::Leaving),
            resumed = consumer.resume(tag.clone(), prefetch) => resumed,
        };
        resumed.map_err(Ended::Lost)?;
        self.prefetch = prefetch;
        if let Some((_, lot)) = &mut self.lot {
            lot.rolled();
        }
        for member in self.desk.members.all() {
            member.report.retagged(&self.desk.context, &tag).await;
        }
        self.tag = Some(self.desk.context.attached.hold(&self.place.conn_id, &tag));
        Ok(())
    }

    /// Gives parked deliveries back, all their rows released before.
    pub(super) async fn give_back(&mut self, out: Vec<Out<SettlerOf<B>>>) {
        let rows: Vec<_> = out.iter().flat_map(|one| one.rows.clone()).collect();
        let context = Rc::clone(&self.desk.context);
        if !rows.is_empty()
            && let Err(error) = context.store.release(rows, context.now_ms()).await
        {
            for member in self.desk.members.all() {
                drop(member.report.store_refused(&context, &error).await);
            }
            // Given back without that record they would get new rows: they stay parked a little longer.
            if let Some((_, lot)) = &mut self.lot {
                for Out { held, rows, waits_for } in out {
                    lot.park(
                        held,
                        Parking { why: Why::Blocked, bytes: 0, pause: STORE_AGAIN, stays: true, rows, waits_for },
                    );
                }
            }
            return;
        }
        for one in out {
            one.held.settle(Verb::GiveBackUntried, Vec::new()).await;
        }
    }
}
