//! The control flow: what is declared runs, a failed read changes nothing, and no accident costs a subscription.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use rmq_watcher::domain::control::{Answer, Request};
use rmq_watcher::domain::cycle_settings::{Configured, Variable};
use rmq_watcher::domain::declaration::{Declaration, Origin};
use rmq_watcher::domain::ids::SubscriptionId;
use rmq_watcher::domain::options::{OnPaused, Options};
use rmq_watcher::domain::shutdown::Phase;
use rmq_watcher::ports::{Declarations, Declared};
use rmq_watcher::reconcile::{self, Asked, Controls, Pace};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::world::{World, context, limits, run};

/// What a scan brings, until something else is set; a change of it can be told as inotify would.
#[derive(Clone)]
struct Folder(Rc<Inner>);

struct Inner {
    now: RefCell<Result<Declared, String>>,
    scripted: RefCell<VecDeque<Result<Declared, String>>>,
    hangs: RefCell<Option<Rc<Notify>>>,
    scans: RefCell<Vec<Instant>>,
    changed: Notify,
}

impl Folder {
    fn of(now: Result<Declared, String>) -> Self {
        Self(Rc::new(Inner {
            now: RefCell::new(now),
            scripted: RefCell::default(),
            hangs: RefCell::default(),
            scans: RefCell::default(),
            changed: Notify::new(),
        }))
    }

    fn then(self, scans: impl IntoIterator<Item = Result<Declared, String>>) -> Self {
        self.0.scripted.borrow_mut().extend(scans);
        self
    }

    fn set(&self, now: Result<Declared, String>) {
        *self.0.now.borrow_mut() = now;
    }

    fn touch(&self, now: Result<Declared, String>) {
        self.set(now);
        self.0.changed.notify_one();
    }

    fn hang(&self) -> Rc<Notify> {
        let release = Rc::new(Notify::new());
        self.0.hangs.replace(Some(Rc::clone(&release)));
        release
    }

    fn scans(&self) -> usize {
        self.0.scans.borrow().len()
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

fn declared(subscriptions: &[(&str, &str)]) -> Result<Declared, String> {
    with_options(subscriptions, &Options::default())
}

fn with_options(subscriptions: &[(&str, &str)], options: &Options) -> Result<Declared, String> {
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
struct Running<'a> {
    world: &'a World,
    folder: Folder,
    requests: mpsc::Sender<Asked>,
}

impl Running<'_> {
    async fn ask(&self, request: Request) -> Answer {
        let (reply, answer) = oneshot::channel();
        self.requests.send((request, reply)).await.unwrap();
        answer.await.unwrap()
    }

    async fn cycles(&self, n: usize) {
        let wanted = self.folder.scans() + n;
        self.world.until("cycles have passed", |_| self.folder.scans() >= wanted).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    fn misses(&self) -> String {
        self.world.sql("SELECT absent_cycles FROM subscriptions WHERE dag_id = 'dag'")
    }

    fn rows(&self) -> String {
        self.world.sql("SELECT count(*) FROM subscriptions WHERE deleted_at_ms IS NULL")
    }

    async fn serves(&self, id: &'static str) {
        let before = self.world.airflow.run_ids().len();
        self.world.broker.publish(Some(id), "x");
        self.world.until_drained().await;
        assert_eq!(self.world.airflow.run_ids().len(), before + 1);
    }
}

async fn with_flow(world: &World, folder: Folder, can_start: bool, check: impl AsyncFnOnce(&Running<'_>)) {
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

#[test]
fn what_is_declared_is_served_and_a_failed_scan_changes_nothing() {
    run(async {
        let world = World::new();
        let gone = || Err("the folder is gone".to_owned());
        let folder = Folder::of(gone()).then([gone(), declared(&[("dag", "orders")])]);
        with_flow(&world, folder, true, async |flow| {
            flow.serves("m1").await;
            flow.cycles(8).await;
            flow.serves("m2").await;
            assert_eq!((flow.rows().as_str(), flow.misses().as_str()), ("1", "0"));
        })
        .await;
        assert!(world.status().starts_with("disconnected"));
    });
}

#[test]
fn a_consumer_that_met_a_defect_is_started_again_at_the_next_cycle() {
    run(async {
        let world = World::new();
        world.broker.panic_on_attach();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            world.until("told", |w| w.status().starts_with("error: a defect of this program")).await;
            flow.serves("m1").await;
            world.until("green again", |w| w.status().starts_with("listening")).await;
        })
        .await;
    });
}

#[test]
fn the_number_of_a_subscription_stays_across_restarts() {
    run(async {
        let world = World::new();
        for _ in 0..2 {
            let folder = Folder::of(declared(&[("other", "q1"), ("dag", "orders")]));
            with_flow(&world, folder, true, async |flow| {
                world.until("written", |_| flow.rows() == "2").await;
            })
            .await;
        }
        assert_eq!(world.sql("SELECT id FROM subscriptions WHERE dag_id = 'dag'"), "2");
    });
}

#[test]
fn without_credentials_nothing_is_attached_and_the_status_says_so() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), false, async |_| {
            world.until("told", |w| w.sql("SELECT count(*) FROM subscription_status") == "1").await;
            assert_eq!(world.status(), "error: no Airflow credentials");
            assert!(!world.broker.is_attached());
        })
        .await;
    });
}

