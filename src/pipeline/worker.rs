//! One consumer's loop: wait for the DAG → attach → receive → (lost: wait, attach again) → stop.

mod consuming;
mod ending;
mod parked;
mod session;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::sleep;

use super::attached::HeldTag;
use super::channel::{Channel, Held};
use super::context::Context;
use super::copies::Copies;
use super::delivery::{Desk, Noted};
use super::flights::Flights;
use super::member::Members;
use super::parking::{Parking, ParkingLot};
use super::queue_book::look_before_attach;
use super::sight::Sight;
use super::signals::{Order, Signals};
use crate::domain::fault::{BrokerFault, BrokerFaultKind};
use crate::domain::ids::{ConsumerTag, DeliveryTag, SubscriptionId};
use crate::domain::plan::Place;
use crate::domain::queue_facts::QueueFacts;
use crate::domain::retry;
use crate::domain::shutdown::Phase;
use crate::domain::window::{Consuming, Member as Blockable, Stream};
use crate::ports::{AttachOrder, Broker, Consumer, Dags, Runs};

/// How long a stop waits for the broker's answer to one call.
const BROKER_ON_STOP: Duration = Duration::from_secs(1);

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
    let (members, flights) = (Members::new(&context, orders.clone()), Flights::new());
    let (sight, copies, hold_back) = (Sight::new(context.queues.page(&place)), Copies::over(&broker), Rc::default());
    let desk = Rc::new(Desk { context, members, flights, phase: left, orders, sight, copies, hold_back });
    let (tasks, held, unblocking, members) = (JoinSet::new(), HashMap::new(), BTreeMap::new(), Vec::new());
    Worker {
        desk,
        broker,
        place,
        signals,
        leaving,
        tag: None,
        lot: None,
        unblocking,
        members,
        is_held_back: false,
        prefetch: 0,
        tasks,
        held,
        failures: 0,
    }
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
    /// Subscriptions that take runs again: those parked for them up to this one go back as the window takes them.
    unblocking: BTreeMap<SubscriptionId, DeliveryTag>,
    /// Who takes part, and what blocks each, as of the last look.
    members: Vec<Blockable>,
    /// The queue is left alone.
    is_held_back: bool,
    /// Of the consumer, while it consumes.
    prefetch: u16,
    /// What a task must give back if it panics.
    held: HashMap<Id, (Held<SettlerOf<B>>, Noted)>,
    /// Failed attaches in a row.
    failures: u32,
}

/// Why receiving ended.
enum Ended {
    Leaving,
    /// Nobody can run, and nothing is held that would need the channel.
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
                Ok((consumer, channel, tag, prefetch)) => {
                    self.prefetch = prefetch;
                    self.consume(consumer, channel, tag).await
                }
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
            self.tend().await;
            // There is nothing to hand over yet, so what the queue is does not matter.
            let stream = Stream { is_consuming: false, held: 0, window: self.desk.window() };
            if self.wanted(stream, &QueueFacts::default()) == Consuming::Consume {
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

    /// Looks at all that may block those who take part.
    async fn tend(&mut self) {
        let Desk { context, members, hold_back, .. } = &*self.desk;
        let table = self.signals.table();
        self.members = members.tend(context, &table, self.tag.as_ref().map(HeldTag::tag)).await;
        let held_back = hold_back.reason(&table);
        self.is_held_back = held_back.is_some();
        for member in members.all() {
            member.report.held_back(context, held_back.clone()).await;
        }
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
) -> Result<(B::Consumer, Rc<Channel<SettlerOf<B>>>, ConsumerTag, u16), BrokerFault> {
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
    let attached = async {
        // Open from here on, so that the same attempt to connect serves the look and the attach.
        let _open = broker.open(&conn_id).await?;
        look_before_attach(context, broker, place).await;
        // What was just learnt of the queue counts.
        let (tag, prefetch) = (new_tag(desk), desk.prefetch());
        let order = AttachOrder { conn_id: conn_id.clone(), queue, tag: tag.clone(), epoch, prefetch };
        Ok((broker.attach(order).await?, tag, prefetch))
    };
    let (consumer, tag, prefetch) = match attached.await {
        Ok(attached) => attached,
        Err(fault) => {
            context.store.discard_epoch(epoch).await;
            return Err(fault);
        }
    };
    let channel = Rc::new(Channel::new(epoch, consumer.settler()));
    Ok((consumer, channel, tag, prefetch))
}

/// A tag for one attach, with the number of the first subscription that is served.
fn new_tag<R: Runs + Dags, S>(desk: &Desk<R, S>) -> ConsumerTag {
    let first = desk.orders.borrow().table.taking_part().next().map(|route| route.subscription.id);
    desk.context.new_tag(first.unwrap_or(SubscriptionId(0)))
}
