//! Several subscriptions on one queue: every match is started, foreign messages are parked, one settlement for all.

use std::rc::Rc;
use std::time::Duration;

use rmq_watcher::domain::envelope::{Field, Table};
use rmq_watcher::domain::options::{OnPaused, OnUnreadable, Options};
use rmq_watcher::domain::outcome::TriggerAnswer;
use rmq_watcher::domain::routing::Standing;
use rmq_watcher::domain::table::Route;
use rmq_watcher::pipeline::Limits;
use rmq_watcher::ports::Verb;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::fake_airflow::{Turn, dag};
use crate::world::{World, limits, route, run};

fn kind(kind: &str) -> Table {
    Table::from([("kind".to_owned(), Field::Text(kind.as_bytes().to_vec()))])
}

fn filter(filter_headers: Value) -> Options {
    Options { filter_data: Some(json!({"filter_headers": filter_headers})), ..Options::default() }
}

fn wants(kind: &str) -> Options {
    filter(json!({"kind": kind}))
}

fn listening(routes: &[(i64, &str, Options)]) -> Vec<Rc<Route>> {
    routes.iter().map(|(id, dag, options)| route(*id, dag, options.clone(), Standing::Listening)).collect()
}

fn rows(world: &World, of: &str) -> String {
    world.sql(&format!(
        "SELECT group_concat(state || ' ' || coalesce(reason, ''), ', ') FROM ledger WHERE target = 'dag:{of}'"
    ))
}

#[test]
fn each_message_starts_every_subscription_that_wants_it_and_no_other() {
    run(async {
        let world = World::new();
        let both = filter(json!({"kind": {"$in": ["a", "b"]}}));
        world.set_routes(listening(&[(1, "dag", wants("a")), (2, "dag2", both)]));
        world.start();
        for (id, is) in [("m1", "a"), ("m2", "b"), ("m3", "a")] {
            world.broker.publish_with(Some(id), kind(is), "x");
        }
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids_of("dag"), ["rmq__orders__m1", "rmq__orders__m3"]);
        assert_eq!(world.airflow.run_ids_of("dag2").len(), 3);
        assert!(world.broker.verbs().iter().all(|(_, verb)| *verb == Verb::Ack));
    });
}

#[test]
fn a_match_behind_many_foreign_messages_runs_at_once_and_these_come_back_seldom() {
    run(async {
        let world = World::new();
        world.set_options(wants("a"));
        (0..100).for_each(|_| world.broker.publish_with(None, kind("foreign"), "x"));
        world.broker.publish_with(Some("mine"), kind("a"), "x");
        world.start();
        let start = Instant::now();
        world.until("it runs", |w| w.airflow.run_ids() == ["rmq__orders__mine"]).await;
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        sleep(Duration::from_secs(60)).await;
        assert!(world.broker.most_deliveries() < 15, "{}", world.broker.most_deliveries());
        assert_eq!(world.broker.channels(), 1, "rolled on one channel");
        assert!(world.status().starts_with("listening"), "{}", world.status());
        let tag = world.sql("SELECT consumer_tag FROM subscription_status");
        assert_eq!(world.broker.tags().last(), Some(&tag), "the row has the tag that is held");
        world.stop().await;
        assert_eq!((world.broker.ready(), world.broker.unacked()), (100, 0));
    });
}

#[test]
fn a_filter_that_changes_finds_what_is_parked() {
    run(async {
        let world = World::new();
        world.set_options(wants("a"));
        world.start();
        world.broker.publish_with(Some("m"), kind("b"), "x");
        sleep(Duration::from_secs(600)).await;
        assert_eq!(world.airflow.run_ids().len(), 0);
        let start = Instant::now();
        world.set_options(wants("b"));
        world.until_drained().await;
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!((world.airflow.run_ids().len(), world.broker.channels()), (1, 1));
    });
}