#[test]
fn two_dags_on_a_queue_share_one_consumer_and_each_gets_every_message() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders"), ("dag2", "orders")])), true, async |_| {
            let green = "SELECT count(*) FROM subscription_status WHERE status = 'listening'";
            world.until("both are green", |w| w.sql(green) == "2").await;
            for id in ["a", "b", "c"] {
                world.broker.publish(Some(id), "x");
            }
            world.until_drained().await;
            let (first, second) = (world.airflow.run_ids_of("dag"), world.airflow.run_ids_of("dag2"));
            assert_eq!((first.len(), first), (3, second));
            assert_eq!((world.broker.tags().len(), world.broker.verbs().len()), (1, 3));
        })
        .await;
    });
}

#[test]
fn a_key_that_is_missing_keeps_its_consumer_for_three_scans_and_leaves_with_the_fourth() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            flow.serves("m1").await;
            flow.folder.set(declared(&[]));
            for (misses, id) in [("1", "m2"), ("2", "m3"), ("3", "m4")] {
                flow.cycles(1).await;
                assert_eq!(flow.misses(), misses);
                flow.serves(id).await;
            }
            flow.cycles(1).await;
            assert_eq!(flow.rows(), "0");
            world.until("the consumer has left", |w| !w.broker.is_attached()).await;
            world.broker.publish(Some("m5"), "x");
            flow.cycles(2).await;
            assert_eq!((world.broker.ready(), world.airflow.run_ids().len()), (1, 4));
            flow.folder.set(declared(&[("dag", "orders")]));
            world.until_drained().await;
            assert_eq!(world.sql("SELECT id FROM subscriptions"), "1", "the same number");
        })
        .await;
    });
}

#[test]
fn a_key_that_comes_back_in_time_has_the_same_consumer() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            flow.serves("m1").await;
            let tag = world.sql("SELECT consumer_tag FROM subscription_status");
            flow.folder.set(declared(&[]));
            flow.cycles(3).await;
            flow.folder.set(declared(&[("dag", "orders")]));
            flow.cycles(1).await;
            assert_eq!(flow.misses(), "0");
            assert_eq!(world.sql("SELECT consumer_tag FROM subscription_status"), tag);
        })
        .await;
    });
}

#[test]
fn wakes_apply_at_once_and_count_no_misses() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[])), true, async |flow| {
            flow.cycles(1).await;
            let before = Instant::now();
            flow.folder.touch(declared(&[("dag", "orders")]));
            flow.serves("m1").await;
            assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
            for _ in 0..6 {
                flow.folder.touch(declared(&[]));
                flow.cycles(1).await;
            }
            assert_eq!(flow.misses(), "0");
            assert_eq!(flow.ask(Request::Wake).await, Answer::Done);
            assert_eq!(flow.misses(), "0");
            assert!(before.elapsed() < Duration::from_secs(50), "{:?}", before.elapsed());
        })
        .await;
    });
}

#[test]
fn a_subscription_that_is_switched_off_leaves_its_messages_in_the_queue() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            flow.serves("m1").await;
            let switch = |enabled| Request::SetEnabled { id: SubscriptionId(1), enabled };
            assert_eq!(flow.ask(switch(false)).await, Answer::Done);
            world.until("the consumer has left", |w| !w.broker.is_attached()).await;
            world.broker.publish(Some("m2"), "x");
            flow.cycles(3).await;
            assert_eq!(world.broker.ready(), 1);
            assert!(world.status().starts_with("disconnected"), "{}", world.status());
            assert_eq!(flow.ask(switch(false)).await, Answer::Done);
            assert_eq!(flow.ask(switch(true)).await, Answer::Done);
            world.until_drained().await;
            let unknown = flow.ask(Request::SetEnabled { id: SubscriptionId(7), enabled: true }).await;
            assert!(matches!(unknown, Answer::Refused { .. }), "{unknown:?}");
            assert!(matches!(flow.ask(Request::Ping).await, Answer::Pong { .. }));
        })
        .await;
    });
}

