//! A stop: no new deliveries, answers under way are waited for a short time, the rest goes back with the channel.

use std::time::Duration;

use rmq_watcher::domain::outcome::TriggerAnswer;
use rmq_watcher::pipeline::Limits;
use rmq_watcher::ports::Verb;
use tokio::time::Instant;

use crate::fake_airflow::Turn;
use crate::world::{World, limits, run};

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
