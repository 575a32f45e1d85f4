//! What people see of a subscription: its status row and its log lines. Both change on change only.

mod lines;
mod row;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::sync::watch;

use super::context::Context;
use super::signals::Order;
use super::targets::{Down, Target};
use crate::domain::attempt::{Hold, Trouble};
use crate::domain::fault::{BrokerFault, BrokerFaultKind};
use crate::domain::gate::Closed;
use crate::domain::ids::ConsumerTag;
use crate::domain::ledger::Outcome;
use crate::domain::line_budget::LineBudget;
use crate::domain::status::{Attachment, ConnectionStatus};
use crate::domain::subscription::Subscription;
use crate::store::StoreError;
use crate::telemetry::events;

/// Keeps a subscription's status row and log lines true.
pub(super) struct Report {
    subscription: Rc<Subscription>,
    /// Its row is written only while it takes part: else somebody else says how it is.
    orders: watch::Receiver<Order>,
    attachment: Cell<Attachment>,
    tag: RefCell<Option<ConsumerTag>>,
    trouble: Cell<Option<Trouble>>,
    /// Why nothing is consumed, while the gate is closed, and whether that was said.
    closed: RefCell<Option<(Closed, Option<String>)>>,
    closed_said: Cell<bool>,
    said: RefCell<VecDeque<String>>,
    /// What the row says is wrong.
    error: RefCell<Option<String>>,
    /// Why its target takes no runs.
    down: RefCell<Option<Down>>,
    /// What is parked for it, and who keeps the window open meanwhile.
    behind: RefCell<Option<String>>,
    /// Foreign messages that stand in the way.
    unmatched: Cell<Option<usize>>,
    /// Why the queue is left alone, while it is.
    held_back: RefCell<Option<String>>,
    /// Deliveries that are held now.
    held: Rc<Cell<u32>>,
    starts: Cell<LineBudget>,
    /// Lines about single messages, other than starts.
    lines: Cell<LineBudget>,
}

/// Texts that are remembered as said.
const SAID_LEN: usize = 8;

/// One delivery that is held.
pub(super) struct HeldOne(Rc<Cell<u32>>);

