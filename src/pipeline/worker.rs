//! One consumer's loop: attach → receive → (lost: wait, attach again) → stop.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::channel::{Channel, Held};
use super::context::Context;
use super::delivery::{Desk, Noted, handle};
use super::flights::Flights;
use super::report::Report;
use crate::domain::envelope::Envelope;
use crate::domain::fault::{BrokerFault, BrokerFaultKind};
use crate::domain::retry;
use crate::domain::shutdown::Phase;
use crate::domain::subscription::Subscription;
use crate::ports::{AttachOrder, Broker, Consumer, Runs, Verb};

/// How long a stop waits for answers that are under way.
const ANSWERS_ON_STOP: Duration = Duration::from_secs(2);

/// How long a stop waits for the broker's answer to one call.
const BROKER_ON_STOP: Duration = Duration::from_secs(1);

/// After so long whatever an earlier channel held has come back: three heartbeats of the default, doubled. See
/// [`crate::store::Store::close_older`].
const ALL_RETURNED_AFTER: Duration = Duration::from_secs(180);

/// An attachment that lasted so long was a good one: the next failure counts as the first.
const STEADY_AFTER: Duration = Duration::from_secs(60);

type SettlerOf<B> = <<B as Broker>::Consumer as Consumer>::Settler;
type DeskOf<R, B> = Rc<Desk<R, SettlerOf<B>>>;

/// What a worker is told.
#[derive(Clone, Debug)]
pub struct Order {
    /// What it serves. Its key and its number never change; its options count for deliveries that are received from now on.
    pub subscription: Rc<Subscription>,
    /// It is to give everything back and end.
    pub leave: bool,
}

/// Serves one subscription until the stop. Its consumer is gone and its row says `disconnected` when this returns.
pub async fn run<R: Runs + 'static, B: Broker + 'static>(
    context: Rc<Context<R>>,
    broker: Rc<B>,
    subscription: Subscription,
    phase: watch::Receiver<Phase>,
) where
    SettlerOf<B>: 'static,
{
    let (report, flights) = (Report::new(subscription.clone()), Flights::new());
    let desk = Rc::new(Desk { context, subscription, report, flights, phase });
    let mut worker = Worker { desk, broker, tasks: JoinSet::new(), held: HashMap::new(), failures: 0 };
    worker.run().await;
}

struct Worker<R: Runs, B: Broker> {
    desk: DeskOf<R, B>,
    broker: Rc<B>,
    /// One task for each delivery, and one for each channel that confirms what was settled.
    tasks: JoinSet<()>,
    /// What a task must give back if it panics.
    held: HashMap<Id, (Held<SettlerOf<B>>, Noted)>,
    /// Failed attaches in a row.
    failures: u32,
}

/// Why receiving ended.
enum Ended {
    Stopping,
    Lost(BrokerFault),
}

