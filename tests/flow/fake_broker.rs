//! One queue by what a broker guarantees: an unsettled delivery comes back as redelivered when its channel ends, in front
//! of the others; the window is kept; a dead channel settles nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use rmq_watcher::domain::envelope::{Envelope, Field, Properties, Table};
use rmq_watcher::domain::fault::{BrokerFault, BrokerFaultKind};
use rmq_watcher::domain::ids::{ConnId, ConsumerTag, DeliveryTag, QueueName};
use rmq_watcher::domain::plan::Place;
use rmq_watcher::domain::queue_facts::{Look, NotLooked};
use rmq_watcher::ports::{AttachOrder, Broker, Consumer, Outgoing, Published, Settled, Settler, Verb};
use tokio::sync::Notify;

use crate::world::QUEUE;

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) id: Option<String>,
    exchange: String,
    routing_key: String,
    properties: Properties,
    pub(crate) headers: Table,
    pub(crate) body: Bytes,
    pub(crate) redelivered: bool,
    /// Its place in the queue.
    at: u64,
    /// How often it was delivered.
    deliveries: u32,
    /// How often it came back.
    returns: u32,
}

/// What becomes of a message that is to be published.
#[derive(Clone, Debug)]
pub(crate) enum Publishing {
    /// This is said, and it is there or not.
    Said(Published, bool),
    /// Nothing is said for ever, and it is there or not.
    Silence(bool),
}

#[derive(Clone)]
pub(crate) struct FakeBroker(Rc<Inner>);

#[derive(Default)]
struct Inner {
    state: RefCell<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Message>,
    /// With the number of the consumer that each was delivered to.
    unacked: BTreeMap<u64, (u64, Message)>,
    next_tag: u64,
    /// The number of the consumer that consumes, if one does.
    consumer: Option<u64>,
    tags: Vec<String>,
    /// So many deliveries are on their way when consuming is stopped.
    late: usize,
    /// So many are delivered, and no more until consuming was stopped.
    deliver_most: Option<usize>,
    /// The number of the channel that lives, if one does.
    channel: Option<u64>,
    channels: u64,
    attach_faults: VecDeque<BrokerFault>,
    published: u64,
    verbs: Vec<(Option<String>, Verb)>,
    lose_verbs: bool,
    panic_on_attach: bool,
    /// As a quorum queue does: with a count, and gone after so many returns.
    limit: Option<u32>,
    gone: Vec<Message>,
    publishing: VecDeque<Publishing>,
    lose_verbs_after_copy: bool,
    copies: Vec<Outgoing>,
    /// What is said of the queue; `None`: the answer never comes.
    look: Option<Look>,
    looks: u32,
    prefetches: Vec<u16>,
}

impl FakeBroker {
    pub(crate) fn new() -> Self {
        let fake = Self(Rc::default());
        fake.says_of_queue(Some(Look { release: None, facts: Err(NotLooked::NoManagement) }));
        fake
    }

    /// What the broker says of its queue from now on; `None`: nothing, for ever.
    pub(crate) fn says_of_queue(&self, look: Option<Look>) {
        self.0.state.borrow_mut().look = look;
    }

    /// How often it was asked.
    pub(crate) fn looks(&self) -> u32 {
        self.0.state.borrow().looks
    }

    /// The prefetch of every attach.
    pub(crate) fn prefetches(&self) -> Vec<u16> {
        self.0.state.borrow().prefetches.clone()
    }

    pub(crate) fn publish(&self, id: Option<&str>, body: &'static str) {
        self.publish_with(id, Table::new(), body);
    }

    pub(crate) fn publish_with(&self, id: Option<&str>, headers: Table, body: &'static str) {
        self.publish_from(("", QUEUE), id, headers, Bytes::from_static(body.as_bytes()));
    }

