//! What all workers share.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use super::attached::Attached;
use super::budget::Refusals;
use super::dags::DagBook;
use super::history::VerdictLog;
use super::places::Places;
use super::queue_book::QueueBook;
use super::targets::Targets;
use crate::domain::content::{BodyFile, BodyLimits};
use crate::domain::ids::{ConsumerTag, DagId, RunId, SubscriptionId};
use crate::domain::retention::Retention;
use crate::store::Store;
use crate::store::bodies::Bodies;

/// The wall clock in UTC milliseconds. Handed in, so that tests can hold it still.
pub type Clock = Rc<dyn Fn() -> i64>;

/// Bounds of the data flow.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Unsettled deliveries of one consumer.
    pub prefetch: u16,
    /// How long a delivery is held at most before it is given back.
    pub ack_deadline: Duration,
    /// Requests to Airflow under way at once, over all subscriptions.
    pub max_in_flight: usize,
    /// Factor on the pause between two attempts to attach: 1 but in tests, which may not wait as long as users may.
    pub retry_scale: f64,
}

/// Who this watcher is to the broker.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The machine.
    pub hostname: String,
    /// The process.
    pub pid: u32,
}

/// The arrows of the data flow: points between two steps, at which a kill must do no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrow {
    /// A delivery was taken from the channel; nothing is recorded.
    Received,
    /// Its intent is in the state file.
    Recorded,
    /// The target answered.
    Answered,
    /// The outcome is known; neither the state file nor the broker was told.
    Decided,
    /// The outcome was handed to the state file and the verb was sent; the broker has not confirmed it.
    VerbSent,
    /// The broker has confirmed; the state file was told.
    Settled,
    /// The state file knows of a copy that is about to be published.
    Copying,
    /// The broker has confirmed the copy; neither the state file nor the original's channel was told.
    Copied,
}

impl Arrow {
    /// Those that every message passes, in order.
    pub const ALL: [Self; 6] =
        [Self::Received, Self::Recorded, Self::Answered, Self::Decided, Self::VerbSent, Self::Settled];

    /// Those of a message that is copied.
    pub const OF_COPIES: [Self; 2] = [Self::Copying, Self::Copied];

    /// The stable name.
    pub fn code(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Recorded => "recorded",
            Self::Answered => "answered",
            Self::Decided => "decided",
            Self::VerbSent => "verb_sent",
            Self::Settled => "settled",
            Self::Copying => "copying",
            Self::Copied => "copied",
        }
    }
}

/// Called at every arrow. Does nothing in earnest; tests end the process there.
pub type OnArrow = Rc<dyn Fn(Arrow)>;

/// What all workers share.
pub struct Context<R> {
    /// The state file.
    pub store: Store,
    /// Airflow.
    pub runs: R,
    /// The wall clock.
    pub clock: Clock,
    /// Bounds.
    pub limits: Limits,
    /// What Airflow has said of its DAGs.
    pub dags: Rc<DagBook>,
    /// What brokers have said of their queues.
    pub queues: QueueBook,
    /// The consumers that are held now.
    pub attached: Attached,
    identity: Identity,
    /// Requests to Airflow under way, taken in turns by subscription.
    pub(super) requests: Places,
    pub(super) refusals: Refusals,
    pub(super) targets: Targets,
    random: RefCell<fastrand::Rng>,
    body_limits: BodyLimits,
    bodies: Option<Bodies>,
    pub(super) retention: Retention,
    pub(super) verdicts: VerdictLog,
    on_arrow: OnArrow,
}

impl<R> Context<R> {
    /// Puts it together.
    pub fn new(store: Store, runs: R, clock: Clock, limits: Limits, identity: Identity, on_arrow: OnArrow) -> Self {
        let targets = Targets::new(Rc::clone(&clock));
        Self {
            store,
            runs,
            clock,
            limits,
            dags: Rc::default(),
            queues: QueueBook::default(),
            attached: Attached::default(),
            identity,
            requests: Places::new(limits.max_in_flight, Rc::default()),
            refusals: Refusals::default(),
            targets,
            random: RefCell::new(fastrand::Rng::new()),
            body_limits: BodyLimits::default(),
            bodies: None,
            retention: Retention::default(),
            verdicts: VerdictLog::default(),
            on_arrow,
        }
    }

    /// With limits other than the default's, and a place for bodies that go into files.
    #[must_use]
    pub fn with_bodies(mut self, limits: BodyLimits, bodies: Bodies) -> Self {
        self.body_limits = limits;
        self.bodies = Some(bodies);
        self
    }

    /// With bounds of the ledger other than the default's.
    #[must_use]
    pub fn with_retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Takes in what an earlier life of the watcher has learnt: since when DAGs are not ready.
    pub fn remember_not_ready(&self, since: impl IntoIterator<Item = (DagId, i64)>) {
        since.into_iter().for_each(|(dag, since_ms)| self.targets.get(&dag).remember_not_ready(since_ms));
    }

    pub(super) fn body_limits(&self) -> BodyLimits {
        self.body_limits
    }

    pub(super) async fn keep_body(&self, run: &RunId, body: Bytes) -> std::io::Result<BodyFile> {
        match &self.bodies {
            Some(bodies) => bodies.keep(run, body).await,
            None => Err(std::io::Error::other("there is no place for files")),
        }
    }

    pub(super) fn at(&self, arrow: Arrow) {
        (self.on_arrow)(arrow);
    }

    pub(super) fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    pub(super) fn seed(&self) -> u64 {
        self.random.borrow_mut().u64(..)
    }

    /// A tag for one attach: the nonce keeps a ghost of an earlier one from vouching for this one.
    pub(super) fn new_tag(&self, subscription: SubscriptionId) -> ConsumerTag {
        let (ours, nonce) = (self.our_tags(), self.random.borrow_mut().u32(..));
        ConsumerTag::new(format!("{ours}{subscription}.{nonce:08x}"))
    }

    /// What the tags of this watcher's consumers begin with.
    pub(super) fn our_tags(&self) -> String {
        let Identity { hostname, pid } = &self.identity;
        format!("rmq_watcher.{hostname}.{pid}.")
    }
}