impl<R: Runs + 'static, B: Broker + 'static> Worker<R, B>
where
    SettlerOf<B>: 'static,
{
    async fn run(&mut self) {
        let mut phase = self.desk.phase.clone();
        loop {
            let stopped = async { drop(phase.wait_for(|phase| *phase == Phase::Stopping).await) };
            let fault = tokio::select! {
                biased;
                () = stopped => break,
                attached = attach(&self.desk, &*self.broker) => match attached {
                    Ok((consumer, channel)) => match self.consume(consumer, channel).await {
                        Ended::Stopping => break,
                        Ended::Lost(fault) => fault,
                    },
                    Err(fault) => fault,
                },
            };
            self.desk.report.failed(&self.desk.context, &fault).await;
            if !self.wait_before_next(&fault).await {
                break;
            }
        }
        self.desk.report.disconnected(&self.desk.context).await;
    }

    /// Receives until the channel is lost or a stop is asked for.
    async fn consume(&mut self, mut consumer: B::Consumer, channel: Rc<Channel<SettlerOf<B>>>) -> Ended {
        let since = Instant::now();
        self.confirm_on(&channel);
        let mut phase = self.desk.phase.clone();
        let mut older_are_open = true;
        let ended = loop {
            tokio::select! {
                biased;
                _ = phase.wait_for(|phase| *phase == Phase::Stopping) => break Ended::Stopping,
                Some(done) = self.tasks.join_next_with_id() => self.reap(done).await,
                received = consumer.next() => match received {
                    Ok(envelope) => {
                        if older_are_open && !envelope.redelivered && since.elapsed() >= ALL_RETURNED_AFTER {
                            older_are_open = false;
                            self.close_older(&channel).await;
                        }
                        self.take(envelope, &channel);
                    }
                    Err(fault) => break Ended::Lost(fault),
                },
            }
        };
        match ended {
            Ended::Stopping => self.stop(consumer, &channel).await,
            Ended::Lost(_) => {
                channel.end();
                consumer.close().await;
            }
        }
        if since.elapsed() >= STEADY_AFTER {
            self.failures = 0;
        }
        self.desk.context.store.end_epoch(channel.epoch, self.desk.context.now_ms()).await;
        ended
    }

    fn take(&mut self, envelope: Envelope, channel: &Rc<Channel<SettlerOf<B>>>) {
        let deadline = self.desk.context.limits.ack_deadline;
        let hold = || Held::new(Rc::clone(channel), envelope.tag, deadline);
        let (held, spare, noted) = (hold(), hold(), Noted::default());
        let task = self.tasks.spawn_local(handle(Rc::clone(&self.desk), envelope, held, Rc::clone(&noted)));
        self.held.insert(task.id(), (spare, noted));
    }

    fn confirm_on(&mut self, channel: &Rc<Channel<SettlerOf<B>>>) {
        let (desk, channel) = (Rc::clone(&self.desk), Rc::clone(channel));
        self.tasks.spawn_local(async move {
            tokio::select! {
                () = channel.ended() => {}
                () = channel.confirm(&desk.context, &desk.report) => {}
            }
        });
    }

    /// A panic in one delivery gives that one back and stops nothing else.
    async fn reap(&mut self, done: Result<(Id, ()), JoinError>) {
        let (id, panicked) = match &done {
            Ok((id, ())) => (*id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        if let Some((held, noted)) = self.held.remove(&id)
            && panicked
        {
            self.desk.report.panicked();
            let Desk { context, report, .. } = &*self.desk;
            if let Some(row) = noted.get()
                && let Err(error) = context.store.release(row, context.now_ms()).await
            {
                drop(report.store_refused(context, &error).await);
            }
            held.settle(Verb::GiveBackTried, None).await;
        }
    }

    async fn close_older(&self, channel: &Channel<SettlerOf<B>>) {
        let Desk { context, subscription, .. } = &*self.desk;
        let (conn_id, queue) = (subscription.conn_id.clone(), subscription.queue.clone());
        context.store.close_older(conn_id, queue, channel.epoch, context.now_ms()).await;
    }

    /// No new deliveries, a short time for answers under way, then the channel is closed: what was not started goes back.
    async fn stop(&mut self, mut consumer: B::Consumer, channel: &Rc<Channel<SettlerOf<B>>>) {
        // A broker that does not answer must not hold up the stop: closing the channel cancels the consumer too.
        drop(timeout(BROKER_ON_STOP, consumer.cancel()).await);
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

    /// Returns whether to go on.
    async fn wait_before_next(&mut self, fault: &BrokerFault) -> bool {
        let schedule = retry::schedule(fault.kind);
        let pause = retry::backoff(self.failures, schedule.base, schedule.cap, self.desk.context.seed())
            .mul_f64(self.desk.context.limits.retry_scale);
        self.failures = self.failures.saturating_add(1);
        let mut phase = self.desk.phase.clone();
        let due = sleep(pause);
        tokio::pin!(due);
        loop {
            tokio::select! {
                biased;
                _ = phase.wait_for(|phase| *phase == Phase::Stopping) => return false,
                Some(done) = self.tasks.join_next_with_id() => self.reap(done).await,
                () = &mut due => return true,
            }
        }
    }
}

async fn attach<R: Runs, B: Broker>(
    desk: &Desk<R, SettlerOf<B>>,
    broker: &B,
) -> Result<(B::Consumer, Rc<Channel<SettlerOf<B>>>), BrokerFault> {
    let Desk { context, subscription, report, .. } = desk;
    report.connecting(context).await;
    let (conn_id, queue) = (subscription.conn_id.clone(), subscription.queue.clone());
    let opened = context.store.open_epoch(conn_id.clone(), queue.clone(), context.now_ms()).await;
    let epoch = opened.map_err(|error| {
        let text = format!("nothing can be consumed while {error}");
        BrokerFault { kind: BrokerFaultKind::Closed, text }
    })?;
    let tag = context.new_tag(subscription.id);
    let prefetch = context.limits.prefetch;
    let order = AttachOrder { conn_id, queue, tag: tag.clone(), epoch, prefetch };
    let consumer = match broker.attach(order).await {
        Ok(consumer) => consumer,
        Err(fault) => {
            context.store.discard_epoch(epoch).await;
            return Err(fault);
        }
    };
    report.attached(context, &tag).await;
    let channel = Rc::new(Channel::new(epoch, consumer.settler()));
    Ok((consumer, channel))
}
