//! Trying a connection out for `rmq-watcher check`: login, vhost, then each queue by a passive declare.
//!
//! Changes nothing at the broker. Each queue has a channel of its own, since a refused declare ends its channel.

use lapin::options::QueueDeclareOptions;
use lapin::types::{FieldTable, ShortString};
use tokio::time::timeout;

use super::connect::{self, Purpose};
use super::fault;
use super::link::Opened;
use crate::domain::connection::AmqpSettings;
use crate::domain::fault::{BrokerFault, BrokerFaultKind};
use crate::domain::ids::QueueName;
use crate::domain::queue_facts::Release;

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeResult {
    /// What was tried.
    pub subject: ProbeSubject,
    /// What came of it.
    pub outcome: Result<ProbeFinding, BrokerFault>,
}

/// What is tried, in this order; nothing after the first failure but queues, each of which is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeSubject {
    /// Reaching the broker: addresses, TCP, TLS, greeting.
    Connection,
    /// User and password.
    Login,
    /// The vhost and the right to it.
    Vhost,
    /// A queue.
    Queue(QueueName),
}

/// What was found where nothing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeFinding {
    /// It works.
    Works,
    /// The broker says which release it is, if it says so.
    Greeted(Option<Release>),
    /// The queue is there.
    Queue {
        /// Messages ready for delivery.
        messages: u32,
        /// Its consumers, everybody's.
        consumers: u32,
    },
}

/// Tries a connection and its queues. Bounded by the connect timeout, one rpc timeout per queue, and 5 s for goodbye.
///
/// # Cancel safety
/// Dropping the future leaves nothing behind.
pub async fn probe(settings: &AmqpSettings, queues: &[QueueName]) -> Vec<ProbeResult> {
    let works = |subject| ProbeResult { subject, outcome: Ok(ProbeFinding::Works) };
    let mut results = Vec::with_capacity(3 + queues.len());
    let opened = match connect::connect(settings, Purpose::Consume).await {
        Ok(opened) => opened,
        Err(fault) => {
            let subject = match fault.kind {
                BrokerFaultKind::LoginRefused => ProbeSubject::Login,
                BrokerFaultKind::VhostRefused => ProbeSubject::Vhost,
                BrokerFaultKind::ConnectionUnknown
                | BrokerFaultKind::Unreachable
                | BrokerFaultKind::TimedOut
                | BrokerFaultKind::Tls
                | BrokerFaultKind::QueueMissing
                | BrokerFaultKind::AccessRefused
                | BrokerFaultKind::PreconditionFailed
                | BrokerFaultKind::ResourceLocked
                | BrokerFaultKind::Cancelled
                | BrokerFaultKind::Closed => ProbeSubject::Connection,
            };
            if subject != ProbeSubject::Connection {
                results.push(works(ProbeSubject::Connection));
            }
            if subject == ProbeSubject::Vhost {
                results.push(works(ProbeSubject::Login));
            }
            results.push(ProbeResult { subject, outcome: Err(fault) });
            return results;
        }
    };
    let greeted = Ok(ProbeFinding::Greeted(opened.release));
    results.push(ProbeResult { subject: ProbeSubject::Connection, outcome: greeted });
    results.push(works(ProbeSubject::Login));
    results.push(works(ProbeSubject::Vhost));
    for queue in queues {
        results.push(ProbeResult {
            subject: ProbeSubject::Queue(queue.clone()),
            outcome: probe_queue(settings, &opened, queue).await,
        });
    }
    opened.close().await;
    results
}

async fn probe_queue(settings: &AmqpSettings, opened: &Opened, queue: &QueueName) -> Result<ProbeFinding, BrokerFault> {
    const DOING: &str = "look at";
    let place = &opened.place;
    let name = ShortString::try_new(queue.as_str()).map_err(|_| {
        let text = format!("{DOING} queue {queue:?}: its name is longer than 255 bytes; correct it");
        fault::fault(BrokerFaultKind::QueueMissing, text)
    })?;
    let calls = async {
        let channel = opened.connection.create_channel().await?;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let found = channel.queue_declare(name, passive, FieldTable::default()).await?;
        channel.close(200, "OK".into()).await?;
        Ok::<_, lapin::Error>(found)
    };
    match timeout(settings.rpc_timeout, calls).await {
        Ok(Ok(found)) => Ok(ProbeFinding::Queue { messages: found.message_count(), consumers: found.consumer_count() }),
        Ok(Err(error)) => Err(fault::channel(place, DOING, queue, &error)),
        Err(_) => Err(fault::call_timed_out(place, DOING, queue, settings.rpc_timeout)),
    }
}
