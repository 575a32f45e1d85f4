//! One consumer's loop: wait for the DAG → attach → receive → (lost: wait, attach again) → stop.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::attached::HeldTag;
use super::channel::{Channel, Held};
use super::context::Context;
use super::delivery::{Desk, Noted, handle};
use super::flights::Flights;
use super::member::Members;
use super::parking::{Out, Parking, ParkingLot};
use super::sight::Sight;
use super::signals::{Order, Signals};
use crate::domain::envelope::Envelope;
use crate::domain::fault::{BrokerFault, BrokerFaultKind};
use crate::domain::ids::{ConsumerTag, DeliveryTag, SubscriptionId};
use crate::domain::park::{Why, should_roll};
use crate::domain::plan::Place;
use crate::domain::retry;
use crate::domain::shutdown::Phase;
use crate::domain::window::may_roll;
use crate::ports::{AttachOrder, Broker, Consumer, Dags, Runs, Verb};

/// How long a stop waits for answers that are under way.
const ANSWERS_ON_STOP: Duration = Duration::from_secs(2);

/// How long a stop waits for the broker's answer to one call.
const BROKER_ON_STOP: Duration = Duration::from_secs(1);

/// After so long whatever an earlier channel held has come back: three heartbeats of the default, doubled. See
/// [`crate::store::Store::close_older`].
const ALL_RETURNED_AFTER: Duration = Duration::from_secs(180);

/// How long parked deliveries stay that could not be given back for want of the state file.
const STORE_AGAIN: Duration = Duration::from_secs(5);

/// An attachment that lasted so long was a good one: the next failure counts as the first.
const STEADY_AFTER: Duration = Duration::from_secs(60);

type SettlerOf<B> = <<B as Broker>::Consumer as Consumer>::Settler;
/// What is parked on a channel.
type Lot<S> = (Rc<Channel<S>>, ParkingLot<S>);
/// What a task leaves behind: a delivery that is to be parked.
type Left<S> = Option<(Held<S>, Parking)>;
type DeskOf<R, B> = Rc<Desk<R, SettlerOf<B>>>;

/// Serves a queue until the stop, or until it is told to leave. Its consumer is gone and the rows that it wrote say
/// `disconnected` when this returns.
pub async fn run<R: Runs + Dags + 'static, B: Broker + 'static>(
    context: Rc<Context<R>>,
    broker: Rc<B>,
    orders: watch::Receiver<Order>,
    phase: watch::Receiver<Phase>,
) where
    SettlerOf<B>: 'static,
{
    let place = orders.borrow().place.clone();
    let signals = Signals::new(phase, orders.clone());
    let (leaving, left) = watch::channel(Phase::Running);
    let (members, flights) = (Members::new(orders.clone()), Flights::new());
    let desk = Rc::new(Desk { context, members, flights, phase: left, orders, sight: Sight::default() });
    let (tasks, held) = (JoinSet::new(), HashMap::new());
    Worker { desk, broker, place, signals, leaving, tag: None, lot: None, unblocking: None, tasks, held, failures: 0 }
        .run()
        .await;
}

struct Worker<R: Runs + Dags, B: Broker> {
    desk: DeskOf<R, B>,
    broker: Rc<B>,
    place: Place,
    signals: Signals,
    /// Tells deliveries that their worker leaves.
    leaving: watch::Sender<Phase>,
    /// Of the consumer, while it consumes.
    tag: Option<HeldTag>,
    /// One task for each delivery, and one for each channel that confirms what was settled.
    tasks: JoinSet<Left<SettlerOf<B>>>,
    /// What is parked on the channel that lives.
    lot: Option<Lot<SettlerOf<B>>>,
    /// Those parked for blocked subscriptions up to this one go back as the window takes them: one takes runs again.
    unblocking: Option<DeliveryTag>,
    /// What a task must give back if it panics.
    held: HashMap<Id, (Held<SettlerOf<B>>, Noted)>,
    /// Failed attaches in a row.
    failures: u32,
}

/// Why receiving ended.
enum Ended {
    Leaving,
    /// Every gate is closed, and nothing is held that would need the channel.
    Idle,
    Lost(BrokerFault),
}

