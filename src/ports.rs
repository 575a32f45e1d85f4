//! The network edges as traits: what the flows need from Airflow and from a broker, and no more.
//!
//! All of it runs on the loop thread's single-threaded runtime, so no future needs to be `Send`. Every call is bounded in
//! time by its implementation.

#![expect(async_fn_in_trait, reason = "used on one thread, through generics only")]

use std::rc::Rc;

use bytes::Bytes;

use crate::domain::connection::AmqpSettings;
use crate::domain::cycle_settings::Variable;
use crate::domain::declaration::{Declaration, FileProblem, Refusal};
use crate::domain::envelope::{Envelope, Properties, Table};
use crate::domain::fault::BrokerFault;
use crate::domain::ids::{ConnId, ConsumerTag, DagId, DeliveryTag, Epoch, QueueName, RunId};
use crate::domain::outcome::{DagList, DagLookup, Part, RunLookup, TriggerAnswer};
use crate::domain::plan::Place;
use crate::domain::queue_facts::Look;

/// Starting DAG runs and asking about them.
pub trait Runs {
    /// Asks for a run. `conf` is a JSON object that has passed validation.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the run was created, as [`TriggerAnswer::Ambiguous`] does.
    async fn trigger(
        &self,
        dag: &DagId,
        run: &RunId,
        conf: &serde_json::Map<String, serde_json::Value>,
    ) -> TriggerAnswer;

    /// Looks a run up by its id.
    async fn look_up(&self, dag: &DagId, run: &RunId) -> RunLookup;
}

/// What Airflow knows besides its runs: DAGs, its own health, Variables. Questions only: each may be asked again.
pub trait Dags {
    /// Looks a DAG up.
    async fn look_up_dag(&self, dag: &DagId) -> DagLookup;

    /// Every DAG that Airflow has, those that are stale among them.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the list.
    async fn list_dags(&self) -> DagList;

    /// How the part of Airflow is that reads DAG files.
    async fn dag_processor(&self) -> Part;

    /// Reads a Variable.
    async fn variable(&self, key: &str) -> Variable;
}

/// Finds the settings of a connection id, fresh for every connect.
pub trait ConnectionSource {
    /// # Errors
    /// One sentence naming the connection, what is wrong with it and where it was looked for.
    async fn resolve(&self, conn: &ConnId) -> Result<AmqpSettings, BrokerFault>;

    /// Tells the source that the broker refused these credentials, so that a cached answer is asked for again.
    fn login_refused(&self, conn: &ConnId);
}

impl<T: ConnectionSource> ConnectionSource for Rc<T> {
    async fn resolve(&self, conn: &ConnId) -> Result<AmqpSettings, BrokerFault> {
        (**self).resolve(conn).await
    }

    fn login_refused(&self, conn: &ConnId) {
        (**self).login_refused(conn);
    }
}

/// Attaching consumers.
pub trait Broker {
    /// A consumer on a channel of its own.
    type Consumer: Consumer;

    /// Keeps a connection open for as long as it lives.
    type Open;

    /// Opens the one consuming connection of `conn`, or finds it open.
    ///
    /// # Errors
    /// As [`Broker::attach`].
    ///
    /// # Cancel safety
    /// As [`Broker::attach`].
    async fn open(&self, conn: &ConnId) -> Result<Self::Open, BrokerFault>;

    /// What the broker says of itself and of a queue, where a connection to it is open: its management API is asked once, within
    /// 5 s. `our_tags`: what the tags of this watcher's consumers begin with.
    ///
    /// # Cancel safety
    /// Cancel safe: a question only.
    async fn look_at(&self, place: &Place, our_tags: &str) -> Look;

    /// Registers a consumer on a channel of its own, over the one consuming connection of `conn`. Returns once the
    /// broker has confirmed it.
    ///
    /// # Errors
    /// The fault that stands in the way; nothing is left behind at the broker or here.
    ///
    /// # Cancel safety
    /// Dropping the future gives up this attach; an attempt to connect in progress is shared with others and goes on to its end.
    async fn attach(&self, order: AttachOrder) -> Result<Self::Consumer, BrokerFault>;

    /// Publishes a message to a queue: through the default exchange, `mandatory`, with the broker's confirm, over a connection
    /// that does nothing else.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the message was published, as [`Published::Unknown`] does.
    async fn publish(&self, copy: Outgoing) -> Published;
}

/// A message to publish.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Over which connection.
    pub conn_id: ConnId,
    /// To which queue.
    pub queue: QueueName,
    /// Its properties, headers left out.
    pub properties: Properties,
    /// Its headers.
    pub headers: Table,
    /// Its body.
    pub body: Bytes,
}

