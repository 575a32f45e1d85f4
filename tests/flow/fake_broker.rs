//! One queue by what a broker guarantees: an unsettled delivery comes back as redelivered when its channel ends, in front
//! of the others; the window is kept; a dead channel settles nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use rmq_watcher::domain::envelope::{Envelope, Properties, Table};
use rmq_watcher::domain::fault::{BrokerFault, BrokerFaultKind};
use rmq_watcher::domain::ids::{ConnId, DeliveryTag, QueueName};
use rmq_watcher::ports::{AttachOrder, Broker, Consumer, Settled, Settler, Verb};
use tokio::sync::Notify;

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) id: Option<String>,
    pub(crate) body: Bytes,
    pub(crate) redelivered: bool,
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
    unacked: BTreeMap<u64, Message>,
    next_tag: u64,
    /// The number of the channel that lives, if one does.
    channel: Option<u64>,
    channels: u64,
    attach_faults: VecDeque<BrokerFault>,
    verbs: Vec<(Option<String>, Verb)>,
    cancelled: bool,
    lose_verbs: bool,
}

impl FakeBroker {
    pub(crate) fn new() -> Self {
        Self(Rc::default())
    }

    pub(crate) fn publish(&self, id: Option<&str>, body: &'static str) {
        let message =
            Message { id: id.map(str::to_owned), body: Bytes::from_static(body.as_bytes()), redelivered: false };
        self.0.state.borrow_mut().ready.push_back(message);
        self.0.changed.notify_waiters();
    }

    pub(crate) fn fail_attach(&self, kind: BrokerFaultKind, text: &str) {
        self.0.state.borrow_mut().attach_faults.push_back(BrokerFault { kind, text: text.to_owned() });
    }

    /// What waits was in somebody's window before.
    pub(crate) fn mark_redelivered(&self) {
        self.0.state.borrow_mut().ready.iter_mut().for_each(|message| message.redelivered = true);
    }

    /// The connection dies: what was unsettled comes back.
    pub(crate) fn drop_channel(&self) {
        let mut state = self.0.state.borrow_mut();
        state.channel = None;
        let unacked = std::mem::take(&mut state.unacked);
        for (_, message) in unacked.into_iter().rev() {
            state.ready.push_front(Message { redelivered: true, ..message });
        }
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// The channel swallows verbs and answers no barrier: what was sent last before a connection dies.
    pub(crate) fn lose_verbs(&self) {
        self.0.state.borrow_mut().lose_verbs = true;
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

    pub(crate) fn was_cancelled(&self) -> bool {
        self.0.state.borrow().cancelled
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

    async fn attach(&self, order: AttachOrder) -> Result<FakeConsumer, BrokerFault> {
        let mut state = self.0.state.borrow_mut();
        if let Some(fault) = state.attach_faults.pop_front() {
            return Err(fault);
        }
        state.channels += 1;
        let channel = state.channels;
        (state.channel, state.cancelled, state.lose_verbs) = (Some(channel), false, false);
        Ok(FakeConsumer { broker: self.clone(), channel, order })
    }
}

impl FakeConsumer {
    fn try_next(&self) -> Option<Result<Envelope, BrokerFault>> {
        let mut state = self.broker.0.state.borrow_mut();
        if state.channel != Some(self.channel) {
            let text = "the connection was lost".to_owned();
            return Some(Err(BrokerFault { kind: BrokerFaultKind::Closed, text }));
        }
        if state.cancelled || state.unacked.len() >= usize::from(self.order.prefetch) {
            return None;
        }
        let message = state.ready.pop_front()?;
        state.next_tag += 1;
        let tag = state.next_tag;
        state.unacked.insert(tag, message.clone());
        Some(Ok(Envelope {
            conn_id: ConnId::new(self.order.conn_id.as_str()),
            queue: QueueName::new(self.order.queue.as_str()),
            epoch: self.order.epoch,
            tag: DeliveryTag(tag),
            redelivered: message.redelivered,
            exchange: String::new(),
            routing_key: self.order.queue.as_str().to_owned(),
            properties: Properties { message_id: message.id, ..Properties::default() },
            headers: Table::new(),
            body: message.body,
        }))
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

    async fn cancel(&mut self) {
        self.broker.0.state.borrow_mut().cancelled = true;
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
        let Some(message) = state.unacked.remove(&tag.0) else { return Settled::Lost };
        state.verbs.push((message.id.clone(), verb));
        if matches!(verb, Verb::GiveBackTried | Verb::GiveBackUntried) {
            state.ready.push_front(Message { redelivered: true, ..message });
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