#[test]
fn a_miss_is_dropped_only_if_every_known_row_lets_it_go() {
    let dropping = |kind| Options { ack_unmatched: true, ..wants(kind) };
    for (other, drops) in [
        (route(2, "dag2", dropping("b"), Standing::Disabled), true),
        (route(2, "dag2", dropping("foreign"), Standing::Disabled), false),
        (route(2, "dag2", wants("b"), Standing::Tombstoned), false),
        (route(2, "dag2", wants("b"), Standing::Listening), false),
    ] {
        run(async {
            let world = World::new();
            world.set_routes(vec![route(1, "dag", dropping("a"), Standing::Listening), other]);
            world.start();
            world.broker.publish_with(None, kind("foreign"), "x");
            sleep(Duration::from_secs(60)).await;
            let acked = world.broker.verbs().contains(&(None, Verb::Ack));
            assert_eq!((acked, world.airflow.triggers().len()), (drops, 0), "{:?}", world.broker.verbs());
        });
    }
}

#[test]
fn a_message_that_cannot_be_read_is_kept_and_dead_lettered_only_where_all_say_so() {
    let reads = |on_unreadable| Options { on_unreadable, ..filter(json!({"body.country": "DE"})) };
    for (other, dead) in [(OnUnreadable::DeadLetter, true), (OnUnreadable::Return, false)] {
        run(async {
            let world = World::new();
            world.set_routes(listening(&[(1, "dag", reads(OnUnreadable::DeadLetter)), (2, "dag2", reads(other))]));
            world.start();
            world.broker.publish(Some("m"), "no json");
            world.until("seen", |w| !w.broker.verbs().is_empty()).await;
            if dead {
                world.until_drained().await;
                assert_eq!(world.broker.verbs(), [(Some("m".into()), Verb::DeadLetter)]);
                let kept = "SELECT CAST(body AS TEXT) || ' ' || state FROM ledger JOIN kept ON row_id = id WHERE target = 'unmatched'";
                world.until("settled", |w| w.sql(kept) == "no json settled").await;
            } else {
                sleep(Duration::from_secs(60)).await;
                assert!(world.broker.verbs().iter().all(|(_, verb)| *verb == Verb::GiveBackUntried));
                assert_eq!(world.sql("SELECT count(*) FROM ledger"), "0");
            }
        });
    }
}

#[test]
fn two_subscriptions_that_wait_never_stop_a_third_and_get_their_messages_later() {
    run(async {
        let world = World::new();
        let hold = |kind| Options { on_paused: OnPaused::Hold, ..wants(kind) };
        world.airflow.set_dag("dag2", dag(true));
        world.airflow.set_dag("dag3", dag(true));
        world.set_routes(listening(&[(1, "dag", wants("a")), (2, "dag2", hold("b")), (3, "dag3", hold("c"))]));
        (0..50).for_each(|_| {
            world.broker.publish_with(None, kind("b"), "x");
            world.broker.publish_with(None, kind("c"), "x");
        });
        world.broker.publish_with(Some("mine"), kind("a"), "x");
        let start = Instant::now();
        world.start();
        world.until("the third runs", |w| w.airflow.run_ids_of("dag").len() == 1).await;
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        sleep(Duration::from_secs(60)).await;
        assert_eq!(world.broker.most_deliveries(), 1, "what waits is kept, not bounced");
        let status = |id| world.sql(&format!("SELECT status FROM subscription_status WHERE subscription_id = {id}"));
        assert_eq!([1, 2, 3].map(status), ["listening", "paused_dag", "paused_dag"]);
        world.airflow.set_dag("dag2", dag(false));
        world.airflow.set_dag("dag3", dag(false));
        world.until_drained().await;
        assert_eq!((world.airflow.run_ids_of("dag2").len(), world.airflow.run_ids_of("dag3").len()), (50, 50));
    });
}

#[test]
fn a_target_that_is_down_holds_its_half_and_its_neighbour_goes_on() {
    run(async {
        let world = World::new();
        let down = || TriggerAnswer::Unavailable { reason: "503".into(), retry_after: None, server_error: false };
        world.set_routes(listening(&[(1, "dag", wants("a")), (2, "dag2", wants("b"))]));
        world.airflow.script((0..60).map(|_| Turn::Answer(down())));
        (0..30).for_each(|_| world.broker.publish_with(None, kind("b"), "x"));
        world.start();
        world.until("they are held or parked", |w| w.broker.ready() == 0).await;
        world.broker.publish_with(Some("mine"), kind("a"), "x");
        let is_there = |w: &World| w.airflow.triggers().contains(&"rmq__orders__mine".to_owned());
        let start = Instant::now();
        world.until("the neighbour is asked for", is_there).await;
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        world.until_drained().await;
        assert_eq!((world.airflow.run_ids_of("dag").len(), world.airflow.run_ids_of("dag2").len()), (1, 30));
    });
}

