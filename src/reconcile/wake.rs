//! Waiting for the next cycle, and everything that may bring one before its time.

use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Flow;
use super::consumers::Ended;
use super::counters;
use crate::domain::control::{Answer, Request};
use crate::domain::ids::SubscriptionId;
use crate::domain::shutdown::Phase;
use crate::domain::status::SubscriptionStatus;
use crate::ports::{Broker, Consumer, Dags, Declarations, Runs};
use crate::store::subscriptions::Switched;
use crate::telemetry::events;

/// Files change in groups, and a checkout is scanned once: for so long nothing may have changed before it is.
const QUIET: Duration = Duration::from_secs(1);

/// How long changes that do not end are waited for.
const LONGEST_UNREST: Duration = Duration::from_secs(10);

/// How many times its own duration lies between a cycle that files brought and the next one: they take a tenth of the time at most.
const REST: u32 = 10;

/// What the cycles before leave to the next wake.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// When the last cycle began that files brought.
    woken: Option<Instant>,
    /// How long the last cycle took.
    took: Duration,
}

impl Rest {
    /// A cycle has ended.
    pub(super) fn ended(&mut self, woken: &Woken, began: Instant) {
        self.took = began.elapsed();
        match woken {
            Woken::Changed => self.woken = Some(began),
            Woken::Due | Woken::Asked(_) => {}
        }
    }

    /// Before then files bring no cycle.
    fn until(&self) -> Option<Instant> {
        self.woken?.checked_add(self.took.saturating_mul(REST))
    }
}

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
    /// The cycle has ended; `applied`: what runs is what is recorded.
    pub(super) fn answer(self, applied: bool) {
        match self {
            Self::Asked(reply) => drop(reply.send(in_force(applied))),
            Self::Due | Self::Changed => {}
        }
    }
}

fn in_force(applied: bool) -> Answer {
    if applied {
        return Answer::Done;
    }
    let sentence =
        "what is recorded could not be read, so it is not in force yet; the next cycle tries again, see the log"
            .to_owned();
    Answer::Unknown { sentence }
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
        let changed = changed(&declarations, self.rest.until());
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
        // Workers hear of a stop at the same time as we do, and may be through before it is our turn.
        if *self.phase.borrow() == Phase::Stopping {
            return;
        }
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
            Request::SetEnabled { id, enabled } => Some(self.switch(id, enabled).await),
        }
    }

    /// Switches a subscription, and applies that before any folder is looked at.
    async fn switch(&mut self, id: SubscriptionId, enabled: bool) -> Answer {
        match self.context.store.set_enabled(id, enabled, self.now_ms()).await {
            Ok(Switched::Done) => {
                let word = if enabled { "enabled" } else { "disabled" };
                tracing::info!(
                    event = events::SUBSCRIPTION_SWITCHED,
                    "RMQ Watcher: subscription {id} was {word} by hand"
                );
                let applied = self.read_and_apply().await;
                self.phase_at.set("wait");
                in_force(applied)
            }
            Ok(Switched::AlreadySo) => in_force(self.read_and_apply().await),
            Ok(Switched::Unknown) => {
                let sentence = format!("there is no subscription {id}; see `rmq-watcher subscriptions list`");
                Answer::Refused { sentence }
            }
            Err(error) => Answer::Refused { sentence: error.to_string() },
        }
    }
}

/// Returns once files have changed and a scan is worth its price.
async fn changed<D: Declarations>(declarations: &Mutex<D>, not_before: Option<Instant>) {
    let another = async || declarations.lock().await.changed().await;
    another().await;
    let at_last = Instant::now() + LONGEST_UNREST;
    while timeout_at(at_last.min(Instant::now() + QUIET), another()).await.is_ok() {}
    if let Some(rested) = not_before {
        sleep_until(rested).await;
    }
}
