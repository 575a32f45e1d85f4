//! Waiting for the next cycle, and everything that may bring one before its time.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, sleep_until};

use super::Flow;
use super::consumers::Ended;
use super::counters;
use crate::domain::control::{Answer, Request};
use crate::domain::ids::SubscriptionId;
use crate::domain::status::SubscriptionStatus;
use crate::ports::{Broker, Consumer, Dags, Declarations, Runs};
use crate::store::subscriptions::Switched;
use crate::telemetry::events;

/// Files change in groups: a checkout is scanned once.
const DEBOUNCE: Duration = Duration::from_secs(1);

/// What somebody beside the watcher asks, and where the answer goes.
pub type Asked = (Request, oneshot::Sender<Answer>);

/// Why the wait ended.
pub(super) enum Woken {
    /// The interval is over.
    Due,
    /// A file changed.
    Changed,
    /// Somebody asked for a cycle, and hears when it has ended.
    Asked(oneshot::Sender<Answer>),
}

impl Woken {
    /// The cycle has ended.
    pub(super) fn answer(self) {
        match self {
            Self::Asked(reply) => drop(reply.send(Answer::Done)),
            Self::Due | Self::Changed => {}
        }
    }
}

impl<R, B, D> Flow<R, B, D>
where
    R: Runs + Dags + 'static,
    B: Broker + 'static,
    <B::Consumer as Consumer>::Settler: 'static,
    D: Declarations + 'static,
{
    /// Waits for what brings the next cycle. Consumers that end meanwhile make room for others.
    pub(super) async fn wait(&mut self, requests: &mut mpsc::Receiver<Asked>) -> Woken {
        let due = sleep_until(self.next_cycle);
        tokio::pin!(due);
        let declarations = std::rc::Rc::clone(&self.declarations);
        let changed = async {
            declarations.lock().await.changed().await;
            sleep(DEBOUNCE).await;
        };
        tokio::pin!(changed);
        loop {
            tokio::select! {
                biased;
                () = &mut due => return Woken::Due,
                ended = self.consumers.ended() => self.ended(ended).await,
                // Whoever gave up waiting was told that nobody knows: it need not come true later.
                Some((request, reply)) = requests.recv() => if !reply.is_closed() {
                    match self.asked(request).await {
                        Some(answer) => drop(reply.send(answer)),
                        None => return Woken::Asked(reply),
                    }
                },
                () = &mut changed => return Woken::Changed,
            }
        }
    }

    /// A consumer has ended. One that broke is started again by the next timed cycle.
    async fn ended(&mut self, ended: Ended) {
        if let Ended::Broke(place, ids) = ended {
            self.counters.add(counters::CONSUMER_RESTARTED);
            tracing::error!(
                event = events::WORKER_PANICKED,
                "RMQ Watcher: the consumer of queue '{}' (connection '{}') met a defect of this program; it is started again within {} s",
                place.queue,
                place.conn_id,
                self.settings.interval.as_secs()
            );
            let reason = Some("a defect of this program ended its consumer".to_owned());
            let now_ms = self.now_ms();
            for id in ids {
                let error = SubscriptionStatus::Error;
                self.context.store.set_subscription_status(id, error, reason.clone(), None, now_ms).await;
            }
        }
        self.apply().await;
    }

    /// Does what is asked; `None`: a cycle is the answer.
    async fn asked(&mut self, request: Request) -> Option<Answer> {
        match request {
            Request::Ping => {
                let version = env!("CARGO_PKG_VERSION").to_owned();
                Some(Answer::Pong { pid: std::process::id(), version })
            }
            Request::Wake => None,
            Request::SetEnabled { id, enabled } => self.switch(id, enabled).await,
        }
    }

    async fn switch(&mut self, id: SubscriptionId, enabled: bool) -> Option<Answer> {
        match self.context.store.set_enabled(id, enabled, self.now_ms()).await {
            Ok(Switched::Done) => {
                let word = if enabled { "enabled" } else { "disabled" };
                tracing::info!(
                    event = events::SUBSCRIPTION_SWITCHED,
                    "RMQ Watcher: subscription {id} was {word} by hand"
                );
                None
            }
            Ok(Switched::AlreadySo) => Some(Answer::Done),
            Ok(Switched::Unknown) => {
                let sentence = format!("there is no subscription {id}; see `rmq-watcher subscriptions list`");
                Some(Answer::Refused { sentence })
            }
            Err(error) => Some(Answer::Refused { sentence: error.to_string() }),
        }
    }
}