#[test]
fn what_is_parked_for_a_subscription_that_goes_is_judged_again_at_once() {
    run(async {
        let world = World::new();
        let hold = Options { on_paused: OnPaused::Hold, ..wants("a") };
        world.airflow.set_dag("dag2", dag(true));
        world.set_routes(listening(&[(1, "dag", wants("b")), (2, "dag2", hold)]));
        world.start_with(Limits { prefetch: 4, ..limits() });
        (0..4).for_each(|_| world.broker.publish_with(None, kind("a"), "x"));
        world.broker.publish_with(Some("m"), kind("b"), "x");
        world.until("the neighbour runs", |w| w.airflow.run_ids_of("dag").len() == 1).await;
        let start = Instant::now();
        world.set_routes(listening(&[(1, "dag", wants("b")), (3, "dag3", wants("a"))]));
        world.until_drained().await;
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
        assert_eq!(world.airflow.run_ids_of("dag3").len(), 4);
    });
}

#[test]
fn a_message_that_one_refuses_and_another_started_is_dead_lettered_and_starts_nothing_again() {
    run(async {
        let world = World::new();
        world.set_routes(listening(&[(1, "dag", wants("a")), (2, "dag2", wants("a"))]));
        world.airflow.script([Turn::Answer(TriggerAnswer::Refused("no".into())), Turn::After(Duration::ZERO)]);
        world.start();
        world.broker.publish_with(Some("m"), kind("a"), "x");
        world.until_drained().await;
        assert_eq!(world.broker.verbs(), [(Some("m".into()), Verb::DeadLetter)]);
        assert_eq!(world.airflow.run_ids().len(), 1);
    });
}

#[test]
fn a_subscription_that_goes_is_dropped_beside_one_that_started_and_else_the_message_is_judged_again() {
    run(async {
        for first_kind in ["a", "b"] {
            let world = World::new();
            let hold = Options { on_paused: OnPaused::Hold, ..wants("a") };
            world.airflow.set_dag("dag2", dag(true));
            world.set_routes(listening(&[(1, "dag", wants(first_kind)), (2, "dag2", hold)]));
            world.start();
            world.broker.publish_with(Some("m"), kind("a"), "x");
            world.until("recorded", |w| rows(w, "dag2") != "NULL").await;
            sleep(Duration::from_secs(5)).await;
            assert_eq!(world.broker.verbs().len(), 0);
            world.set_routes(listening(&[(1, "dag", wants(first_kind))]));
            sleep(Duration::from_secs(1)).await;
            if first_kind == "a" {
                assert_eq!(world.broker.verbs(), [(Some("m".into()), Verb::Ack)]);
                assert_eq!(rows(&world, "dag2"), "settled subscription removed");
            } else {
                assert!(!world.broker.verbs().contains(&(Some("m".into()), Verb::Ack)), "nobody got it");
                world.airflow.set_dag("dag2", dag(false));
                world.set_routes(listening(&[(1, "dag", wants("b")), (2, "dag2", wants("a"))]));
                world.until_drained().await;
                assert_eq!(world.airflow.run_ids_of("dag2").len(), 1);
                assert_eq!(rows(&world, "dag2").matches(", ").count(), 0, "its row was found again");
            }
        }
    });
}

#[test]
fn a_kill_at_any_time_costs_neither_of_two_subscriptions_a_run() {
    for id in [None, Some("m")] {
        for kill_at_ms in [5, 250, 750, 1500] {
            run(async {
                let world = World::new();
                world.set_routes(listening(&[(1, "dag", Options::default()), (2, "dag2", Options::default())]));
                let after = |ms| Turn::After(Duration::from_millis(ms));
                world.airflow.script([after(200), after(1000)]);
                world.start();
                world.until("attached", |w| w.broker.is_attached()).await;
                world.broker.publish(id, "x");
                sleep(Duration::from_millis(kill_at_ms)).await;
                world.kill().await;
                world.start();
                world.until_drained().await;
                let runs = ["dag", "dag2"].map(|dag| world.airflow.run_ids_of(dag).len());
                assert_eq!(runs, [1, 1], "{id:?} {kill_at_ms}");
            });
        }
    }
}
