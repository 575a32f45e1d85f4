//! Whether the queue is consumed: the consumer is cancelled and resumed on the channel that lives.

use std::rc::Rc;

use super::{Ended, SettlerOf, Worker, new_tag};
use crate::pipeline::channel::Channel;
use crate::ports::{Broker, Consumer as _, Dags, Runs};

impl<R: Runs + Dags + 'static, B: Broker + 'static> Worker<R, B>
where
    SettlerOf<B>: 'static,
{
    /// Stops or resumes consuming as the gates say. An error is why receiving ends.
    pub(super) async fn follow_gates(
        &mut self,
        consumer: &mut B::Consumer,
        channel: &Rc<Channel<SettlerOf<B>>>,
    ) -> Result<(), Ended> {
        if self.signals.must_leave() {
            return Err(Ended::Leaving);
        }
        match (self.tend().await, self.tag.is_some()) {
            (false, true) => {
                self.tag = None;
                let on_their_way = tokio::select! {
                    biased;
                    () = self.signals.left() => return Err(Ended::Leaving),
                    on_their_way = consumer.pause() => on_their_way,
                };
                for member in self.desk.members.all() {
                    member.report.paused(&self.desk.context).await;
                }
                on_their_way.into_iter().for_each(|envelope| self.take(envelope, channel));
                if self.holds_nothing() { Err(Ended::Idle) } else { Ok(()) }
            }
            (false, false) if self.holds_nothing() => Err(Ended::Idle),
            // What was held before does not count in the new window: together they are never more than two.
            (true, false) if self.held.len() <= usize::from(self.desk.context.limits.prefetch) => {
                let tag = new_tag(&self.desk);
                let resumed = tokio::select! {
                    biased;
                    () = self.signals.left() => return Err(Ended::Leaving),
                    resumed = consumer.resume(tag.clone()) => resumed,
                };
                resumed.map_err(Ended::Lost)?;
                self.consumes_as(tag).await;
                Ok(())
            }
            (false | true, _) => Ok(()),
        }
    }

    pub(super) fn holds_nothing(&self) -> bool {
        self.held.is_empty() && self.lot.as_ref().is_none_or(|(_, lot)| lot.is_empty())
    }
}
