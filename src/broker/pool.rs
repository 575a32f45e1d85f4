//! Connections of one purpose: one per connection id, made when asked for, shared, closed when nobody uses it any more.
//!
//! A pool has two sets of them, so that what blocks those that publish (an alarm at the broker) holds up no acknowledgement.
//!
//! Invariants, held by tests in `tests/broker`:
//! - However many callers wait for a connection, one attempt is under way; it ends by itself within its time, also when all
//!   of them have gone.
//! - An attempt that failed or broke down leaves its slot empty: the next caller starts anew.
//! - A connection that is no longer connected is replaced; its consumers learn of the loss by themselves.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connect::{self, Purpose};
use super::consumer::{self, LapinConsumer};
use super::fault;
use super::link::{Closing, Link};
use super::publish::Copies;
use crate::domain::fault::{BrokerFault, BrokerFaultKind};
use crate::domain::ids::ConnId;
use crate::domain::plan::Place;
use crate::domain::queue_facts::{Look, NotLooked};
use crate::ports::{AttachOrder, Broker, ConnectionSource, Outgoing, Published};
use crate::telemetry::events;

/// Bound of finding a connection's settings, over whatever bounds the source has itself.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(60);

type Outcome = Result<Rc<Link>, BrokerFault>;

enum Slot {
    Trying(watch::Receiver<Option<Outcome>>),
    Open(Weak<Link>),
}

struct Shared<S> {
    source: Rc<S>,
    purpose: Purpose,
    slots: RefCell<HashMap<ConnId, Slot>>,
    attempts: RefCell<JoinSet<()>>,
    closing: Closing,
}

/// The connections and the consumers and copies that go over them. Lives in a `LocalSet`; clones are the same pool.
pub struct Pool<S> {
    consuming: Links<S>,
    copies: Copies<S>,
}

impl<S> Clone for Pool<S> {
    fn clone(&self) -> Self {
        Self { consuming: self.consuming.clone(), copies: self.copies.clone() }
    }
}

impl<S: ConnectionSource + 'static> Pool<S> {
    /// A pool without connections; `source` is asked for fresh settings at every connect.
    pub fn new(source: S) -> Self {
        let source = Rc::new(source);
        let consuming = Links::new(Rc::clone(&source), Purpose::Consume);
        Self { consuming, copies: Copies::new(Links::new(source, Purpose::Publish)) }
    }

    /// Gives up attempts under way and waits for connections that are being closed, at most about 5 s. Connections that
    /// consumers still use stay open.
    pub async fn close(&self) {
        self.copies.close().await;
        self.consuming.close().await;
    }
}

/// The connections of one purpose.
pub(super) struct Links<S>(Rc<Shared<S>>);

impl<S> Clone for Links<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<S: ConnectionSource + 'static> Links<S> {
    pub(super) fn new(source: Rc<S>, purpose: Purpose) -> Self {
        let (slots, attempts) = (RefCell::default(), RefCell::default());
        Self(Rc::new(Shared { source, purpose, slots, attempts, closing: Closing::new() }))
    }

    pub(super) async fn close(&self) {
        let mut attempts = self.0.attempts.take();
        attempts.shutdown().await;
        self.0.closing.finish().await;
    }

    pub(super) async fn link(&self, conn: &ConnId) -> Outcome {
        let mut outcome = match self.0.usable(conn) {
            Some(Slot::Trying(outcome)) => outcome,
            Some(Slot::Open(link)) => match link.upgrade() {
                Some(link) => return Ok(link),
                None => self.start(conn),
            },
            None => self.start(conn),
        };
        let ended = outcome.wait_for(Option::is_some).await;
        match ended.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            Ok(None) | Err(_) => Err(fault::fault(
                BrokerFaultKind::Closed,
                format!("connect (connection {conn:?}): the attempt was given up"),
            )),
        }
    }

    /// Starts an attempt as a task of its own, so that it belongs to none of its callers.
    fn start(&self, conn: &ConnId) -> watch::Receiver<Option<Outcome>> {
        let (report, outcome) = watch::channel(None);
        self.0.slots.borrow_mut().insert(conn.clone(), Slot::Trying(outcome.clone()));
        let shared = Rc::clone(&self.0);
        let conn = conn.clone();
        let mut attempts = self.0.attempts.borrow_mut();
        while attempts.try_join_next().is_some() {}
        attempts.spawn_local(async move {
            let outcome = shared.attempt(&conn).await;
            shared.note(conn, &outcome);
            report.send_replace(Some(outcome));
        });
        outcome
    }
}

