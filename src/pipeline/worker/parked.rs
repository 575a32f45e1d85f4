//! What is parked: given back in time, and the consumer rolled where it fills the window.

use std::rc::Rc;
use std::time::Duration;

use super::{Ended, SettlerOf, Worker, new_tag};
use crate::domain::park::{Why, should_roll};
use crate::domain::window::may_roll;
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
        let window = self.desk.context.limits.prefetch;
        let Some((_, lot)) = &mut self.lot else { return Ok(()) };
        let held = self.held.len() + lot.over_full();
        if let Some(last) = self.unblocking {
            let room = usize::from(window).saturating_sub(held);
            let out = lot.take_unblocked(last, room);
            if room > 0 && out.is_empty() {
                self.unblocking = None;
            }
            self.give_back(out).await;
        }
        let Some((_, lot)) = &mut self.lot else { return Ok(()) };
        let unmatched = lot.blocked_by_unmatched();
        let rolls = should_roll(window, lot.in_turn(), held, may_roll(&self.desk.sight.facts()));
        for member in self.desk.members.all() {
            member.report.blocked_by_unmatched(&self.desk.context, unmatched).await;
        }
        if !rolls || self.tag.is_none() {
            return Ok(());
        }
        self.roll(consumer, channel).await
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
        let tag = new_tag(&self.desk);
        let resumed = tokio::select! {
            biased;
            () = self.signals.left() => return Err(Ended::Leaving),
            resumed = consumer.resume(tag.clone()) => resumed,
        };
        resumed.map_err(Ended::Lost)?;
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
                for Out { held, rows } in out {
                    lot.park(held, Parking { why: Why::Blocked, bytes: 0, pause: STORE_AGAIN, stays: true, rows });
                }
            }
            return;
        }
        for one in out {
            one.held.settle(Verb::GiveBackUntried, Vec::new()).await;
        }
    }
}
