//! A stop: no new deliveries, answers under way are waited for a short time, the rest goes back with the channel.

use std::time::Duration;

use rmq_watcher::domain::envelope::{Field, Table};
use rmq_watcher::domain::options::{OnPaused, Options};
use rmq_watcher::domain::outcome::TriggerAnswer;
use rmq_watcher::domain::routing::Standing;
use rmq_watcher::pipeline::Limits;
use rmq_watcher::ports::Verb;
use serde_json::json;
use tokio::time::Instant;

use crate::fake_airflow::{Turn, dag, unwell};
use crate::world::{World, limits, route, run};

#[test]
fn answers_under_way_are_settled_and_nothing_new_is_started() {
    run(async {
        let world = World::new();
        world.airflow.script([Turn::After(Duration::from_secs(1))]);
        world.start_with(Limits { max_in_flight: 1, ..limits() });
        for id in ["a", "b", "c"] {
            world.broker.publish(Some(id), "x");
        }
        world.until("the first is under way", |w| w.airflow.triggers().len() == 1 && w.broker.unacked() == 3).await;
        world.stop().await;
        assert!(!world.broker.is_consumed());
        assert_eq!(world.broker.verbs(), [(Some("a".into()), Verb::Ack)]);
        assert_eq!((world.airflow.triggers().len(), world.broker.ready()), (1, 2));
        assert_eq!(world.status(), "disconnected: ");
        assert_eq!(
            world.sql("SELECT state FROM ledger WHERE key = 'a'"),
            "settled",
            "confirmed before the channel went"
        );
    });
}

#[test]
fn an_answer_that_does_not_come_is_not_waited_for_long() {
    run(async {
        let world = World::new();
        world.airflow.script([Turn::After(Duration::from_secs(50))]);
        world.start();
        world.broker.publish(Some("a"), "x");
        world.until("under way", |w| w.airflow.triggers().len() == 1).await;
        let start = Instant::now();
        world.stop().await;
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        assert_eq!((world.broker.ready(), world.broker.verbs().len()), (1, 0));
        world.start();
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 1);
    });
}

#[test]
fn held_deliveries_go_back_at_once_and_by_the_channel() {
    run(async {
        let world = World::new();
        let down = || TriggerAnswer::Unavailable { reason: "503".into(), retry_after: None, server_error: false };
        world.airflow.script((0..100).map(|_| Turn::Answer(down())));
        world.start();
        (0..8).for_each(|_| world.broker.publish(None, "x"));
        world.until("all are held", |w| w.airflow.triggers().len() >= 8).await;
        let start = Instant::now();
        world.stop().await;
        assert!(start.elapsed() < Duration::from_secs(1));
        assert_eq!((world.broker.ready(), world.broker.verbs().len()), (8, 0));
    });
}

#[test]
fn a_stop_while_there_is_no_consumer_is_immediate() {
    run(async {
        let world = World::new();
        for _ in 0..50 {
            let kind = rmq_watcher::domain::fault::BrokerFaultKind::Unreachable;
            world.broker.fail_attach(kind, "nobody there");
        }
        world.start();
        world.until("told", |w| w.status() == "error: nobody there").await;
        let start = Instant::now();
        world.stop().await;
        assert!(start.elapsed() < Duration::from_millis(100));
        assert!(world.status().starts_with("disconnected"));
    });
}

#[test]
fn what_is_parked_and_what_waits_behind_a_breaker_goes_back_by_the_channel_too() {
    run(async {
        let world = World::new();
        let wants = |kind| Options {
            filter_data: Some(json!({"filter_headers": {"kind": kind}})),
            on_paused: OnPaused::Hold,
            ..Options::default()
        };
        let kind = |kind: &str| Table::from([("kind".to_owned(), Field::Text(kind.as_bytes().to_vec()))]);
        let rows = [(1, "dag", wants("a")), (2, "dag2", wants("b")), (3, "dag3", wants("c"))];
        world.airflow.set_dag("dag2", dag(true));
        world.airflow.set_dag("dag3", unwell());
        world.set_routes(
            rows.into_iter().map(|(id, dag, options)| route(id, dag, options, Standing::Listening)).collect(),
        );
        world.start();
        world.until("attached", |w| w.broker.is_attached()).await;
        for _ in 0..20 {
            ["b", "c", "foreign"].iter().for_each(|is| world.broker.publish_with(None, kind(is), "x"));
        }
        world.until("all were taken", |w| w.broker.ready() == 0).await;
        let (settled, start) = (world.broker.verbs().len(), Instant::now());
        world.stop().await;
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!((world.broker.ready(), world.broker.verbs().len()), (60, settled), "by the channel, not one by one");
    });
}

#[test]
fn a_message_that_one_target_started_and_another_waits_for_goes_back_and_starts_the_other_alone() {
    run(async {
        let world = World::new();
        let all = |id, dag| route(id, dag, Options::default(), Standing::Listening);
        world.set_routes(vec![all(1, "dag"), all(2, "dag2")]);
        world.start();
        world.until("attached", |w| w.broker.is_attached()).await;
        world.airflow.script([Turn::After(Duration::ZERO), Turn::Answer(TriggerAnswer::AccessFault("no".into()))]);
        world.broker.publish(None, "x");
        world.until("one is started", |w| w.airflow.triggers().len() >= 2).await;
        world.stop().await;
        assert_eq!((world.broker.ready(), world.broker.verbs().len()), (1, 0));
        world.start();
        world.until_drained().await;
        let runs = ["dag", "dag2"].map(|dag| world.airflow.run_ids_of(dag).len());
        assert_eq!((runs, world.broker.verbs().len()), ([1, 1], 1));
    });
}