impl HeldOne {
    fn new(count: &Rc<Cell<u32>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for HeldOne {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Report {
    pub(super) fn new(subscription: Rc<Subscription>, orders: watch::Receiver<Order>) -> Self {
        Self {
            subscription,
            orders,
            attachment: Cell::new(Attachment::Connecting),
            tag: RefCell::default(),
            trouble: Cell::default(),
            closed: RefCell::default(),
            closed_said: Cell::default(),
            said: RefCell::default(),
            error: RefCell::default(),
            down: RefCell::default(),
            behind: RefCell::default(),
            unmatched: Cell::default(),
            held_back: RefCell::default(),
            held: Rc::default(),
            starts: Cell::default(),
            lines: Cell::default(),
        }
    }

    /// The gate is closed. Said once for each reason; nothing is said of the moment before Airflow's first answer.
    pub(super) async fn gate_closed<R>(&self, context: &Context<R>, closed: Closed, sentence: Option<String>) {
        let (attachment, now) = (closed.attachment(sentence.is_some()), Some((closed, sentence)));
        if *self.closed.borrow() == now && self.attachment.get() == attachment {
            return;
        }
        let before = self.closed.replace(now.clone());
        let is_news = before.is_none_or(|(before, _)| before != closed);
        if let (true, Some((_, Some(sentence)))) = (is_news && closed != Closed::NotKnown, now) {
            self.closed_said.set(true);
            let Subscription { queue, .. } = &*self.subscription;
            let (reason, line) =
                (closed.code(), format!("RMQ Watcher: messages of queue '{queue}' wait in RabbitMQ: {sentence}"));
            if self.tag.borrow().is_some() && attachment == Attachment::WaitingForDag {
                tracing::warn!(event = events::GATE_CLOSED, reason, "{line}");
            } else {
                tracing::info!(event = events::GATE_CLOSED, reason, "{line}");
            }
        }
        self.write(context, attachment, None).await;
    }

    /// The gate is open. `tag`: of the consumer, where there is one; it serves this subscription too from now on.
    pub(super) async fn gate_opened<R>(&self, context: &Context<R>, tag: Option<&ConsumerTag>) {
        let was_closed = self.closed.take().is_some();
        if was_closed && self.closed_said.replace(false) {
            let Subscription { dag_id, queue, .. } = &*self.subscription;
            tracing::info!(
                event = events::GATE_OPENED,
                "RMQ Watcher: DAG '{dag_id}' is there for messages of queue '{queue}', which are consumed now"
            );
        }
        if let (Some(tag), true) = (tag, self.attachment.get() != Attachment::Listening) {
            self.attached(context, tag).await;
        }
    }

    /// The consumer goes on under another tag.
    pub(super) async fn retagged<R>(&self, context: &Context<R>, tag: &ConsumerTag) {
        if self.tag.borrow().is_some() {
            self.tag.replace(Some(tag.clone()));
            let error = self.error.borrow().clone();
            self.write(context, self.attachment.get(), error).await;
        }
    }

    /// The queue is left alone, since a message in it may not come back once more. Said once for each reason.
    pub(super) async fn held_back<R>(&self, context: &Context<R>, reason: Option<String>) {
        if *self.held_back.borrow() == reason {
            return;
        }
        if let Some(reason) = &reason {
            let Subscription { dag_id, queue, .. } = &*self.subscription;
            tracing::error!(
                event = events::QUEUE_HELD_BACK,
                "RMQ Watcher: queue '{queue}' is not consumed for DAG '{dag_id}': {reason}"
            );
        }
        self.held_back.replace(reason);
        let error = self.error.borrow().clone();
        self.write(context, self.attachment.get(), error).await;
    }

    /// A message that would have to be rejected, or given back for the last time, is safe nowhere else and too large to be kept: it is
    /// held as long as what is returned lives.
    pub(super) async fn not_rejected<R>(&self, context: &Context<R>, bytes: u64) -> HeldOne {
        let held = HeldOne::new(&self.held);
        let reason = format!(
            "its body of {bytes} bytes is too large to be kept in the state file, and no dead-letter exchange of its queue is known"
        );
        self.trouble(context, Trouble::Store, &reason).await;
        held
    }

    /// So many foreign messages stand in the way, where no more can be parked.
    pub(super) async fn blocked_by_unmatched<R>(&self, context: &Context<R>, unmatched: Option<usize>) {
        if self.unmatched.replace(unmatched) != unmatched {
            let error = self.error.borrow().clone();
            self.write(context, self.attachment.get(), error).await;
        }
    }

    /// Consuming was stopped on purpose; the channel stands.
    pub(super) async fn paused<R>(&self, context: &Context<R>) {
        self.tag.take();
        self.write(context, self.attachment.get(), None).await;
    }

    /// A subscription whose gate is closed goes on saying that.
    pub(super) async fn connecting<R>(&self, context: &Context<R>) {
        // An attempt after a failure keeps the failure in view until it is known to be over.
        if self.attachment.get() != Attachment::Failed && self.closed.borrow().is_none() {
            self.write(context, Attachment::Connecting, None).await;
        }
    }

    /// The broker has confirmed the consumer. A subscription whose gate is closed is told again once it opens.
    pub(super) async fn attached<R>(&self, context: &Context<R>, tag: &ConsumerTag) {
        if self.closed.borrow().is_some() {
            return;
        }
        let Subscription { dag_id, queue, conn_id, .. } = &*self.subscription;
        tracing::info!(
            event = events::CONSUMER_ATTACHED,
            "RMQ Watcher: listening on queue '{queue}' (connection '{conn_id}') for DAG '{dag_id}' as {tag}"
        );
        self.said.take();
        // Whatever was held is coming again, and will say for itself what is wrong.
        self.trouble.take();
        self.tag.replace(Some(tag.clone()));
        self.write(context, Attachment::Listening, None).await;
        let now_ms = context.now_ms();
        context.store.set_connection_status(conn_id.clone(), ConnectionStatus::Connected, None, now_ms).await;
    }

    /// An attach failed, or a consumer was lost. Said once for each new text.
    pub(super) async fn failed<R>(&self, context: &Context<R>, fault: &BrokerFault) {
        if self.closed.borrow().is_some() {
            return self.paused(context).await;
        }
        self.tag.take();
        if self.is_news(&fault.text) {
            let Subscription { dag_id, queue, .. } = &*self.subscription;
            let reason = fault.kind.code();
            // A fault names the connection itself.
            let line =
                format!("RMQ Watcher: DAG '{dag_id}' gets no messages of queue '{queue}': {fault}; trying again");
            if fault.kind.is_configuration() {
                tracing::error!(event = events::CONSUMER_FAILED, reason, "{line}");
            } else {
                tracing::warn!(event = events::CONSUMER_FAILED, reason, "{line}");
            }
        }
        self.write(context, Attachment::Failed, Some(fault.text.clone())).await;
        if is_of_connection(fault.kind) {
            let (conn_id, text, now_ms) = (self.subscription.conn_id.clone(), fault.text.clone(), context.now_ms());
            context.store.set_connection_status(conn_id, ConnectionStatus::Error, Some(text), now_ms).await;
        }
    }

    pub(super) async fn disconnected<R>(&self, context: &Context<R>) {
        self.tag.take();
        self.trouble.take();
        self.write(context, Attachment::Stopped, None).await;
    }

    /// A delivery is held, as long as what is returned lives.
    pub(super) async fn holding<R>(&self, context: &Context<R>, hold: &Hold) -> HeldOne {
        let held = HeldOne::new(&self.held);
        self.trouble(context, hold.trouble, &hold.reason).await;
        held
    }

    /// A delivery waits because its target takes no runs, as long as what is returned lives.
    pub(super) async fn waiting_for<R>(&self, context: &Context<R>, target: &Rc<Target>) -> HeldOne {
        let held = HeldOne::new(&self.held);
        if let Some(Down { trouble, reason, .. }) = target.cause() {
            self.trouble(context, trouble, &reason).await;
        }
        held
    }

    /// Its target takes no runs, for all that is known; `None`: it may.
    pub(super) async fn target_down<R>(&self, context: &Context<R>, down: Option<Down>) {
        let is_over = down.is_none() && self.down.borrow().is_some();
        if *self.down.borrow() == down {
            return;
        }
        self.down.replace(down);
        let is_of_target = self.trouble.get().is_some_and(|trouble| trouble != Trouble::Store);
        if is_over && self.held.get() == 0 && is_of_target {
            self.trouble.take();
            self.error.take();
        }
        let error = self.error.borrow().clone();
        self.write(context, self.attachment.get(), error).await;
    }

    /// What is parked for it behind the share of blocked subscriptions.
    pub(super) async fn parked_behind<R>(&self, context: &Context<R>, behind: Option<String>) {
        if *self.behind.borrow() != behind {
            self.behind.replace(behind);
            let error = self.error.borrow().clone();
            self.write(context, self.attachment.get(), error).await;
        }
    }

    /// The state file refused something that a delivery has to wait for: it is held as long as what is returned lives.
    pub(super) async fn store_refused<R>(&self, context: &Context<R>, error: &StoreError) -> HeldOne {
        let held = HeldOne::new(&self.held);
        self.trouble(context, Trouble::Store, &error.to_string()).await;
        held
    }

    /// Says once, for each new reason, what keeps deliveries from their target.
    async fn trouble<R>(&self, context: &Context<R>, trouble: Trouble, reason: &str) {
        let news = self.is_news(&format!("{}: {reason}", trouble.code()));
        // A target that is not ready has lines of its own.
        if news && trouble != Trouble::Target && self.admits(context.now_ms()) {
            let Subscription { dag_id, queue, .. } = &*self.subscription;
            tracing::warn!(
                event = events::DELIVERY_HELD,
                reason = trouble.code(),
                "RMQ Watcher: DAG '{dag_id}' cannot be started for messages of queue '{queue}', which are held: {reason}"
            );
        }
        let is_new_trouble = self.trouble.replace(Some(trouble)) != Some(trouble);
        if is_new_trouble || news {
            self.write(context, self.attachment.get(), Some(reason.to_owned())).await;
        }
    }

    /// A message has its outcome. What troubled the subscription is over, unless another delivery is still held for it, or the
    /// target has only refused. Returns whether it is over just now.
    pub(super) async fn passed<R>(&self, context: &Context<R>, outcome: Outcome) -> bool {
        let is_over =
            self.held.get() == 0 && !(outcome == Outcome::Dlq && self.trouble.get() == Some(Trouble::Failing));
        let recovers = is_over && self.trouble.take().is_some();
        if recovers {
            self.said.take();
            if outcome != Outcome::Dropped && self.admits(context.now_ms()) {
                let Subscription { dag_id, queue, .. } = &*self.subscription;
                tracing::info!(
                    event = events::SUBSCRIPTION_RECOVERED,
                    "RMQ Watcher: DAG '{dag_id}' is started for messages of queue '{queue}' again"
                );
            }
            self.write(context, self.attachment.get(), None).await;
        }
        recovers
    }

    /// Whether this was not said lately. Several texts may take turns, so the last few are remembered.
    fn is_news(&self, text: &str) -> bool {
        let mut said = self.said.borrow_mut();
        let news = !said.iter().any(|one| one == text);
        if news {
            said.push_back(text.to_owned());
            if said.len() > SAID_LEN {
                said.pop_front();
            }
        }
        news
    }
}

/// Whether a fault says something about the connection, not only about one queue on it.
fn is_of_connection(kind: BrokerFaultKind) -> bool {
    match kind {
        BrokerFaultKind::ConnectionUnknown
        | BrokerFaultKind::Unreachable
        | BrokerFaultKind::TimedOut
        | BrokerFaultKind::Tls
        | BrokerFaultKind::LoginRefused
        | BrokerFaultKind::VhostRefused
        | BrokerFaultKind::Closed => true,
        BrokerFaultKind::QueueMissing
        | BrokerFaultKind::AccessRefused
        | BrokerFaultKind::PreconditionFailed
        | BrokerFaultKind::ResourceLocked
        | BrokerFaultKind::Cancelled => false,
    }
}
