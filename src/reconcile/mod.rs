//! The control flow: scan → sync → plan → apply → status rows.
//!
//! A cycle at the start and one after every interval. A scan that fails leaves everything as it is: a failed read is never
//! an empty set. Cycles never overlap.

mod findings;
pub mod said;

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::{sleep, timeout};

use crate::domain::declaration::Declaration;
use crate::domain::ids::SubscriptionId;
use crate::domain::plan::{Action, plan, queue_taken};
use crate::domain::shutdown::{CONSUMER_BUDGET, Phase};
use crate::domain::status::SubscriptionStatus;
use crate::domain::subscription::{Key, Subscription};
use crate::pipeline::{self, Context};
use crate::ports::{Broker, Consumer, Declarations, Declared, Runs};
use crate::store::StoreError;
use crate::telemetry::events;
use findings::Findings;

/// The bound of one scan.
const SCAN_TIMEOUT: Duration = Duration::from_secs(60);

/// How the control flow runs.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The wait after a cycle has ended.
    pub interval: Duration,
    /// Whether there are credentials to start anything with. Without them nothing is attached, and every status says so.
    pub can_start: bool,
}

/// Runs cycles until the stop, then waits for all workers to leave.
pub async fn run<R, B, D>(
    context: Rc<Context<R>>,
    broker: Rc<B>,
    declarations: D,
    pace: Pace,
    phase: watch::Receiver<Phase>,
) where
    R: Runs + 'static,
    B: Broker + 'static,
    <B::Consumer as Consumer>::Settler: 'static,
    D: Declarations,
{
    let (workers, running, findings) = (JoinSet::new(), HashMap::new(), Findings::default());
    let mut flow = Flow { context, broker, declarations, pace, phase, workers, running, findings };
    let mut phase = flow.phase.clone();
    let stop = async { drop(phase.wait_for(|phase| *phase == Phase::Stopping).await) };
    tokio::pin!(stop);
    flow.context.store.reset_statuses((flow.context.clock)()).await;
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            () = flow.cycle() => {}
        }
        tokio::select! {
            biased;
            () = &mut stop => break,
            () = flow.wait(pace.interval) => {}
        }
    }
    flow.leave().await;
}

struct Flow<R, B, D> {
    context: Rc<Context<R>>,
    broker: Rc<B>,
    declarations: D,
    pace: Pace,
    phase: watch::Receiver<Phase>,
    workers: JoinSet<()>,
    running: HashMap<Id, (Key, SubscriptionId)>,
    findings: Findings,
}

impl<R, B, D> Flow<R, B, D>
where
    R: Runs + 'static,
    B: Broker + 'static,
    <B::Consumer as Consumer>::Settler: 'static,
    D: Declarations,
{
    async fn cycle(&mut self) {
        let Some(declared) = self.scan().await else { return };
        match self.sync(&declared.declarations).await {
            Ok(ids) => self.apply(&declared.declarations, &ids).await,
            Err(error) => {
                tracing::error!(event = events::SYNC_FAILED, "RMQ Watcher: subscriptions were not updated: {error}");
            }
        }
    }

    async fn scan(&mut self) -> Option<Declared> {
        let scanned = timeout(SCAN_TIMEOUT, self.declarations.scan()).await;
        let scanned =
            scanned.unwrap_or_else(|_| Err(format!("the scan took longer than {} s", SCAN_TIMEOUT.as_secs())));
        self.findings.say(&scanned);
        scanned.ok()
    }

    async fn sync(&self, declarations: &[Declaration]) -> Result<Vec<SubscriptionId>, StoreError> {
        let now_ms = (self.context.clock)();
        self.context.store.upsert_subscriptions(declarations.to_vec(), now_ms).await
    }

    async fn apply(&mut self, declarations: &[Declaration], ids: &[SubscriptionId]) {
        let running = self.running.values().map(|(key, _)| key.clone()).collect();
        for action in plan(declarations, &running) {
            match action {
                Action::Start(index) if self.pace.can_start => self.start(&declarations[index], ids[index]),
                Action::Start(index) => self.refuse(ids[index], "no Airflow credentials".to_owned()).await,
                Action::QueueTaken { index, by } => {
                    let reason = queue_taken(&declarations[index], &by);
                    self.findings.say_refused(&reason);
                    self.refuse(ids[index], reason).await;
                }
            }
        }
    }

    fn start(&mut self, declaration: &Declaration, id: SubscriptionId) {
        let key = declaration.key();
        let Declaration { dag_id, queue, conn_id, options, .. } = declaration.clone();
        let subscription = Subscription { id, dag_id, queue, conn_id, options };
        let (context, broker, phase) = (Rc::clone(&self.context), Rc::clone(&self.broker), self.phase.clone());
        let worker = self.workers.spawn_local(pipeline::run(context, broker, subscription, phase));
        self.running.insert(worker.id(), (key, id));
    }

    /// Waits for the next cycle, and notices a worker that ended though nothing asked for it: a defect of ours, since a
    /// worker has no way out but the stop. The next cycle starts it again.
    async fn wait(&mut self, interval: Duration) {
        let due = sleep(interval);
        tokio::pin!(due);
        loop {
            tokio::select! {
                () = &mut due => return,
                Some(ended) = self.workers.join_next_with_id() => {
                    // Workers hear of a stop at the same time as we do, and may be through before it is our turn.
                    if *self.phase.borrow() == Phase::Stopping {
                        return;
                    }
                    let worker = ended.map_or_else(|error| error.id(), |(worker, ())| worker);
                    if let Some((Key { dag_id, queue, .. }, id)) = self.running.remove(&worker) {
                        tracing::error!(
                            event = events::WORKER_PANICKED,
                            "RMQ Watcher: the consumer of queue '{queue}' for DAG '{dag_id}' met a defect of this program; it is \
                             started again within {} s",
                            interval.as_secs()
                        );
                        self.refuse(id, "a defect of this program ended its consumer".to_owned()).await;
                    }
                }
            }
        }
    }

    async fn refuse(&self, id: SubscriptionId, reason: String) {
        let now_ms = (self.context.clock)();
        let error = SubscriptionStatus::Error;
        self.context.store.set_subscription_status(id, error, Some(reason), None, now_ms).await;
    }

    /// Every worker leaves by itself once the stop is asked for, within its bounds; a panic of one is reported by the panic
    /// hook. One that does not leave is cut off.
    async fn leave(mut self) {
        let all_left = async { while self.workers.join_next().await.is_some() {} };
        if timeout(CONSUMER_BUDGET, all_left).await.is_err() {
            self.workers.shutdown().await;
        }
        self.context.store.reset_statuses((self.context.clock)()).await;
    }
}
