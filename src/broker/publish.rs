//! Publishing copies: a connection that does nothing else, made when it is needed and closed when it is not, and a channel for
//! each copy, so that what closes it concerns no other.
//!
//! Invariants, held by `tests/broker/copies.rs`: `Confirmed` is the broker's word that the message is in the queue; what is not
//! known is never called a failure; nothing here outlasts the connect timeout and one rpc timeout.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{Channel, Confirmation};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::convert;
use super::fault::{self, Place};
use super::link::Link;
use super::pool::Links;
use crate::domain::fault::{BrokerFault, BrokerFaultKind};
use crate::domain::ids::ConnId;
use crate::ports::{ConnectionSource, Outgoing, Published};

const DOING: &str = "publish a copy to";

/// A connection that published nothing for so long is closed.
const IDLE: Duration = Duration::from_secs(60);

/// What a frame has besides its payload, and a content header before its properties.
const FRAME_OVERHEAD: usize = 8 + 14;

/// Publishes copies, over one connection for each connection id.
pub(super) struct Copies<S>(Rc<Shared<S>>);

struct Shared<S> {
    links: Links<S>,
    /// What keeps a connection open, and since when it is not used.
    kept: RefCell<HashMap<ConnId, (Rc<Link>, Instant)>>,
    waiting: RefCell<JoinSet<()>>,
}

impl<S> Clone for Copies<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<S: ConnectionSource + 'static> Copies<S> {
    pub(super) fn new(links: Links<S>) -> Self {
        Self(Rc::new(Shared { links, kept: RefCell::default(), waiting: RefCell::default() }))
    }

    /// Closes the connections; bounded as [`Links::close`] is.
    pub(super) async fn close(&self) {
        let mut waiting = self.0.waiting.take();
        waiting.shutdown().await;
        self.0.kept.take();
        self.0.links.close().await;
    }

    pub(super) async fn publish(&self, copy: Outgoing) -> Published {
        let link = match self.0.links.link(&copy.conn_id).await {
            Ok(link) => link,
            Err(fault) => return Published::Failed(fault),
        };
        self.keep(copy.conn_id.clone(), &link);
        let published = publish(&link, &copy).await;
        self.keep(copy.conn_id, &link);
        published
    }

    /// Keeps the connection open for a while.
    fn keep(&self, conn: ConnId, link: &Rc<Link>) {
        let is_first = {
            let mut kept = self.0.kept.borrow_mut();
            kept.insert(conn.clone(), (Rc::clone(link), Instant::now())).is_none()
        };
        if is_first {
            let mut waiting = self.0.waiting.borrow_mut();
            while waiting.try_join_next().is_some() {}
            waiting.spawn_local(close_when_idle(Rc::downgrade(&self.0), conn));
        }
    }
}

async fn close_when_idle<S>(shared: Weak<Shared<S>>, conn: ConnId) {
    loop {
        let Some(shared_now) = shared.upgrade() else { return };
        let due = shared_now.kept.borrow().get(&conn).map(|(_, since)| *since + IDLE);
        let Some(due) = due else { return };
        if due <= Instant::now() {
            shared_now.kept.borrow_mut().remove(&conn);
            return;
        }
        drop(shared_now);
        sleep_until(due).await;
    }
}

/// A channel that is closed however its use ends.
struct Used<'a> {
    link: &'a Rc<Link>,
    channel: Channel,
}

impl Drop for Used<'_> {
    fn drop(&mut self) {
        self.link.close_channel(&self.channel);
    }
}

/// Channel → confirms → publish → the broker's word, all within one rpc timeout.
async fn publish(link: &Rc<Link>, copy: &Outgoing) -> Published {
    let place = link.place();
    if link.connection().status().blocked() {
        let text = format!("{DOING} queue {:?} over {place}: the broker takes no messages (an alarm)", copy.queue);
        return Published::Failed(fault::fault(BrokerFaultKind::Closed, text));
    }
    let name = ShortString::try_new(copy.queue.as_str()).ok();
    let properties = convert::properties_of(&copy.properties, &copy.headers);
    let (Some(name), Some(properties)) = (name, properties) else {
        return Published::Refused(does_not_fit(place, copy, "a name in it is longer than 255 bytes"));
    };
    let frame_max = usize::try_from(link.connection().configuration().frame_max()).unwrap_or(usize::MAX);
    if frame_max > 0 && convert::size_of(&copy.properties, &copy.headers) + FRAME_OVERHEAD > frame_max {
        return Published::Refused(does_not_fit(place, copy, "its headers need more than one frame"));
    }
    let deadline = Instant::now() + link.rpc_timeout;
    let late = || fault::call_timed_out(place, DOING, &copy.queue, link.rpc_timeout);
    let opened = async {
        let used = Used { link, channel: link.connection().create_channel().await? };
        used.channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok::<_, lapin::Error>(used)
    };
    let used = match timeout(link.rpc_timeout, opened).await {
        Ok(Ok(used)) => used,
        Ok(Err(error)) => return Published::Failed(fault::publishing(place, DOING, &copy.queue, &error)),
        Err(_) => {
            link.cut();
            return Published::Failed(late());
        }
    };
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let said = async {
        let sent = used.channel.basic_publish("".into(), name, options, &copy.body, properties).await?;
        sent.await
    };
    match timeout(deadline.saturating_duration_since(Instant::now()), said).await {
        Ok(Ok(confirmation)) => confirmed(place, copy, &confirmation),
        Ok(Err(error)) => broke_off(fault::publishing(place, DOING, &copy.queue, &error)),
        Err(_) => {
            // Whatever comes later could not be told from the answer to another copy.
            link.cut();
            Published::Unknown(late())
        }
    }
}

/// What the broker's word means.
fn confirmed(place: &Place, copy: &Outgoing, confirmation: &Confirmation) -> Published {
    let at = || format!("{DOING} queue {:?} over {place}", copy.queue);
    match confirmation {
        Confirmation::Ack(None) => Published::Confirmed,
        Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_)) => {
            let text = format!("{}: there is no such queue (any more)", at());
            Published::Failed(fault::fault(BrokerFaultKind::QueueMissing, text))
        }
        Confirmation::Nack(None) => {
            let text = format!("{}: the broker did not take it; the queue is full", at());
            Published::Failed(fault::fault(BrokerFaultKind::Closed, text))
        }
        Confirmation::NotRequested => {
            let text = format!("{}: the broker was not asked to confirm it", at());
            Published::Unknown(fault::fault(BrokerFaultKind::Closed, text))
        }
    }
}

/// What the end of the channel means, while the broker's word was waited for.
fn broke_off(fault: BrokerFault) -> Published {
    match fault.kind {
        // The broker closed the channel over this very message.
        BrokerFaultKind::AccessRefused | BrokerFaultKind::PreconditionFailed => Published::Refused(fault),
        BrokerFaultKind::ConnectionUnknown
        | BrokerFaultKind::Unreachable
        | BrokerFaultKind::TimedOut
        | BrokerFaultKind::Tls
        | BrokerFaultKind::LoginRefused
        | BrokerFaultKind::VhostRefused
        | BrokerFaultKind::QueueMissing
        | BrokerFaultKind::ResourceLocked
        | BrokerFaultKind::Cancelled
        | BrokerFaultKind::Closed => Published::Unknown(fault),
    }
}

fn does_not_fit(place: &Place, copy: &Outgoing, why: &str) -> BrokerFault {
    let text = format!("{DOING} queue {:?} over {place}: {why}", copy.queue);
    fault::fault(BrokerFaultKind::PreconditionFailed, text)
}
