//! A target that takes no runs: one delivery at a time asks, the others wait, nothing is returned, and all go on once it is well.

use std::rc::Rc;
use std::time::Duration;

use rmq_watcher::domain::envelope::{Field, Table};
use rmq_watcher::domain::options::{OnPaused, Options};
use rmq_watcher::domain::outcome::TriggerAnswer;
use rmq_watcher::domain::queue_facts::{Look, QueueFacts};
use rmq_watcher::domain::routing::Standing;
use rmq_watcher::domain::table::Route;
use rmq_watcher::pipeline::Limits;
use rmq_watcher::ports::Verb;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::fake_airflow::{Turn, dag, unwell};
use crate::world::{World, limits, route, run};

fn kind(kind: &str) -> Table {
    Table::from([("kind".to_owned(), Field::Text(kind.as_bytes().to_vec()))])
}

fn wants(kind: &str) -> Options {
    Options { filter_data: Some(json!({"filter_headers": {"kind": kind}})), ..Options::default() }
}

fn bounded(kind: &str, runs: u8) -> Options {
    Options { max_concurrent_runs: Some(runs), ..wants(kind) }
}

fn listening(routes: &[(i64, &str, Options)]) -> Vec<Rc<Route>> {
    routes.iter().map(|(id, dag, options)| route(*id, dag, options.clone(), Standing::Listening)).collect()
}

fn all_acked(world: &World) -> bool {
    world.broker.verbs().iter().all(|(_, verb)| *verb == Verb::Ack)
}

async fn secs(secs: u64) {
    sleep(Duration::from_secs(secs)).await;
}

fn status(world: &World, id: i64) -> String {
    world.sql(&format!(
        "SELECT status || ': ' || coalesce(last_error, '') FROM subscription_status WHERE subscription_id = {id}"
    ))
}

#[test]
fn while_airflow_is_down_one_message_at_a_time_asks_and_afterwards_all_go_at_once() {
    run(async {
        let world = World::new();
        world.start();
        world.until("green", |w| w.status().starts_with("listening")).await;
        world.airflow.set_dags(unwell());
        (0..50).for_each(|_| world.broker.publish(None, "x"));
        secs(180).await;
        // Those under way at first, and then one at 1, 3, 7, 15, 31, 63, 123 and 183 s, each up to 20 % sooner.
        let tries = world.airflow.triggers().len();
        assert!((7..=13).contains(&tries), "{tries} requests");
        assert_eq!((world.broker.most_deliveries(), world.broker.channels()), (1, 1));
        assert!(!world.broker.is_consumed(), "nobody can run");
        assert_eq!(world.broker.unacked(), 8, "what is held is kept");
        assert_eq!(world.status(), "error: Airflow answered 503");
        assert_eq!(world.sql("SELECT consumer_tag FROM subscription_status"), "NULL");
        world.airflow.set_dags(dag(false));
        let tries = world.airflow.triggers().len();
        world.until("found well", |w| w.airflow.triggers().len() > tries).await;
        let start = Instant::now();
        world.until_drained().await;
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!((world.airflow.run_ids().len(), world.broker.channels()), (50, 1));
        assert!(all_acked(&world), "{:?}", world.broker.verbs());
        world.until("green", |w| w.status().starts_with("listening")).await;
    });
}

#[test]
fn an_airflow_that_flaps_costs_no_return() {
    for routes in [vec![(1, "dag", Options::default())], vec![(1, "dag", wants("a")), (2, "dag2", wants("a"))]] {
        run(async {
            let world = World::new();
            world.set_routes(listening(&routes));
            world.start();
            (0..50).for_each(|_| world.broker.publish_with(None, kind("a"), "x"));
            for turn in 0..18 {
                world.airflow.set_dags(if turn % 2 == 0 { unwell() } else { dag(false) });
                (0..5).for_each(|_| world.broker.publish_with(None, kind("a"), "x"));
                secs(10).await;
            }
            world.until_drained().await;
            let runs = world.airflow.run_ids_of("dag").len();
            assert_eq!((runs, world.broker.channels()), (140, 1));
            assert!(all_acked(&world), "{:?}", world.broker.verbs());
        });
    }
}

