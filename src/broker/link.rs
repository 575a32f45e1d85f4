//! One AMQP connection in use, and its end.
//!
//! Invariant: however a link ends (closed, dropped, its runtime gone), its socket is shut down within [`CLOSE_TIMEOUT`], so that
//! lapin's I/O thread ends too. Held by `real_frozen_broker_close_is_bounded` in `tests/broker`.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::Shutdown;
use std::rc::Rc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use super::fault::Place;
use super::management::Management;
use super::stash::Stash;
use crate::domain::connection::AmqpSettings;
use crate::domain::ids::QueueName;
use crate::domain::queue_facts::{Look, NotLooked, Release};

/// How long a connection may take to say goodbye.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a channel may take to close; what is unsettled goes back with it, or with the connection later.
const CHANNEL_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Closes a channel, bounded by [`CHANNEL_CLOSE_TIMEOUT`].
pub(super) async fn close_channel(channel: &lapin::Channel) {
    if channel.status().connected() {
        // An error means that it is closed already, or is being closed.
        drop(tokio::time::timeout(CHANNEL_CLOSE_TIMEOUT, channel.close(200, "OK".into())).await);
    }
}

/// A second handle on a connection's socket that shuts the socket down when dropped. lapin offers no way to end a connection
/// whose peer is silent; a socket that is shut down ends it at once.
pub(super) struct Cut(pub(super) socket2::Socket);

impl Cut {
    /// Ends the connection now: every pending call on it fails.
    pub(super) fn now(&self) {
        // Fails only where the socket is no longer connected, which is what is wanted.
        drop(self.0.shutdown(Shutdown::Both));
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.now();
    }
}

/// A connection with what is needed to end it. Ending order matters: `lapin` may hang, `cut` does not.
pub(super) struct Opened {
    pub(super) connection: lapin::Connection,
    pub(super) cut: Cut,
    pub(super) stash: Stash,
    pub(super) place: Place,
    /// Of the broker, as it says itself.
    pub(super) release: Option<Release>,
}

impl Opened {
    /// Closes in good order if the peer takes part, else hard. Bounded by [`CLOSE_TIMEOUT`].
    pub(super) async fn close(self) {
        if self.connection.status().connected() {
            let goodbye = self.connection.close(200, "OK".into());
            // A peer that does not answer, or answers with an error, is cut off below.
            drop(tokio::time::timeout(CLOSE_TIMEOUT, goodbye).await);
        }
    }
}

/// The tasks that close connections nobody uses any more; the pool waits for them at its end.
#[derive(Clone)]
pub(super) struct Closing(Rc<RefCell<JoinSet<()>>>);

impl Closing {
    pub(super) fn new() -> Self {
        Self(Rc::new(RefCell::new(JoinSet::new())))
    }

    fn add(&self, goodbye: impl Future<Output = ()> + Send + 'static, runtime: &Handle) {
        let mut set = self.0.borrow_mut();
        while set.try_join_next().is_some() {}
        set.spawn_on(goodbye, runtime);
    }

    /// Waits for all of them; each is bounded by [`CLOSE_TIMEOUT`].
    pub(super) async fn finish(&self) {
        let mut set = self.0.take();
        while set.join_next().await.is_some() {}
    }
}

/// A shared connection. The last holder's drop closes it.
pub(super) struct Link {
    opened: Option<Opened>,
    closing: Closing,
    runtime: Handle,
    /// Bound of one AMQP call on this connection.
    pub(super) rpc_timeout: Duration,
    /// It was ended by us, which lapin learns a moment later.
    is_cut: Cell<bool>,
    settings: AmqpSettings,
    /// Made when it is first asked.
    management: OnceCell<Option<Management>>,
}

impl Link {
    /// # Panics
    /// Outside of a tokio runtime.
    pub(super) fn new(opened: Opened, settings: AmqpSettings, closing: Closing) -> Self {
        let (runtime, rpc_timeout, management) = (Handle::current(), settings.rpc_timeout, OnceCell::new());
        let is_cut = Cell::default();
        Self { opened: Some(opened), closing, runtime, rpc_timeout, is_cut, settings, management }
    }

    fn opened(&self) -> &Opened {
        self.opened.as_ref().expect("a link is opened until it is dropped")
    }

    pub(super) fn connection(&self) -> &lapin::Connection {
        &self.opened().connection
    }

    pub(super) fn place(&self) -> &Place {
        &self.opened().place
    }

    pub(super) fn stash(&self) -> &Stash {
        &self.opened().stash
    }

    /// What the broker says of itself and of a queue. Bounded.
    pub(super) async fn look_at(&self, queue: &QueueName, our_tags: &str) -> Look {
        let facts = async {
            match self.management.get_or_try_init(|| Management::of(&self.settings)).await {
                Ok(Some(management)) => management.queue(queue, our_tags).await,
                Ok(None) => Err(NotLooked::NoManagement),
                Err(reason) => Err(NotLooked::Failed(reason)),
            }
        };
        Look { release: self.opened().release, facts: facts.await }
    }

    pub(super) fn is_connected(&self) -> bool {
        !self.is_cut.get() && self.connection().status().connected()
    }

    /// Closes a channel that was dropped without a word. lapin would not: a consumer that is registered, or was to be, keeps
    /// its channel alive inside lapin, and goes on taking messages.
    pub(super) fn close_channel(&self, channel: &lapin::Channel) {
        if !channel.status().connected() {
            return;
        }
        let channel = channel.clone();
        let goodbye = async move { close_channel(&channel).await };
        self.closing.add(goodbye, &self.runtime);
    }

    /// Ends the connection at once, for a peer that no longer takes what we write.
    pub(super) fn cut(&self) {
        self.is_cut.set(true);
        self.opened().cut.now();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(opened) = self.opened.take() {
            self.closing.add(opened.close(), &self.runtime);
        }
    }
}