impl<R: Runs + Dags + 'static, B: Broker + 'static> Worker<R, B>
where
    SettlerOf<B>: 'static,
{
    async fn run(&mut self) {
        while self.wait_until_open().await {
            let attached = tokio::select! {
                biased;
                () = self.signals.left() => break,
                attached = attach(&self.desk, &*self.broker, &self.place) => attached,
            };
            let ended = match attached {
                Ok((consumer, channel, tag)) => self.consume(consumer, channel, tag).await,
                Err(fault) => Ended::Lost(fault),
            };
            self.tag = None;
            match ended {
                Ended::Leaving => break,
                Ended::Idle => {}
                Ended::Lost(fault) => {
                    for member in self.desk.members.all() {
                        member.report.failed(&self.desk.context, &fault).await;
                    }
                    if !self.wait_before_next(&fault).await {
                        break;
                    }
                }
            }
        }
        for member in self.desk.members.all() {
            member.report.disconnected(&self.desk.context).await;
        }
    }

    /// Waits until a subscription may consume. Returns whether one may: `false` is the end.
    async fn wait_until_open(&mut self) -> bool {
        loop {
            if self.signals.must_leave() {
                return false;
            }
            if self.tend().await {
                return true;
            }
            tokio::select! {
                biased;
                () = self.signals.changed() => {}
                () = self.desk.members.changed() => {}
                Some(done) = self.tasks.join_next_with_id() => self.reap(done).await,
            }
        }
    }

    /// Looks at every gate. Returns whether one is open.
    async fn tend(&self) -> bool {
        let Desk { context, members, .. } = &*self.desk;
        members.tend(context, &self.signals.table(), self.tag.as_ref().map(HeldTag::tag)).await > 0
    }

    /// Receives until the channel is lost or the end is asked for. While every gate is closed nothing new is consumed; what is
    /// held stays where it is, on this channel.
    async fn consume(
        &mut self,
        mut consumer: B::Consumer,
        channel: Rc<Channel<SettlerOf<B>>>,
        tag: ConsumerTag,
    ) -> Ended {
        self.consumes_as(tag).await;
        (self.lot, self.unblocking) = (Some((Rc::clone(&channel), ParkingLot::new(channel.epoch))), None);
        let mut table = self.signals.table();
        let since = Instant::now();
        self.confirm_on(&channel);
        let mut older_are_open = true;
        let ended = loop {
            match self.follow_gates(&mut consumer, &channel).await {
                Ok(()) => {}
                Err(ended) => break ended,
            }
            if self.signals.table() != table {
                table = self.signals.table();
                let out = self.lot.as_mut().map(|(_, lot)| lot.take_for_new_rows());
                self.give_back(out.unwrap_or_default()).await;
            }
            match self.tend_parking(&mut consumer, &channel).await {
                Ok(()) => {}
                Err(ended) => break ended,
            }
            let due = self.lot.as_ref().and_then(|(_, lot)| lot.next_due());
            tokio::select! {
                biased;
                () = self.signals.changed() => {}
                () = self.desk.members.changed() => {}
                Some(done) = self.tasks.join_next_with_id() => self.reap(done).await,
                () = self.desk.members.recovered.notified() => {
                    self.unblocking = self.lot.as_ref().and_then(|(_, lot)| lot.last_blocked());
                }
                () = sleep_until(due.unwrap_or(since)), if due.is_some() => {
                    let out = self.lot.as_mut().map(|(_, lot)| lot.take_due());
                    self.give_back(out.unwrap_or_default()).await;
                }
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
        self.lot = None;
        self.end(&ended, consumer, &channel).await;
        if since.elapsed() >= STEADY_AFTER {
            self.failures = 0;
        }
        self.desk.context.store.end_epoch(channel.epoch, self.desk.context.now_ms()).await;
        ended
    }

    /// Ends the life of a channel as befits why receiving ended.
    async fn end(&mut self, ended: &Ended, consumer: B::Consumer, channel: &Rc<Channel<SettlerOf<B>>>) {
        match ended {
            Ended::Leaving => return self.stop(consumer, channel).await,
            Ended::Idle => drop(timeout(BROKER_ON_STOP, channel.confirm_now(&self.desk.context)).await),
            Ended::Lost(_) => {}
        }
        channel.end();
        consumer.close().await;
    }

    /// Says that the consumer has this tag now.
    async fn consumes_as(&mut self, tag: ConsumerTag) {
        for member in self.desk.members.all() {
            member.report.attached(&self.desk.context, &tag).await;
        }
        self.tag = Some(self.desk.context.attached.hold(&self.place.conn_id, &tag));
    }

    /// Stops or resumes consuming as the gates say. An error is why receiving ends.
    async fn follow_gates(
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

    fn holds_nothing(&self) -> bool {
        self.held.is_empty() && self.lot.as_ref().is_none_or(|(_, lot)| lot.is_empty())
    }

    /// Lets what is unblocked go, and rolls the consumer where parked ones fill its window.
    async fn tend_parking(
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
    async fn roll(&mut self, consumer: &mut B::Consumer, channel: &Rc<Channel<SettlerOf<B>>>) -> Result<(), Ended> {
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
    async fn give_back(&mut self, out: Vec<Out<SettlerOf<B>>>) {
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

    fn take(&mut self, envelope: Envelope, channel: &Rc<Channel<SettlerOf<B>>>) {
        let deadline = self.desk.context.limits.ack_deadline;
        let turn = self.lot.as_ref().map_or(0, |(_, lot)| lot.turn());
        let hold = || Held::new(Rc::clone(channel), envelope.tag, turn, deadline);
        let (held, spare, noted) = (hold(), hold(), Noted::default());
        let table = self.signals.table();
        let task = self.tasks.spawn_local(handle(Rc::clone(&self.desk), table, envelope, held, Rc::clone(&noted)));
        self.held.insert(task.id(), (spare, noted));
    }

    fn confirm_on(&mut self, channel: &Rc<Channel<SettlerOf<B>>>) {
        let (desk, channel) = (Rc::clone(&self.desk), Rc::clone(channel));
        self.tasks.spawn_local(async move {
            tokio::select! {
                () = channel.ended() => {}
                () = channel.confirm(&desk.context, &desk.members) => {}
            }
            None
        });
    }

    /// A panic in one delivery gives that one back and stops nothing else.
    async fn reap(&mut self, done: Result<(Id, Left<SettlerOf<B>>), JoinError>) {
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

    async fn close_older(&self, channel: &Channel<SettlerOf<B>>) {
        let (context, Place { conn_id, queue }) = (&self.desk.context, self.place.clone());
        context.store.close_older(conn_id, queue, channel.epoch, context.now_ms()).await;
    }

    /// No new deliveries, a short time for answers under way, then the channel is closed: what was not started goes back.
    async fn stop(&mut self, mut consumer: B::Consumer, channel: &Rc<Channel<SettlerOf<B>>>) {
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

    /// Returns whether to go on.
    async fn wait_before_next(&mut self, fault: &BrokerFault) -> bool {
        let schedule = retry::schedule(fault.kind);
        let pause = retry::backoff(self.failures, schedule.base, schedule.cap, self.desk.context.seed())
            .mul_f64(self.desk.context.limits.retry_scale);
        self.failures = self.failures.saturating_add(1);
        let due = sleep(pause);
        tokio::pin!(due);
        loop {
            tokio::select! {
                biased;
                () = self.signals.left() => return false,
                Some(done) = self.tasks.join_next_with_id() => self.reap(done).await,
                () = &mut due => return true,
            }
        }
    }
}

async fn attach<R: Runs + Dags, B: Broker>(
    desk: &Desk<R, SettlerOf<B>>,
    broker: &B,
    place: &Place,
) -> Result<(B::Consumer, Rc<Channel<SettlerOf<B>>>, ConsumerTag), BrokerFault> {
    let Desk { context, members, .. } = desk;
    for member in members.all() {
        member.report.connecting(context).await;
    }
    let Place { conn_id, queue } = place.clone();
    let opened = context.store.open_epoch(conn_id.clone(), queue.clone(), context.now_ms()).await;
    let epoch = opened.map_err(|error| {
        let text = format!("nothing can be consumed while {error}");
        BrokerFault { kind: BrokerFaultKind::Closed, text }
    })?;
    let tag = new_tag(desk);
    let prefetch = context.limits.prefetch;
    let order = AttachOrder { conn_id, queue, tag: tag.clone(), epoch, prefetch };
    let consumer = match broker.attach(order).await {
        Ok(consumer) => consumer,
        Err(fault) => {
            context.store.discard_epoch(epoch).await;
            return Err(fault);
        }
    };
    let channel = Rc::new(Channel::new(epoch, consumer.settler()));
    Ok((consumer, channel, tag))
}

/// A tag for one attach, with the number of the first subscription that is served.
fn new_tag<R: Runs + Dags, S>(desk: &Desk<R, S>) -> ConsumerTag {
    let first = desk.orders.borrow().table.taking_part().next().map(|route| route.subscription.id);
    desk.context.new_tag(first.unwrap_or(SubscriptionId(0)))
}
