//! How things end: a task, a delivery that panicked, the worker itself.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::{Id, JoinError};
use tokio::time::timeout;

use super::{BROKER_ON_STOP, Left, SettlerOf, Worker};
use crate::domain::shutdown::Phase;
use crate::pipeline::channel::Channel;
use crate::pipeline::delivery::Desk;
use crate::ports::{Broker, Consumer as _, Dags, Runs, Verb};

/// How long a stop waits for answers that are under way.
const ANSWERS_ON_STOP: Duration = Duration::from_secs(2);

impl<R: Runs + Dags + 'static, B: Broker + 'static> Worker<R, B>
where
    SettlerOf<B>: 'static,
{
    /// A panic in one delivery gives that one back and stops nothing else.
    pub(super) async fn reap(&mut self, done: Result<(Id, Left<SettlerOf<B>>), JoinError>) {
        let (id, panicked, parking) = match done {
            Ok((id, parking)) => (id, false, parking),
            Err(error) => (error.id(), error.is_panic(), None),
        };
        if let (Some((held, parking)), Some((channel, lot))) = (parking, &mut self.lot)
            && Rc::ptr_eq(&held.channel, channel)
        {
            lot.park(held, parking);
        }
        if let Some((held, noted)) = self.held.remove(&id)
            && panicked
        {
            let Desk { context, members, .. } = &*self.desk;
            members.all().iter().for_each(|member| member.report.panicked());
            let rows = noted.take();
            if !rows.is_empty()
                && let Err(error) = context.store.release(rows, context.now_ms()).await
            {
                for member in members.all() {
                    drop(member.report.store_refused(context, &error).await);
                }
            }
            held.settle(Verb::GiveBackTried, Vec::new()).await;
        }
    }

    /// No new deliveries, a short time for answers under way, then the channel is closed: what was not started goes back.
    pub(super) async fn stop(&mut self, mut consumer: B::Consumer, channel: &Rc<Channel<SettlerOf<B>>>) {
        self.leaving.send_replace(Phase::Stopping);
        // A broker that does not answer must not hold up the stop: closing the channel cancels the consumer too.
        drop(timeout(BROKER_ON_STOP, consumer.pause()).await);
        let answers = async {
            while self.held.keys().len() > 0
                && let Some(done) = self.tasks.join_next_with_id().await
            {
                self.reap(done).await;
            }
        };
        if timeout(ANSWERS_ON_STOP, answers).await.is_err() {
            tracing::debug!(left = self.held.len(), "answers were still under way at the stop");
        }
        drop(timeout(BROKER_ON_STOP, channel.confirm_now(&self.desk.context)).await);
        channel.end();
        consumer.close().await;
        self.tasks.shutdown().await;
    }
}
