//! The control flow: scan → sync → read → plan → apply → status rows.
//!
//! A cycle at the start and one after every interval; a wake (a file that changed, somebody at the control socket) runs the same
//! steps at once and moves nothing that is counted in cycles. Cycles never overlap. One that takes longer than its budget is
//! abandoned alone: consumers go on, and the next cycle comes.

mod apply;
mod consumers;
mod counters;
mod cycle;
mod dags;
mod findings;
mod pace;
mod said;
mod step;
mod sync;
mod wake;
mod wishes;

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::{Instant, timeout};

use crate::domain::cycle_settings::CycleSettings;
use crate::domain::ids::SubscriptionId;
use crate::domain::plan::{Wish, Withheld};
use crate::domain::shutdown::Phase;
use crate::domain::table::Route;
use crate::pipeline::Context;
use crate::ports::{Broker, Consumer, Dags, Declarations, Runs};
use crate::telemetry::events;
use consumers::Consumers;
use counters::Counters;
use cycle::Steps;
use findings::Findings;
use step::STEP_TIMEOUT;
use sync::Believed;
use wake::{Rest, Woken};

pub use dags::record_learnt;
pub use pace::Pace;
pub use wake::Asked;

/// The pause after a cycle that met a defect of this program.
const AFTER_DEFECT: Duration = Duration::from_secs(30);

/// What the control flow is given besides its edges.
pub struct Controls {
    /// Says so where the scheduler has exited.
    pub scheduler_exited: Box<dyn Fn() -> Option<String>>,
    /// What people ask of it.
    pub requests: mpsc::Receiver<Asked>,
    /// Where the process stands.
    pub phase: watch::Receiver<Phase>,
}

/// Runs cycles until the stop, then waits for all workers to leave.
pub async fn run<R, B, D>(context: Rc<Context<R>>, broker: Rc<B>, declarations: D, pace: Pace, controls: Controls)
where
    R: Runs + Dags + 'static,
    B: Broker + 'static,
    <B::Consumer as Consumer>::Settler: 'static,
    D: Declarations + 'static,
{
    let Controls { scheduler_exited, requests, phase } = controls;
    let mut flow = Flow {
        context,
        broker,
        declarations: Rc::new(Mutex::new(declarations)),
        settings: pace.first(),
        pace,
        steps: Steps::new(),
        believed: Believed::default(),
        consumers: Consumers::new(),
        wishes: Vec::new(),
        tombstones: Vec::new(),
        withheld: HashMap::new(),
        findings: Findings::default(),
        counters: Counters::default(),
        trouble: None,
        phase: phase.clone(),
        phase_at: Cell::new("start"),
        next_cycle: Instant::now(),
        dags_since_ms: 0,
        rest: Rest::default(),
    };
    let mut phase = phase;
    let stop = async { drop(phase.wait_for(|phase| *phase == Phase::Stopping).await) };
    tokio::pin!(stop);
    tokio::select! {
        biased;
        () = &mut stop => {
            if flow.phase_at.get() != "wait" {
                tracing::info!(
                    event = events::CYCLE_INTERRUPTED,
                    "RMQ Watcher: stop requested — ending this cycle in the phase '{}'",
                    flow.phase_at.get()
                );
            }
        }
        () = flow.cycles(&scheduler_exited, requests) => {}
    }
    flow.leave().await;
}

/// How a cycle went.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Went {
    /// What runs is what is recorded.
    Applied,
    /// What is recorded could not be read in time.
    NotApplied,
    /// By a defect of this program.
    Broke,
}

struct Flow<R, B, D> {
    context: Rc<Context<R>>,
    broker: Rc<B>,
    declarations: Rc<Mutex<D>>,
    pace: Pace,
    settings: CycleSettings,
    steps: Steps,
    believed: Believed,
    consumers: Consumers,
    /// What was recorded when it was last read.
    wishes: Vec<Wish>,
    /// The rows of what was deleted, as of then.
    tombstones: Vec<Rc<Route>>,
    /// What the rows of subscriptions that do not run say.
    withheld: HashMap<SubscriptionId, Withheld>,
    findings: Findings,
    counters: Counters,
    /// Why the last cycle could not do all of its work.
    trouble: Option<String>,
    phase: watch::Receiver<Phase>,
    /// What the control flow is at.
    phase_at: Cell<&'static str>,
    next_cycle: Instant,
    /// When Airflow was last asked for its DAGs: what it said before is too old to delete anything.
    dags_since_ms: i64,
    rest: Rest,
}

