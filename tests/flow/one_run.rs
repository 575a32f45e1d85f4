//! One message, one run: twins, duplicates, lost answers, lost channels, kills.

use std::time::Duration;

use rmq_watcher::domain::outcome::TriggerAnswer;
use rmq_watcher::pipeline::Limits;
use rmq_watcher::ports::Verb;
use serde_json::json;
use tokio::time::sleep;

use crate::fake_airflow::Turn;
use crate::world::{World, limits, run};

#[test]
fn a_message_becomes_a_run_and_is_acknowledged() {
    run(async {
        let world = World::new();
        world.start();
        world.broker.publish(Some("m1"), "{\"a\": 1}");
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids(), ["rmq__orders__m1"]);
        let conf = world.airflow.conf("rmq__orders__m1");
        assert_eq!((&conf["body"], &conf["queue"]), (&json!("{\"a\": 1}"), &json!("orders")));
        assert_eq!(world.broker.verbs(), [(Some("m1".into()), Verb::Ack)]);
        world.until("the row is settled", |w| w.sql("SELECT state FROM ledger") == "settled").await;
        assert_eq!(world.sql("SELECT outcome FROM ledger"), "started");
        assert_eq!(world.status(), "listening: ");
    });
}

#[test]
fn twins_without_ids_are_two_runs_and_equal_ids_are_one() {
    run(async {
        let world = World::new();
        world.start();
        for id in [None, None, Some("m1"), Some("m1")] {
            world.broker.publish(id, "same");
        }
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 3, "{:?}", world.airflow.run_ids());
        assert!(world.airflow.run_ids().iter().any(|id| id.ends_with("_2")));
        let outcomes = "SELECT group_concat(outcome) FROM (SELECT outcome FROM ledger ORDER BY outcome)";
        assert_eq!(world.sql(outcomes), "duplicate,started,started,started");
    });
}

#[test]
fn a_lost_answer_is_looked_up_and_not_asked_again() {
    run(async {
        let world = World::new();
        world.airflow.script([Turn::CreateAndAnswer(TriggerAnswer::Ambiguous("timeout".into()))]);
        world.start();
        world.broker.publish(None, "x");
        world.until_drained().await;
        assert_eq!((world.airflow.triggers().len(), world.airflow.run_ids().len()), (1, 1));
    });
}

#[test]
fn a_channel_lost_during_the_request_hands_the_delivery_over() {
    run(async {
        let world = World::new();
        world.airflow.script([Turn::After(Duration::from_secs(20))]);
        world.start();
        world.broker.publish(None, "x");
        world.until("it is asked for", |w| w.airflow.triggers().len() == 1).await;
        world.broker.drop_channel();
        world.until("it has come again", |w| w.broker.is_attached() && w.broker.unacked() == 1).await;
        assert!(world.airflow.run_ids().is_empty(), "the first request is still under way");
        world.until_drained().await;
        assert_eq!((world.airflow.triggers().len(), world.airflow.run_ids().len()), (1, 1), "joined, not asked again");
    });
}

#[test]
fn a_kill_during_the_request_is_looked_up_afterwards() {
    for created in [true, false] {
        run(async {
            let world = World::new();
            let never = TriggerAnswer::Ambiguous("never read".into());
            world.airflow.script([Turn::After(Duration::from_secs(600))]);
            world.start();
            world.broker.publish(None, "x");
            world.until("it is asked for", |w| w.airflow.triggers().len() == 1).await;
            world.kill().await;
            if created {
                world.airflow.create(&world.airflow.triggers()[0], json!({"queue": "orders"}));
            }
            drop(never);
            world.start();
            world.until_drained().await;
            let (asked, runs) = (world.airflow.triggers().len(), world.airflow.run_ids().len());
            assert_eq!((asked, runs), (if created { 1 } else { 2 }, 1));
        });
    }
}