#[test]
fn a_target_that_is_down_stops_nothing_of_its_neighbours() {
    run(async {
        let world = World::new();
        world.set_routes(listening(&[(1, "dag", wants("a")), (2, "dag2", wants("b"))]));
        world.start();
        world.until("attached", |w| w.broker.is_attached()).await;
        world.airflow.set_dag("dag2", unwell());
        (0..100).for_each(|_| world.broker.publish_with(None, kind("b"), "x"));
        secs(30).await;
        assert!(world.broker.is_consumed());
        world.broker.publish_with(Some("mine"), kind("a"), "x");
        secs(1).await;
        assert_eq!(world.airflow.run_ids_of("dag").len(), 1);
        assert!(status(&world, 1).starts_with("listening: "), "{}", status(&world, 1));
        let behind = "error: Airflow answered 503; messages are parked behind the half of the window that is kept open for \
                      DAG 'dag2' (target)";
        assert_eq!(status(&world, 2), behind);
        assert_eq!(world.broker.most_deliveries(), 1, "nothing is returned");
        world.airflow.set_dag("dag2", dag(false));
        world.until_drained().await;
        assert_eq!((world.airflow.run_ids_of("dag2").len(), world.broker.most_deliveries()), (100, 0));
        world.until("green", |w| status(w, 2).starts_with("listening")).await;
    });
}

#[test]
fn a_probe_that_is_never_answered_does_not_keep_others_from_asking() {
    run(async {
        let world = World::new();
        let down = || TriggerAnswer::Unavailable { reason: "503".into(), retry_after: None, server_error: false };
        world.airflow.script([Turn::Answer(down()), Turn::Panic]);
        world.start_with(Limits { max_in_flight: 1, ..limits() });
        ["a", "b", "c"].iter().for_each(|id| world.broker.publish(Some(id), "x"));
        let start = Instant::now();
        world.until_drained().await;
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        assert_eq!(world.airflow.run_ids().len(), 3);
    });
}

#[test]
fn a_message_that_is_too_large_says_nothing_of_its_target() {
    run(async {
        let world = World::new();
        let kept: &'static str = String::leak("x".repeat(2 * 1024 * 1024));
        world.start();
        for n in 0..6 {
            world.broker.publish(Some(&format!("large{n}")), kept);
        }
        world.until_drained().await;
        world.broker.publish(Some("small"), "x");
        world.until_drained().await;
        assert_eq!(world.airflow.triggers(), ["rmq__orders__small"]);
        let dead = world.broker.verbs().iter().filter(|(_, verb)| *verb == Verb::DeadLetter).count();
        assert_eq!(dead, 6, "{}", world.status());
        assert!(world.status().starts_with("listening: "), "{}", world.status());
    });
}

#[test]
fn a_failing_target_is_probed_by_another_message_and_goes_on() {
    run(async {
        let world = World::new();
        world.airflow.script((0..5).map(|_| Turn::Answer(TriggerAnswer::Refused("no".into()))));
        world.start();
        for id in ["a", "b", "c", "d", "e"] {
            world.broker.publish(Some(id), "x");
        }
        world.until("failing", |w| w.status() == "failing: no").await;
        world.broker.publish(Some("f"), "x");
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 2, "the fifth, which was held, and the sixth");
    });
}

#[test]
fn a_target_that_is_not_ready_is_an_error_after_25_answers() {
    run(async {
        let world = World::new();
        let text = "404: Dag id 'dag' not found";
        world.airflow.script((0..26).map(|_| Turn::Answer(TriggerAnswer::TargetFault(text.into()))));
        world.broker.publish(Some("m"), "x");
        world.start();
        world.until("asked", |w| w.airflow.triggers().len() == 24).await;
        secs(1).await;
        assert_eq!(world.status(), format!("paused_target: {text}"));
        world.until("asked", |w| w.airflow.triggers().len() == 25).await;
        secs(1).await;
        assert_eq!(world.status(), format!("error: not ready for long: {text}"));
        let times = world.airflow.trigger_times();
        let minutes = (times[24] - times[0]).as_secs() / 60;
        assert!((15..=25).contains(&minutes), "{minutes} minutes");
        assert_ne!(world.sql("SELECT first_seen_at_ms FROM not_ready"), "NULL", "kept for the next start");
        world.until_drained().await;
        world.until("green", |w| w.status().starts_with("listening")).await;
        assert_eq!(world.sql("SELECT first_seen_at_ms FROM not_ready"), "NULL");
    });
}

#[test]
fn a_restart_does_not_begin_to_wait_anew_for_a_target_that_is_not_ready() {
    run(async {
        let world = World::new();
        world.start();
        world.stop().await;
        world.execute("INSERT INTO not_ready VALUES ('dag', 0)");
        world.airflow.script([Turn::Answer(TriggerAnswer::TargetFault("not found".into()))]);
        world.broker.publish(Some("m"), "x");
        world.start();
        world.until("told", |w| w.status() == "error: not ready for long: not found").await;
        world.until_drained().await;
    });
}

