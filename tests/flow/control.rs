//! The control flow: what is declared runs, a failed read changes nothing.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use rmq_watcher::domain::declaration::{Declaration, Origin};
use rmq_watcher::domain::shutdown::Phase;
use rmq_watcher::ports::{Declarations, Declared};
use rmq_watcher::reconcile::{self, Pace};
use tokio::sync::watch;

use crate::world::{World, context, limits, run};

#[derive(Clone, Default)]
struct Scripted(Rc<RefCell<VecDeque<Result<Declared, String>>>>);

impl Declarations for Scripted {
    async fn scan(&mut self) -> Result<Declared, String> {
        self.0.borrow_mut().pop_front().unwrap_or_else(|| Err("nothing scripted".to_owned()))
    }

    async fn changed(&mut self) {
        std::future::pending().await
    }
}

fn declared(subscriptions: &[(&str, &str)]) -> Result<Declared, String> {
    let origin = || Origin { file: "a.py".into(), line: 1, column: 1 };
    let declarations = subscriptions.iter().map(|(dag, queue)| Declaration::new(dag, queue, "rmq_default", origin()));
    Ok(Declared { declarations: declarations.map(Result::unwrap).collect(), ..Declared::default() })
}

fn scripted(scans: impl IntoIterator<Item = Result<Declared, String>>) -> Scripted {
    Scripted(Rc::new(RefCell::new(scans.into_iter().collect())))
}

fn pace(can_start: bool) -> Pace {
    Pace { interval: Duration::from_secs(60), can_start }
}

async fn with_flow(world: &World, scans: Scripted, can_start: bool, check: impl AsyncFnOnce(&World)) {
    let context = context(world.dir.path(), &world.airflow, limits());
    let (stop, phase) = watch::channel(Phase::Running);
    let flow = reconcile::run(context, Rc::new(world.broker.clone()), scans, pace(can_start), phase);
    let flow = tokio::task::spawn_local(flow);
    check(world).await;
    stop.send_replace(Phase::Stopping);
    flow.await.unwrap();
}

#[test]
fn what_is_declared_is_served_and_a_failed_scan_changes_nothing() {
    run(async {
        let world = World::new();
        let scans =
            scripted([Err("the folder is gone".into()), declared(&[("dag", "orders")]), Err("gone again".into())]);
        with_flow(&world, scans.clone(), true, async |world| {
            world.broker.publish(Some("m1"), "x");
            world.until_drained().await;
            world.until("all scans are used", |_| scans.0.borrow().is_empty()).await;
            tokio::time::sleep(Duration::from_secs(200)).await;
            world.broker.publish(Some("m2"), "x");
            world.until_drained().await;
            assert_eq!(world.airflow.run_ids().len(), 2);
            assert_eq!(world.sql("SELECT count(*) FROM subscriptions"), "1");
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
        let scans = scripted((0..3).map(|_| declared(&[("dag", "orders")])));
        with_flow(&world, scans, true, async |world| {
            world.until("told", |w| w.status().starts_with("error: a defect of this program")).await;
            world.broker.publish(Some("m1"), "x");
            world.until_drained().await;
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
            with_flow(&world, scripted([declared(&[("other", "q1"), ("dag", "orders")])]), true, async |world| {
                world.until("written", |w| w.sql("SELECT count(*) FROM subscriptions") == "2").await;
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
        with_flow(&world, scripted([declared(&[("dag", "orders")])]), false, async |world| {
            world.until("told", |w| w.sql("SELECT count(*) FROM subscription_status") == "1").await;
            assert_eq!(world.status(), "error: no Airflow credentials");
            assert!(!world.broker.is_attached());
        })
        .await;
    });
}

#[test]
fn a_second_dag_on_a_queue_is_refused_and_does_not_take_half() {
    run(async {
        let world = World::new();
        with_flow(&world, scripted([declared(&[("dag", "orders"), ("dag2", "orders")])]), true, async |world| {
            world.until("told", |w| w.sql("SELECT count(*) FROM subscription_status") == "2").await;
            for id in ["a", "b", "c"] {
                world.broker.publish(Some(id), "x");
            }
            world.until_drained().await;
            assert_eq!(world.airflow.run_ids().len(), 3);
            let error = world.sql("SELECT last_error FROM subscription_status WHERE subscription_id = 2");
            assert!(error.contains("'orders' is served for DAG 'dag'"), "{error}");
        })
        .await;
    });
}