/// What became of a message that was to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// The broker has it in the queue.
    Confirmed,
    /// It is surely not there, and would not be at the next try: no right to publish (`AccessRefused`), or this message does not fit.
    Refused(BrokerFault),
    /// It is surely not there: no connection, or the queue is full or gone.
    Failed(BrokerFault),
    /// It may be there.
    Unknown(BrokerFault),
}

/// What to attach.
#[derive(Clone, Debug)]
pub struct AttachOrder {
    /// Over which connection.
    pub conn_id: ConnId,
    /// To which queue.
    pub queue: QueueName,
    /// Under which tag.
    pub tag: ConsumerTag,
    /// The number of this channel's life; stamped on every delivery.
    pub epoch: Epoch,
    /// How many unsettled deliveries at most.
    pub prefetch: u16,
}

/// A consumer that is attached. One channel, one epoch; gone for good once [`Consumer::next`] returned an error.
pub trait Consumer {
    /// Settles deliveries of this channel.
    type Settler: Settler + Clone;

    /// The next delivery, or why there will be none any more.
    ///
    /// # Errors
    /// The channel or connection is gone; every unsettled delivery of this epoch goes back to the broker.
    ///
    /// # Cancel safety
    /// Cancel safe: no delivery is lost when the future is dropped.
    async fn next(&mut self) -> Result<Envelope, BrokerFault>;

    /// What settles this channel's deliveries.
    fn settler(&self) -> Self::Settler;

    /// Stops the flow of deliveries (`basic.cancel`) and keeps the channel: those held stay settleable. Returns what was on its
    /// way. [`Consumer::next`] then waits for the loss of the channel. Bounded by the rpc timeout.
    ///
    /// # Cancel safety
    /// Cancel safe: what was on its way comes out of [`Consumer::next`], or of the next call.
    async fn pause(&mut self) -> Vec<Envelope>;

    /// Consumes again on the same channel, under a tag of its own, with so many unsettled deliveries at most among what is new.
    /// Does nothing if it is consuming. Bounded by the rpc timeout.
    ///
    /// # Errors
    /// The queue cannot be consumed any more; the channel is gone.
    ///
    /// # Cancel safety
    /// Dropping the future ends the channel: [`Consumer::next`] says so.
    async fn resume(&mut self, tag: ConsumerTag, prefetch: u16) -> Result<(), BrokerFault>;

    /// Closes the channel; everything unsettled goes back at once. Bounded by 2 s.
    async fn close(self);
}

/// Settling deliveries of one channel.
pub trait Settler {
    /// Sends the verb. `Sent` is the most that can be claimed: the bytes are on their way.
    async fn settle(&self, tag: DeliveryTag, verb: Verb) -> Settled;

    /// A synchronous round trip on the channel: once it returns `true`, the broker has read every verb sent before it.
    async fn barrier(&self) -> bool;
}

/// The last act on a delivery, by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `basic.ack`.
    Ack,
    /// `basic.reject`, requeue off.
    DeadLetter,
    /// `basic.reject`, requeue on: tried and failed.
    GiveBackTried,
    /// `basic.nack`, requeue on: not tried.
    GiveBackUntried,
}

/// Reading what is declared.
pub trait Declarations {
    /// Reads everything that is declared now.
    ///
    /// # Errors
    /// Nothing is known: keep what was read last. The text is a clause for people.
    ///
    /// # Cancel safety
    /// A scan that was given up is waited for by the next call: there is never more than one under way.
    async fn scan(&mut self) -> Result<Declared, String>;

    /// Returns once something changed since the last scan that a scan could see. Where changes are not told, never: scan by the
    /// clock as well. Many changes may come one after the other, so wait a little before the scan.
    ///
    /// # Cancel safety
    /// Cancel safe: a change that was not told yet is told by the next call.
    async fn changed(&mut self);
}

/// What is declared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declared {
    /// The subscriptions to run.
    pub declarations: Vec<Declaration>,
    /// Subscriptions that are written down and must not run.
    pub refusals: Vec<Refusal>,
    /// Files and directories of which nothing is known.
    pub unreadable: Vec<FileProblem>,
    /// Files and directories that were not looked at, because it cannot be told yet whether they count. Nothing is known of them,
    /// and nothing is wrong with them.
    pub undecided: Vec<String>,
    /// What stands with a colon before the names of files, where there are several folders.
    pub bundles: Vec<String>,
    /// How many files that may declare something were listed, the unreadable ones included.
    pub listed: u64,
    /// How many of them were read and understood as a whole.
    pub readable: u64,
}

/// What became of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Written to the connection.
    Sent,
    /// The channel was gone: the delivery will come again.
    Lost,
}