#[test]
fn an_acknowledgement_that_did_not_arrive_is_repeated_without_a_second_run() {
    for id in [None, Some("m1")] {
        run(async {
            let world = World::new();
            world.start();
            world.until("attached", |w| w.broker.is_attached()).await;
            world.broker.lose_verbs();
            world.broker.publish(id, "x");
            world.until("acknowledged in vain", |w| w.sql("SELECT state FROM ledger") == "ack_sent").await;
            world.broker.drop_channel();
            world.until_drained().await;
            assert_eq!((world.airflow.triggers().len(), world.broker.verbs().len()), (1, 1));
        });
    }
}

#[test]
fn a_run_of_another_broker_under_the_same_id_is_not_ours() {
    run(async {
        let world = World::new();
        let other = json!({"queue": "orders", "conn_id": "other_broker", "message_id": "m1"});
        world.airflow.create("rmq__orders__m1", other);
        world.start();
        world.broker.publish(Some("m1"), "x");
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids(), ["rmq__orders__m1", "rmq__orders__m1_2"]);
    });
}

/// With the next one: what `docs/operations.md` says may be deleted by hand.
#[test]
fn a_deleted_row_of_a_message_with_an_id_costs_no_second_run() {
    run(async {
        let world = World::new();
        for _ in 0..2 {
            world.start();
            world.broker.publish(Some("m1"), "x");
            world.until_drained().await;
            world.until("settled", |w| w.sql("SELECT count(*) FROM ledger WHERE state = 'settled'") == "1").await;
            world.stop().await;
            world.execute("DELETE FROM ledger WHERE state = 'settled'");
        }
        assert_eq!((world.airflow.triggers().len(), world.airflow.run_ids().len()), (2, 1));
    });
}

#[test]
fn equal_messages_after_a_lost_state_file_are_started_all_the_same() {
    run(async {
        let world = World::new();
        world.start();
        (0..3).for_each(|_| world.broker.publish(None, "x"));
        world.until_drained().await;
        world.stop().await;
        world.execute("DELETE FROM ledger");
        (0..3).for_each(|_| world.broker.publish(None, "x"));
        world.broker.mark_redelivered();
        world.start();
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 6);
        assert!(world.airflow.triggers().len() <= 3 + 3 * 3, "{:?}", world.airflow.triggers());
    });
}

#[test]
fn a_message_without_an_id_is_let_go_once_the_file_has_what_came_of_it() {
    run(async {
        let world = World::new();
        world.start();
        world.until("attached", |w| w.broker.is_attached()).await;
        world.execute(
            "CREATE TRIGGER full BEFORE UPDATE ON ledger WHEN NEW.state = 'ack_sent' BEGIN SELECT raise(ABORT, 'disk full'); END",
        );
        world.broker.publish(None, "x");
        world.broker.publish(Some("m1"), "x");
        world.until("both run", |w| w.airflow.run_ids().len() == 2).await;
        sleep(Duration::from_secs(60)).await;
        assert_eq!(world.broker.verbs(), [(Some("m1".into()), Verb::Ack)]);
        assert!(world.status().contains("disk full"), "{}", world.status());
        world.execute("DROP TRIGGER full");
        world.until_drained().await;
        assert_eq!((world.airflow.run_ids().len(), world.airflow.triggers().len()), (2, 2));
        assert!(world.status().starts_with("listening"), "{}", world.status());
    });
}

#[test]
fn a_state_file_that_is_full_stops_only_messages_without_an_id() {
    run(async {
        let world = World::new();
        world.start_with(Limits { max_in_flight: 1, ..limits() });
        world.until("attached", |w| w.broker.is_attached()).await;
        world.execute("CREATE TRIGGER full BEFORE INSERT ON ledger BEGIN SELECT raise(ABORT, 'disk full'); END");
        world.broker.publish(None, "x");
        world.until("told", |w| w.status().starts_with("error: ")).await;
        world.broker.publish(Some("m1"), "x");
        world.until("the one with an id", |w| w.airflow.run_ids().len() == 1 && w.broker.unacked() == 1).await;
        assert!(world.status().contains("disk full"), "{}", world.status());
        world.execute("DROP TRIGGER full");
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 2);
        assert!(world.status().starts_with("listening"), "{}", world.status());
    });
}
