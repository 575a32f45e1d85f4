//! A control flow on a test clock, over a folder that says what it is told.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use rmq_watcher::domain::control::{Answer, Request};
use rmq_watcher::domain::cycle_settings::Configured;
use rmq_watcher::domain::declaration::{Declaration, Origin};
use rmq_watcher::domain::options::Options;
use rmq_watcher::domain::shutdown::Phase;
use rmq_watcher::ports::{Declarations, Declared};
use rmq_watcher::reconcile::{self, Asked, Controls, Pace};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::world::{World, context, limits};

/// What a scan brings, until something else is set; a change of it can be told as inotify would.
#[derive(Clone)]
pub(crate) struct Folder(Rc<Inner>);

struct Inner {
    now: RefCell<Result<Declared, String>>,
    scripted: RefCell<VecDeque<Result<Declared, String>>>,
    hangs: RefCell<Option<Rc<Notify>>>,
    scans: RefCell<Vec<Instant>>,
    changed: Notify,
}

impl Folder {
    pub(crate) fn of(now: Result<Declared, String>) -> Self {
        Self(Rc::new(Inner {
            now: RefCell::new(now),
            scripted: RefCell::default(),
            hangs: RefCell::default(),
            scans: RefCell::default(),
            changed: Notify::new(),
        }))
    }

    pub(crate) fn then(self, scans: impl IntoIterator<Item = Result<Declared, String>>) -> Self {
        self.0.scripted.borrow_mut().extend(scans);
        self
    }

    pub(crate) fn set(&self, now: Result<Declared, String>) {
        *self.0.now.borrow_mut() = now;
    }

    pub(crate) fn touch(&self, now: Result<Declared, String>) {
        self.set(now);
        self.0.changed.notify_one();
    }

    pub(crate) fn hang(&self) -> Rc<Notify> {
        let release = Rc::new(Notify::new());
        self.0.hangs.replace(Some(Rc::clone(&release)));
        release
    }

    pub(crate) fn scans(&self) -> usize {
        self.0.scans.borrow().len()
    }

    /// When scans began since then, in seconds.
    pub(crate) fn since(&self, began: Instant) -> Vec<f64> {
        let scans = self.0.scans.borrow();
        scans.iter().filter(|scan| **scan > began).map(|scan| (*scan - began).as_secs_f64()).collect()
    }
}

impl Declarations for Folder {
    async fn scan(&mut self) -> Result<Declared, String> {
        self.0.scans.borrow_mut().push(Instant::now());
        let hangs = self.0.hangs.take();
        if let Some(release) = hangs {
            release.notified().await;
        }
        let scripted = self.0.scripted.borrow_mut().pop_front();
        scripted.unwrap_or_else(|| self.0.now.borrow().clone())
    }

    async fn changed(&mut self) {
        self.0.changed.notified().await;
    }
}

pub(crate) fn declared(subscriptions: &[(&str, &str)]) -> Result<Declared, String> {
    with_options(subscriptions, &Options::default())
}

pub(crate) fn with_options(subscriptions: &[(&str, &str)], options: &Options) -> Result<Declared, String> {
    let origin = || Origin { file: "a.py".into(), line: 1, column: 1 };
    let declarations = subscriptions.iter().map(|(dag, queue)| {
        let declaration = Declaration::new(dag, queue, "rmq_default", origin()).unwrap();
        Declaration { options: options.clone(), ..declaration }
    });
    let declarations = declarations.collect();
    Ok(Declared { declarations, listed: 10, readable: 10, ..Declared::default() })
}

fn pace(can_start: bool) -> Pace {
    Pace { configured: Configured::default(), environment: [None, None], can_start, hostname: "host".into() }
}

/// A control flow under way, and what people may ask of it.
pub(crate) struct Running<'a> {
    pub(crate) world: &'a World,
    pub(crate) folder: Folder,
    requests: mpsc::Sender<Asked>,
}

impl Running<'_> {
    pub(crate) async fn ask(&self, request: Request) -> Answer {
        let (reply, answer) = oneshot::channel();
        self.requests.send((request, reply)).await.unwrap();
        answer.await.unwrap()
    }

    pub(crate) async fn cycles(&self, n: usize) {
        let wanted = self.folder.scans() + n;
        self.world.until("cycles have passed", |_| self.folder.scans() >= wanted).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    pub(crate) fn misses(&self) -> String {
        self.world.sql("SELECT absent_cycles FROM subscriptions WHERE dag_id = 'dag'")
    }

    pub(crate) fn rows(&self) -> String {
        self.world.sql("SELECT count(*) FROM subscriptions WHERE deleted_at_ms IS NULL")
    }

    pub(crate) async fn serves(&self, id: &'static str) {
        let before = self.world.airflow.run_ids().len();
        self.world.broker.publish(Some(id), "x");
        self.world.until_drained().await;
        assert_eq!(self.world.airflow.run_ids().len(), before + 1);
    }
}

pub(crate) async fn with_flow(world: &World, folder: Folder, can_start: bool, check: impl AsyncFnOnce(&Running<'_>)) {
    let context = context(world.dir.path(), &world.airflow, limits());
    let asking = tokio::task::spawn_local(rmq_watcher::pipeline::ask_waiting(Rc::clone(&context)));
    let (stop, phase) = watch::channel(Phase::Running);
    let (requests, asked) = mpsc::channel(4);
    let controls = Controls { scheduler_exited: Box::new(|| None), requests: asked, phase };
    let flow = reconcile::run(context, Rc::new(world.broker.clone()), folder.clone(), pace(can_start), controls);
    let flow = tokio::task::spawn_local(flow);
    check(&Running { world, folder, requests }).await;
    stop.send_replace(Phase::Stopping);
    flow.await.unwrap();
    asking.abort();
}