    /// From an exchange, with a routing key.
    pub(crate) fn publish_from(
        &self,
        (exchange, routing_key): (&str, &str),
        id: Option<&str>,
        headers: Table,
        body: Bytes,
    ) {
        let mut state = self.0.state.borrow_mut();
        state.published += 1;
        let at = state.published;
        state.ready.push_back(Message {
            id: id.map(str::to_owned),
            exchange: exchange.to_owned(),
            routing_key: routing_key.to_owned(),
            properties: Properties::default(),
            headers,
            body,
            redelivered: false,
            at,
            deliveries: 0,
            returns: 0,
        });
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// The queue counts returns from now on, and what waits has come back so often.
    pub(crate) fn count(&self, limit: u32, returns: u32) {
        let mut state = self.0.state.borrow_mut();
        state.limit = Some(limit);
        for message in &mut state.ready {
            (message.returns, message.redelivered) = (returns, returns > 0);
        }
    }

    /// Messages that came back once too often.
    pub(crate) fn gone(&self) -> usize {
        self.0.state.borrow().gone.len()
    }

    /// What becomes of the next copies.
    pub(crate) fn script_copies(&self, said: impl IntoIterator<Item = Publishing>) {
        self.0.state.borrow_mut().publishing.extend(said);
    }

    /// Every copy that was to be published.
    pub(crate) fn copies(&self) -> Vec<Outgoing> {
        self.0.state.borrow().copies.clone()
    }

    /// Publishes what was meant as a copy once more, as anybody might.
    pub(crate) fn publish_again(&self, copy: Outgoing) {
        self.0.state.borrow_mut().put_copy(copy);
        self.0.changed.notify_waiters();
    }

    /// The most deliveries of one message that is not settled.
    pub(crate) fn most_deliveries(&self) -> u32 {
        let state = self.0.state.borrow();
        let all = state.ready.iter().chain(state.unacked.values().map(|(_, message)| message));
        all.map(|message| message.deliveries).max().unwrap_or(0)
    }

    pub(crate) fn fail_attach(&self, kind: BrokerFaultKind, text: &str) {
        self.0.state.borrow_mut().attach_faults.push_back(BrokerFault { kind, text: text.to_owned() });
    }

    /// A defect of ours in the middle of the next attach.
    pub(crate) fn panic_on_attach(&self) {
        self.0.state.borrow_mut().panic_on_attach = true;
    }

    /// What waits was in somebody's window before.
    pub(crate) fn mark_redelivered(&self) {
        self.0.state.borrow_mut().ready.iter_mut().for_each(|message| message.redelivered = true);
    }

    /// The connection dies: what was unsettled comes back.
    pub(crate) fn drop_channel(&self) {
        let mut state = self.0.state.borrow_mut();
        (state.channel, state.consumer) = (None, None);
        let unacked = std::mem::take(&mut state.unacked);
        unacked.into_iter().rev().for_each(|(_, (_, message))| state.take_back(message));
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// The channel swallows verbs and answers no barrier: what was sent last before a connection dies.
    pub(crate) fn lose_verbs(&self) {
        self.0.state.borrow_mut().lose_verbs = true;
    }

    /// The same from the next copy on.
    pub(crate) fn lose_verbs_after_copy(&self) {
        self.0.state.borrow_mut().lose_verbs_after_copy = true;
    }

    pub(crate) fn verbs(&self) -> Vec<(Option<String>, Verb)> {
        self.0.state.borrow().verbs.clone()
    }

    pub(crate) fn unacked(&self) -> usize {
        self.0.state.borrow().unacked.len()
    }

    pub(crate) fn ready(&self) -> usize {
        self.0.state.borrow().ready.len()
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.0.state.borrow().channel.is_some()
    }

    /// Whether somebody consumes.
    pub(crate) fn is_consumed(&self) -> bool {
        self.0.state.borrow().consumer.is_some()
    }

    /// Every tag there was, in order.
    pub(crate) fn tags(&self) -> Vec<String> {
        self.0.state.borrow().tags.clone()
    }

    /// How many channels there were.
    pub(crate) fn channels(&self) -> u64 {
        self.0.state.borrow().channels
    }

    /// So many more are delivered until consuming was stopped, but for what is on its way then.
    pub(crate) fn deliver_most(&self, count: usize) {
        self.0.state.borrow_mut().deliver_most = Some(count);
    }

    /// So many deliveries are on their way when consuming is stopped next.
    pub(crate) fn send_late(&self, count: usize) {
        self.0.state.borrow_mut().late = count;
    }
}

pub(crate) struct FakeConsumer {
    broker: FakeBroker,
    channel: u64,
    order: AttachOrder,
}

#[derive(Clone)]
pub(crate) struct FakeSettler {
    broker: FakeBroker,
    channel: u64,
}

impl Broker for FakeBroker {
    type Consumer = FakeConsumer;
    type Open = ();

    async fn open(&self, _conn: &ConnId) -> Result<(), BrokerFault> {
        Ok(())
    }

    async fn look_at(&self, _place: &Place, our_tags: &str) -> Look {
        assert!(our_tags.starts_with("rmq_watcher."), "{our_tags}");
        let look = {
            let mut state = self.0.state.borrow_mut();
            state.looks += 1;
            state.look.clone()
        };
        match look {
            Some(look) => look,
            None => std::future::pending().await,
        }
    }

    async fn attach(&self, order: AttachOrder) -> Result<FakeConsumer, BrokerFault> {
        let mut state = self.0.state.borrow_mut();
        assert!(!std::mem::take(&mut state.panic_on_attach), "a scripted defect");
        if let Some(fault) = state.attach_faults.pop_front() {
            return Err(fault);
        }
        state.channels += 1;
        state.prefetches.push(order.prefetch);
        let channel = state.channels;
        (state.channel, state.lose_verbs) = (Some(channel), false);
        state.begin_to_consume(order.tag.as_str());
        Ok(FakeConsumer { broker: self.clone(), channel, order })
    }

    async fn publish(&self, copy: Outgoing) -> Published {
        let publishing = {
            let mut state = self.0.state.borrow_mut();
            state.copies.push(copy.clone());
            state.lose_verbs |= std::mem::take(&mut state.lose_verbs_after_copy);
            state.publishing.pop_front().unwrap_or(Publishing::Said(Published::Confirmed, true))
        };
        let (Publishing::Said(_, is_there) | Publishing::Silence(is_there)) = publishing;
        if is_there {
            self.publish_again(copy);
        }
        match publishing {
            Publishing::Said(said, _) => said,
            Publishing::Silence(_) => std::future::pending().await,
        }
    }
}

impl State {
    fn take_back(&mut self, message: Message) {
        let returns = message.returns + 1;
        let message = Message { redelivered: true, returns, ..message };
        if self.limit.is_some_and(|limit| returns > limit) {
            self.gone.push(message);
            return;
        }
        let place = self.ready.iter().position(|other| other.at > message.at).unwrap_or(self.ready.len());
        self.ready.insert(place, message);
    }

    fn counted(&self, returns: u32, mut headers: Table) -> Table {
        if self.limit.is_some() && returns > 0 {
            headers.insert("x-delivery-count".to_owned(), Field::I64(returns.into()));
        }
        headers
    }

    fn put_copy(&mut self, copy: Outgoing) {
        self.published += 1;
        let at = self.published;
        let Outgoing { queue, properties, headers, body, .. } = copy;
        self.ready.push_back(Message {
            id: properties.message_id.clone(),
            exchange: String::new(),
            routing_key: queue.as_str().to_owned(),
            properties,
            headers,
            body,
            redelivered: false,
            at,
            deliveries: 0,
            returns: 0,
        });
    }

    fn begin_to_consume(&mut self, tag: &str) {
        assert!(!self.tags.iter().any(|known| known == tag), "the tag is used a second time");
        self.tags.push(tag.to_owned());
        self.consumer = Some(u64::try_from(self.tags.len()).unwrap());
    }
}

impl FakeConsumer {
    fn lost() -> BrokerFault {
        BrokerFault { kind: BrokerFaultKind::Closed, text: "the connection was lost".to_owned() }
    }

    fn deliver(&self, state: &mut State, consumer: u64) -> Option<Envelope> {
        let mut message = state.ready.pop_front()?;
        message.deliveries += 1;
        state.next_tag += 1;
        let tag = state.next_tag;
        state.unacked.insert(tag, (consumer, message.clone()));
        Some(Envelope {
            conn_id: ConnId::new(self.order.conn_id.as_str()),
            queue: QueueName::new(self.order.queue.as_str()),
            epoch: self.order.epoch,
            tag: DeliveryTag(tag),
            redelivered: message.redelivered,
            exchange: message.exchange,
            routing_key: message.routing_key,
            properties: Properties { message_id: message.id, ..message.properties },
            headers: state.counted(message.returns, message.headers),
            body: message.body,
        })
    }

    fn try_next(&self) -> Option<Result<Envelope, BrokerFault>> {
        let mut state = self.broker.0.state.borrow_mut();
        if state.channel != Some(self.channel) {
            return Some(Err(Self::lost()));
        }
        let consumer = state.consumer.filter(|_| state.deliver_most != Some(0))?;
        let window = state.unacked.values().filter(|(of, _)| *of == consumer).count();
        if window >= usize::from(self.order.prefetch) {
            return None;
        }
        let envelope = self.deliver(&mut state, consumer)?;
        state.deliver_most = state.deliver_most.map(|most| most - 1);
        Some(Ok(envelope))
    }
}

impl Consumer for FakeConsumer {
    type Settler = FakeSettler;

    async fn next(&mut self) -> Result<Envelope, BrokerFault> {
        loop {
            let changed = self.broker.0.changed.notified();
            if let Some(next) = self.try_next() {
                return next;
            }
            changed.await;
        }
    }

    fn settler(&self) -> FakeSettler {
        FakeSettler { broker: self.broker.clone(), channel: self.channel }
    }

    async fn pause(&mut self) -> Vec<Envelope> {
        let mut state = self.broker.0.state.borrow_mut();
        let Some(consumer) = state.consumer.take() else { return Vec::new() };
        let late = std::mem::take(&mut state.late);
        state.deliver_most = None;
        (0..late).filter_map(|_| self.deliver(&mut state, consumer)).collect()
    }

    async fn resume(&mut self, tag: ConsumerTag, prefetch: u16) -> Result<(), BrokerFault> {
        let mut state = self.broker.0.state.borrow_mut();
        if state.channel != Some(self.channel) {
            return Err(Self::lost());
        }
        state.begin_to_consume(tag.as_str());
        drop(state);
        self.order.prefetch = prefetch;
        Ok(())
    }

    async fn close(self) {
        let lives = self.broker.0.state.borrow().channel == Some(self.channel);
        if lives {
            self.broker.drop_channel();
        }
    }
}

impl Settler for FakeSettler {
    async fn settle(&self, tag: DeliveryTag, verb: Verb) -> Settled {
        let mut state = self.broker.0.state.borrow_mut();
        if state.channel != Some(self.channel) {
            return Settled::Lost;
        }
        if state.lose_verbs {
            return Settled::Sent;
        }
        let Some((_, message)) = state.unacked.remove(&tag.0) else { return Settled::Lost };
        state.verbs.push((message.id.clone(), verb));
        if matches!(verb, Verb::GiveBackTried | Verb::GiveBackUntried) {
            state.take_back(message);
        }
        drop(state);
        self.broker.0.changed.notify_waiters();
        Settled::Sent
    }

    async fn barrier(&self) -> bool {
        let state = self.broker.0.state.borrow();
        state.channel == Some(self.channel) && !state.lose_verbs
    }
}