impl<R, B, D> Flow<R, B, D>
where
    R: Runs + Dags + 'static,
    B: Broker + 'static,
    <B::Consumer as Consumer>::Settler: 'static,
    D: Declarations + 'static,
{
    /// Does not return.
    async fn cycles(&mut self, scheduler_exited: &dyn Fn() -> Option<String>, mut requests: mpsc::Receiver<Asked>) {
        self.phase_at.set("begin");
        if timeout(STEP_TIMEOUT, self.begin()).await.is_err() {
            self.sync_failed("the state file does not answer");
        }
        let mut woken = self.first_cycle();
        loop {
            if let Some(line) = scheduler_exited() {
                // The main thread notices it too, and ends the process; no cycle starts until then.
                tracing::error!(event = events::PARENT_EXITED, "{line}");
                std::future::pending::<()>().await;
            }
            let timed = matches!(woken, Woken::Due);
            let began = Instant::now();
            let went = self.bounded_cycle(timed).await;
            self.rest.ended(&woken, began);
            woken.answer(went == Went::Applied);
            let pause = match went {
                Went::Applied | Went::NotApplied => self.settings.interval,
                Went::Broke => self.settings.interval.max(AFTER_DEFECT),
            };
            if timed {
                self.next_cycle = Instant::now() + pause;
            }
            self.phase_at.set("wait");
            woken = self.wait(&mut requests).await;
        }
    }

    async fn begin(&mut self) {
        let now_ms = self.now_ms();
        self.context.store.reset_statuses(now_ms).await;
        self.context.store.watcher_started(self.pace.started(self.settings), now_ms).await;
        self.remember_dags().await;
        self.baseline().await;
    }

    /// The first cycle counts if the interval has passed since one last did; else restarts would spend what is counted in cycles.
    fn first_cycle(&mut self) -> Woken {
        let baseline = self.believed.baseline.clone().unwrap_or_default();
        let wait = baseline.may_count_in(pace::millis(self.settings.interval), self.now_ms());
        self.next_cycle = Instant::now() + Duration::from_millis(u64::try_from(wait).unwrap_or(0));
        if wait == 0 { Woken::Due } else { Woken::Changed }
    }

    /// One cycle within its budget.
    async fn bounded_cycle(&mut self, timed: bool) -> Went {
        self.phase_at.set("settings");
        if timed {
            self.read_settings().await;
        }
        let (began, budget) = (Instant::now(), self.settings.budget);
        let cycle = AssertUnwindSafe(timeout(budget, self.cycle(timed))).catch_unwind().await;
        match cycle {
            Ok(Ok(true)) => Went::Applied,
            Ok(Ok(false)) => Went::NotApplied,
            Ok(Err(_)) => {
                self.ran_out(began.elapsed()).await;
                Went::NotApplied
            }
            // The panic hook has said what it was.
            Err(_) => {
                let line =
                    "a cycle met a defect of this program; consumers go on, and the next cycle comes later".to_owned();
                tracing::error!(event = events::CYCLE_PANICKED, "RMQ Watcher: {line}");
                self.trouble = Some(line);
                Went::Broke
            }
        }
    }

    async fn ran_out(&mut self, took: Duration) {
        self.counters.add(counters::CYCLE_TIMED_OUT);
        let line = format!(
            "reconcile cycle took {:.1} s in all, longer than its budget of {} s, and was abandoned in the phase '{}'; consumers \
             go on, and the next cycle comes",
            took.as_secs_f64(),
            self.settings.budget.as_secs_f64(),
            self.phase_at.get()
        );
        tracing::error!(event = events::CYCLE_TIMED_OUT, "RMQ Watcher: {line}");
        self.trouble = Some(line);
        let now_ms = self.now_ms();
        self.cycle_ended(now_ms).await;
    }

    fn now_ms(&self) -> i64 {
        (self.context.clock)()
    }

    async fn leave(self) {
        // The steps under way end here: they hold the state file.
        let Self { context, consumers, .. } = self;
        consumers.leave().await;
        context.flush_verdicts().await;
        let now_ms = (context.clock)();
        context.store.reset_statuses(now_ms).await;
        context.store.watcher_stopped(now_ms).await;
    }
}
