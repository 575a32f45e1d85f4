//! A worker between the two fakes, on a test clock.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use rmq_watcher::domain::ids::{ConnId, DagId, QueueName, SubscriptionId};
use rmq_watcher::domain::options::Options;
use rmq_watcher::domain::plan::Place;
use rmq_watcher::domain::queue_facts::QueueFacts;
use rmq_watcher::domain::routing::Standing;
use rmq_watcher::domain::shutdown::Phase;
use rmq_watcher::domain::subscription::Subscription;
use rmq_watcher::domain::table::{Route, Table};
use rmq_watcher::pipeline::{self, Context, DagBook, Identity, Limits, Order};
use rmq_watcher::store::open::open_inline;
use rusqlite::OptionalExtension as _;
use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{Instant, timeout};

use crate::fake_airflow::FakeAirflow;
use crate::fake_broker::FakeBroker;

pub(crate) const QUEUE: &str = "orders";

pub(crate) struct World {
    pub(crate) airflow: FakeAirflow,
    pub(crate) broker: FakeBroker,
    pub(crate) dir: tempfile::TempDir,
    phase: watch::Sender<Phase>,
    worker: Cell<Option<JoinHandle<()>>>,
    asking: Cell<Option<JoinHandle<()>>>,
    orders: watch::Sender<Order>,
    book: RefCell<Option<Rc<DagBook>>>,
    context: RefCell<Option<Rc<Context<FakeAirflow>>>>,
    /// DAGs that an earlier watcher saw unpaused.
    pub(crate) seen_unpaused: Cell<bool>,
}

pub(crate) fn limits() -> Limits {
    Limits { prefetch: 8, ack_deadline: Duration::from_secs(1500), max_in_flight: 4, retry_scale: 1.0 }
}

pub(crate) fn context(dir: &Path, airflow: &FakeAirflow, limits: Limits) -> Rc<Context<FakeAirflow>> {
    let (store, _) = open_inline(dir, 0).unwrap();
    let start = Instant::now();
    let clock = Rc::new(move || 1_700_000_000_000 + i64::try_from(start.elapsed().as_millis()).unwrap());
    let identity = Identity { hostname: "host".into(), pid: 7 };
    Rc::new(Context::new(store, airflow.clone(), clock, limits, identity, Rc::new(|_| {})))
}

pub(crate) fn subscription(id: i64, dag: &str, options: Options) -> Subscription {
    Subscription {
        id: SubscriptionId(id),
        dag_id: DagId::new(dag),
        queue: QueueName::new(QUEUE),
        conn_id: ConnId::new("rmq_default"),
        options,
    }
}

pub(crate) fn route(id: i64, dag: &str, options: Options, standing: Standing) -> Rc<Route> {
    Rc::new(Route::new(Rc::new(subscription(id, dag, options)), standing).unwrap())
}

fn order(routes: Vec<Rc<Route>>, leave: bool) -> Order {
    let place = Place::of(&subscription(1, "dag", Options::default()));
    Order { place, table: Table::new(routes), leave }
}

fn alone(options: Options) -> Vec<Rc<Route>> {
    vec![route(1, "dag", options, Standing::Listening)]
}

impl World {
    pub(crate) fn new() -> Self {
        let (phase, _) = watch::channel(Phase::Running);
        let dir = tempfile::tempdir().unwrap();
        let (orders, _) = watch::channel(order(alone(Options::default()), false));
        let (airflow, broker, worker, asking) =
            (FakeAirflow::new(), FakeBroker::new(), Cell::default(), Cell::default());
        let (book, context, seen_unpaused) = (RefCell::default(), RefCell::default(), Cell::default());
        Self { airflow, broker, dir, phase, worker, asking, orders, book, context, seen_unpaused }
    }

    /// What the worker is told from now on.
    pub(crate) fn set_options(&self, options: Options) {
        self.set_routes(alone(options));
    }

    /// The rows that the worker works by from now on.
    pub(crate) fn set_routes(&self, routes: Vec<Rc<Route>>) {
        self.orders.send_replace(order(routes, false));
    }

    /// The worker is told to leave, and does.
    pub(crate) async fn leave(&self) {
        self.orders.send_modify(|order| order.leave = true);
        let worker = self.worker.take().unwrap();
        timeout(Duration::from_secs(30), worker).await.expect("the worker leaves").unwrap();
    }

    /// What is known of the queue.
    pub(crate) fn facts(&self) -> QueueFacts {
        let context = Rc::clone(self.context.borrow().as_ref().unwrap());
        context.queues.facts(&self.orders.borrow().place).unwrap()
    }