impl<S: ConnectionSource> Shared<S> {
    /// The slot's content if it can still lead to a connection.
    fn usable(&self, conn: &ConnId) -> Option<Slot> {
        match self.slots.borrow().get(conn)? {
            Slot::Trying(outcome) if outcome.has_changed().is_ok() => Some(Slot::Trying(outcome.clone())),
            Slot::Open(link) if link.upgrade().is_some_and(|l| l.is_connected()) => Some(Slot::Open(link.clone())),
            Slot::Trying(_) | Slot::Open(_) => None,
        }
    }

    fn note(&self, conn: ConnId, outcome: &Outcome) {
        let mut slots = self.slots.borrow_mut();
        match outcome {
            Ok(link) => slots.insert(conn, Slot::Open(Rc::downgrade(link))),
            Err(_) => slots.remove(&conn),
        };
    }

    async fn attempt(&self, conn: &ConnId) -> Outcome {
        let settings = match timeout(RESOLVE_TIMEOUT, self.source.resolve(conn)).await {
            Ok(settings) => settings?,
            Err(_) => {
                let bound = RESOLVE_TIMEOUT.as_secs();
                return Err(fault::fault(
                    BrokerFaultKind::TimedOut,
                    format!("find the settings of connection {conn:?}: not done within {bound} s"),
                ));
            }
        };
        match connect::connect(&settings, self.purpose).await {
            Ok(opened) => {
                tracing::info!(
                    event = events::BROKER_CONNECTED,
                    connection.id = %conn,
                    connection.tls = settings.tls.is_some(),
                    "connected to RabbitMQ at {}{}",
                    opened.place,
                    match self.purpose {
                        Purpose::Consume => "",
                        Purpose::Publish => " to publish copies",
                    },
                );
                let closing = self.closing.clone();
                Ok(Rc::new(Link::new(opened, settings, closing)))
            }
            Err(fault) => {
                if fault.kind == BrokerFaultKind::LoginRefused {
                    self.source.login_refused(conn);
                }
                Err(fault)
            }
        }
    }
}

/// Keeps a connection open.
pub struct OpenLink {
    _link: Rc<Link>,
}

impl<S: ConnectionSource + 'static> Broker for Pool<S> {
    type Consumer = LapinConsumer;
    type Open = OpenLink;

    async fn open(&self, conn: &ConnId) -> Result<OpenLink, BrokerFault> {
        Ok(OpenLink { _link: self.consuming.link(conn).await? })
    }

    async fn look_at(&self, place: &Place, our_tags: &str) -> Look {
        let open = match self.consuming.0.usable(&place.conn_id) {
            Some(Slot::Open(link)) => link.upgrade(),
            Some(Slot::Trying(_)) | None => None,
        };
        match open {
            Some(link) => link.look_at(&place.queue, our_tags).await,
            None => Look { release: None, facts: Err(NotLooked::NotConnected) },
        }
    }

    async fn attach(&self, order: AttachOrder) -> Result<LapinConsumer, BrokerFault> {
        let link = self.consuming.link(&order.conn_id).await?;
        consumer::attach(link, order).await
    }

    async fn publish(&self, copy: Outgoing) -> Published {
        self.copies.publish(copy).await
    }
}