#[test]
fn no_more_runs_of_a_subscription_are_under_way_than_it_may_have() {
    run(async {
        let world = World::new();
        world.set_routes(listening(&[(1, "dag", bounded("a", 2)), (2, "dag2", wants("b"))]));
        world.airflow.script((0..40).map(|_| Turn::After(Duration::from_secs(10))));
        world.start();
        world.until("attached", |w| w.broker.is_attached()).await;
        (0..6).for_each(|_| world.broker.publish_with(None, kind("a"), "x"));
        secs(5).await;
        assert_eq!(world.airflow.triggers().len(), 2);
        world.broker.publish_with(Some("b"), kind("b"), "x");
        secs(1).await;
        assert_eq!(world.airflow.triggers().len(), 3, "its neighbour has places of its own");
        assert!(world.broker.is_consumed());
        let start = Instant::now();
        (0..24).for_each(|_| world.broker.publish_with(None, kind("a"), "x"));
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids_of("dag").len(), 30, "those that were parked too");
        assert!(start.elapsed() < Duration::from_secs(200), "{:?}", start.elapsed());
        world.until("green", |w| status(w, 1).starts_with("listening")).await;
    });
}

#[test]
fn on_a_queue_of_its_own_the_runs_of_a_subscription_are_its_prefetch_and_a_change_keeps_the_channel() {
    run(async {
        let world = World::new();
        world.set_options(Options { max_concurrent_runs: Some(1), ..Options::default() });
        world.airflow.script((0..9).map(|_| Turn::After(Duration::from_secs(10))));
        (0..9).for_each(|_| world.broker.publish(None, "x"));
        world.start();
        secs(5).await;
        assert_eq!((world.broker.unacked(), world.airflow.triggers().len()), (1, 1));
        world.set_options(Options { max_concurrent_runs: Some(3), ..Options::default() });
        secs(1).await;
        assert_eq!((world.airflow.triggers().len(), world.broker.channels()), (3, 1));
        world.until_drained().await;
        assert!(all_acked(&world), "{:?}", world.broker.verbs());
    });
}

#[test]
fn a_thousand_that_wait_for_one_subscription_delay_another_by_no_more_than_a_turn() {
    run(async {
        let world = World::new();
        world.set_routes(listening(&[(1, "dag", wants("a")), (2, "dag2", wants("b"))]));
        world.airflow.script((0..1100).map(|_| Turn::After(Duration::from_secs(1))));
        world.start_with(Limits { prefetch: 2000, max_in_flight: 8, ..limits() });
        world.until("attached", |w| w.broker.is_attached()).await;
        (0..1000).for_each(|_| world.broker.publish_with(None, kind("a"), "x"));
        world.until("all wait", |w| w.broker.ready() == 0).await;
        let start = Instant::now();
        for _ in 0..5 {
            world.broker.publish_with(None, kind("b"), "x");
        }
        world.until("the other one's are started", |w| w.airflow.run_ids_of("dag2").len() == 5).await;
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        assert!(world.airflow.run_ids_of("dag").len() < 50);
    });
}

fn handed_over(world: &World) {
    let facts = QueueFacts { single_active_consumer: Some(true), ..QueueFacts::default() };
    world.broker.says_of_queue(Some(Look { release: None, facts: Ok(facts) }));
}

#[test]
fn a_single_active_consumer_is_neither_cancelled_nor_rolled() {
    run(async {
        let world = World::new();
        handed_over(&world);
        world.set_options(wants("a"));
        world.start();
        world.until("attached", |w| w.broker.is_attached()).await;
        world.airflow.set_dags(unwell());
        for _ in 0..20 {
            ["a", "foreign"].iter().for_each(|is| world.broker.publish_with(None, kind(is), "x"));
        }
        secs(120).await;
        assert!(world.broker.is_consumed(), "a cancel would hand the queue over while we hold its head");
        assert_eq!((world.broker.tags().len(), world.broker.channels()), (1, 1));
        let tries = world.airflow.triggers().len();
        assert!(tries <= 15, "{tries}");
        world.airflow.set_dags(dag(false));
        world.until("all are started", |w| w.airflow.run_ids().len() == 20).await;
        assert_eq!((world.broker.tags().len(), world.broker.channels()), (1, 1));
    });
}

#[test]
fn a_queue_is_left_alone_while_its_only_dag_is_paused_unless_it_is_handed_over_by_that() {
    for is_handed_over in [false, true] {
        run(async {
            let world = World::new();
            if is_handed_over {
                handed_over(&world);
            }
            world.set_options(Options { on_paused: OnPaused::Run, ..Options::default() });
            world.start();
            world.until("attached", |w| w.broker.is_attached()).await;
            world.airflow.set_dags(dag(true));
            world.set_options(Options { on_paused: OnPaused::Hold, ..Options::default() });
            world.airflow.script([Turn::Answer(TriggerAnswer::TargetFault("look".into()))]);
            world.broker.publish(Some("m"), "x");
            world.until("paused", |w| w.status().starts_with("paused_dag: ")).await;
            secs(60).await;
            assert_eq!(world.broker.is_consumed(), is_handed_over);
            world.airflow.set_dags(dag(false));
            world.until_drained().await;
            assert_eq!(world.airflow.run_ids().len(), 1);
        });
    }
}