#[test]
fn new_options_reach_the_consumer_that_is_attached() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            flow.serves("m1").await;
            let tag = world.sql("SELECT consumer_tag FROM subscription_status");
            let options = Options { on_paused: OnPaused::Run, ..Options::default() };
            flow.folder.touch(with_options(&[("dag", "orders")], &options));
            flow.cycles(1).await;
            assert_eq!(world.sql("SELECT options FROM subscriptions"), r#"{"on_paused":"run"}"#);
            flow.serves("m2").await;
            assert_eq!(world.sql("SELECT consumer_tag FROM subscription_status"), tag);
        })
        .await;
    });
}

#[test]
fn an_option_of_another_version_keeps_the_subscription_from_running_and_no_other() {
    run(async {
        let world = World::new();
        let options = Options { cooldown: 60, ..Options::default() };
        let mut scan = with_options(&[("other", "others")], &options).unwrap();
        scan.declarations.extend(declared(&[("dag", "orders")]).unwrap().declarations);
        with_flow(&world, Folder::of(Ok(scan)), true, async |flow| {
            flow.serves("m1").await;
            let row = "SELECT status || ': ' || last_error FROM subscription_status WHERE subscription_id = 1";
            assert!(world.sql(row).starts_with("invalid: this version of the watcher cannot act on `cooldown`"));
        })
        .await;
    });
}

#[test]
fn a_scan_that_hangs_costs_one_task_and_no_consumer() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            flow.serves("m1").await;
            let release = flow.folder.hang();
            let scans = flow.folder.scans();
            tokio::time::sleep(Duration::from_secs(600)).await;
            assert_eq!(flow.folder.scans(), scans + 1, "one attempt in flight");
            flow.serves("m2").await;
            let counted = |name: &str| world.sql(&format!("SELECT counters ->> '{name}' FROM watchers"));
            assert_eq!(counted("cycle_step_timed_out"), "1");
            assert!(counted("cycle_step_skipped").parse::<u32>().unwrap() >= 3);
            let error = world.sql("SELECT last_error FROM watchers");
            assert!(error.contains("the step 'scan' of an earlier cycle is still under way"), "{error}");
            release.notify_one();
            flow.cycles(2).await;
            assert_eq!(world.sql("SELECT last_error FROM watchers"), "NULL");
        })
        .await;
    });
}

#[test]
fn a_cycle_over_its_budget_is_abandoned_alone() {
    run(async {
        let world = World::new();
        world.airflow.set_variable("rmq_watcher_cycle_timeout", Variable::Set("10".into()));
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            flow.serves("m1").await;
            flow.folder.hang();
            world.until("abandoned", |w| w.sql("SELECT counters ->> 'cycle_timed_out' FROM watchers") == "1").await;
            let error = world.sql("SELECT last_error FROM watchers");
            assert!(error.contains("abandoned in the phase 'scan'"), "{error}");
            flow.serves("m2").await;
        })
        .await;
    });
}

#[test]
fn the_interval_follows_the_variable_and_a_failed_read_keeps_it() {
    run(async {
        let world = World::new();
        let name = "rmq_watcher_reconcile_interval";
        world.airflow.set_variable(name, Variable::Set("7".into()));
        with_flow(&world, Folder::of(declared(&[])), true, async |flow| {
            let interval = || world.sql("SELECT interval_ms FROM watchers");
            flow.cycles(2).await;
            assert_eq!(interval(), "7000");
            world.airflow.set_variable(name, Variable::Unread("Airflow is away".into()));
            flow.cycles(2).await;
            assert_eq!(interval(), "7000");
            world.airflow.set_variable(name, Variable::Set("60.5".into()));
            flow.cycles(2).await;
            assert_eq!(interval(), "60000");
        })
        .await;
    });
}

#[test]
fn a_stop_comes_between_steps_and_waits_for_no_scan() {
    run(async {
        let world = World::new();
        let folder = Folder::of(declared(&[("dag", "orders")]));
        let release = folder.hang();
        let began = Instant::now();
        with_flow(&world, folder, true, async |_| tokio::time::sleep(Duration::from_secs(5)).await).await;
        assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
        assert_eq!(world.sql("SELECT stopped_at_ms IS NULL FROM watchers"), "0");
        drop(release);
    });
}
