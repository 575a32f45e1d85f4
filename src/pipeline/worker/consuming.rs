//! Whether the queue is consumed: the consumer is cancelled and resumed on the channel that lives.

use std::rc::Rc;

use super::{Ended, SettlerOf, Worker, new_tag};
use crate::domain::queue_facts::QueueFacts;
use crate::domain::window::{Consuming, Stream, consuming};
use crate::pipeline::channel::Channel;
use crate::ports::{Broker, Consumer as _, Dags, Runs};

impl<R: Runs + Dags + 'static, B: Broker + 'static> Worker<R, B>
where
    SettlerOf<B>: 'static,
{
    /// Stops or resumes consuming as those who take part can run. An error is why receiving ends.
    pub(super) async fn follow_blockers(
        &mut self,
        consumer: &mut B::Consumer,
        channel: &Rc<Channel<SettlerOf<B>>>,
    ) -> Result<(), Ended> {
        if self.signals.must_leave() {
            return Err(Ended::Leaving);
        }
        self.tend().await;
        let is_consuming = self.tag.is_some();
        let stream = Stream { is_consuming, held: self.held_open(), window: self.desk.window() };
        match (self.wanted(stream, &self.desk.sight.facts()), is_consuming) {
            (Consuming::Cancel, true) => {
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
            (Consuming::Cancel, false) if self.holds_nothing() => Err(Ended::Idle),
            (Consuming::Consume, false) => {
                let (tag, prefetch) = (new_tag(&self.desk), self.desk.prefetch());
                let resumed = tokio::select! {
                    biased;
                    () = self.signals.left() => return Err(Ended::Leaving),
                    resumed = consumer.resume(tag.clone(), prefetch) => resumed,
                };
                resumed.map_err(Ended::Lost)?;
                self.prefetch = prefetch;
                self.consumes_as(tag).await;
                Ok(())
            }
            (Consuming::Cancel | Consuming::Consume, _) => Ok(()),
        }
    }

    /// Whether the queue is to be consumed: as those who take part can run, unless it is left alone for a message whose returns are
    /// spent.
    pub(super) fn wanted(&self, stream: Stream, facts: &QueueFacts) -> Consuming {
        if self.is_held_back { Consuming::Cancel } else { consuming(&self.members, stream, facts) }
    }

    /// Deliveries that are kept and not parked.
    pub(super) fn held_open(&self) -> usize {
        self.held.len() + self.lot.as_ref().map_or(0, |(_, lot)| lot.over_full())
    }

    pub(super) fn holds_nothing(&self) -> bool {
        self.held.is_empty() && self.lot.as_ref().is_none_or(|(_, lot)| lot.is_empty())
    }
}