    /// As a timed cycle does.
    pub(crate) async fn look_at_queues(&self) {
        let context = Rc::clone(self.context.borrow().as_ref().unwrap());
        pipeline::look_at_queues(context, Rc::new(self.broker.clone())).await;
    }

    /// What the book has learnt since the last call.
    pub(crate) fn learnt(&self) -> Vec<(DagId, bool)> {
        self.book.borrow().as_ref().unwrap().take_learnt()
    }

    /// Has what filters said written down.
    pub(crate) async fn flush_verdicts(&self) {
        let context = self.context.borrow().clone().unwrap();
        context.flush_verdicts().await;
    }

    /// Starts a watcher on the state file as it is.
    pub(crate) fn start(&self) {
        self.start_with(limits());
    }

    pub(crate) fn start_with(&self, limits: Limits) {
        let context = context(self.dir.path(), &self.airflow, limits);
        self.book.replace(Some(Rc::clone(&context.dags)));
        self.context.replace(Some(Rc::clone(&context)));
        if self.seen_unpaused.get() {
            context.dags.remember_unpaused([DagId::new("dag")]);
        }
        if let Ok(since_ms) = self.sql("SELECT first_seen_at_ms FROM not_ready").parse() {
            context.remember_not_ready([(DagId::new("dag"), since_ms)]);
        }
        for route in self.orders.borrow().table.routes() {
            let Subscription { id, dag_id, .. } = &*route.subscription;
            self.execute(&format!(
                "INSERT INTO subscriptions (id, dag_id, queue, conn_id, source, origin, origin_file, options, enabled, absent_cycles, \
                 created_at_ms, updated_at_ms) \
                 VALUES ({id}, '{dag_id}', 'orders', 'rmq_default', 'dag_file', 'a.py:1:1', 'a.py', '{{}}', 1, 0, 0, 0) \
                 ON CONFLICT DO NOTHING",
            ));
        }
        self.phase.send_replace(Phase::Running);
        let (broker, orders) = (Rc::new(self.broker.clone()), self.orders.subscribe());
        let worker = pipeline::run(Rc::clone(&context), broker, orders, self.phase.subscribe());
        self.worker.set(Some(tokio::task::spawn_local(worker)));
        self.end_asking();
        self.asking.set(Some(tokio::task::spawn_local(pipeline::ask_waiting(context))));
    }

    fn end_asking(&self) {
        if let Some(asking) = self.asking.take() {
            asking.abort();
        }
    }

    /// As `kill -9`: nothing more runs, and the broker sees the connection go.
    pub(crate) async fn kill(&self) {
        let worker = self.worker.take().unwrap();
        worker.abort();
        drop(worker.await);
        self.end_asking();
        self.broker.drop_channel();
    }

    pub(crate) async fn stop(&self) {
        self.phase.send_replace(Phase::Stopping);
        let worker = self.worker.take().unwrap();
        timeout(Duration::from_secs(30), worker).await.expect("the worker leaves").unwrap();
    }

    /// Waits until the condition holds; the test clock makes it cheap.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        let waited = async {
            while !condition(self) {
                tokio::time::sleep(Duration::from_millis(10).max(start.elapsed() / 100)).await;
            }
        };
        let limit = Duration::from_secs(3600);
        assert!(timeout(limit, waited).await.is_ok(), "not in an hour: {what}; {}", self.status());
    }

    pub(crate) async fn until_drained(&self) {
        self.until("the queue is empty", |w| w.broker.ready() == 0 && w.broker.unacked() == 0).await;
    }

    /// The first column of the first row; `NULL` where there is none.
    pub(crate) fn sql(&self, query: &str) -> String {
        let connection = rusqlite::Connection::open(self.dir.path().join("state.db")).unwrap();
        let value = connection.query_row(query, [], |row| row.get(0)).optional().unwrap();
        match value.unwrap_or(rusqlite::types::Value::Null) {
            rusqlite::types::Value::Text(text) => text,
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Null => "NULL".to_owned(),
            other @ (rusqlite::types::Value::Real(_) | rusqlite::types::Value::Blob(_)) => format!("{other:?}"),
        }
    }

    pub(crate) fn execute(&self, sql: &str) {
        rusqlite::Connection::open(self.dir.path().join("state.db")).unwrap().execute_batch(sql).unwrap();
    }

    pub(crate) fn status(&self) -> String {
        self.sql("SELECT status || ': ' || coalesce(last_error, '') FROM subscription_status")
    }
}

/// Runs a flow on one thread with the clock at a standstill unless all wait.
pub(crate) fn run(flow: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, flow);
}
