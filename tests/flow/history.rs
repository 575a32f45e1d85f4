//! What messages are told by, what is put back, and what is remembered for who asks why.

use rmq_watcher::domain::envelope::{Field, Table};
use rmq_watcher::domain::options::{OnIdCollision, Options};
use rmq_watcher::domain::outcome::TriggerAnswer;
use rmq_watcher::domain::routing::Standing;
use rmq_watcher::ports::Verb;
use rmq_watcher::store::view::why;
use serde_json::json;

use crate::fake_airflow::Turn;
use crate::world::{World, route, run};

fn order(id: &str) -> Table {
    Table::from([("order".to_owned(), Field::Text(id.as_bytes().to_vec()))])
}

fn by_order() -> Options {
    Options { dedup_key: Some("header:order".into()), ..Options::default() }
}

#[test]
fn messages_of_one_dedup_key_start_one_run_whatever_their_ids() {
    run(async {
        let world = World::new();
        world.set_routes(vec![
            route(1, "dag", by_order(), Standing::Listening),
            route(2, "dag2", Options::default(), Standing::Listening),
        ]);
        world.start();
        for (id, key) in [(Some("m1"), "o7"), (Some("m2"), "o7"), (None, "o7"), (Some("m3"), "o8")] {
            world.broker.publish_with(id, order(key), "x");
        }
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids_of("dag"), ["rmq__orders__o7", "rmq__orders__o8"]);
        assert_eq!(world.airflow.run_ids_of("dag2").len(), 4, "its neighbour goes by message ids");
        assert_eq!(world.airflow.conf("rmq__orders__o7")["dedup_key"], "o7");
        assert!(world.broker.verbs().iter().all(|(_, verb)| *verb == Verb::Ack));
        let outcomes =
            "SELECT group_concat(outcome) FROM (SELECT outcome FROM ledger WHERE key = 'o7' ORDER BY outcome)";
        assert_eq!(world.sql(outcomes), "duplicate,duplicate,started");
    });
}

#[test]
fn a_message_without_its_dedup_key_goes_by_its_id_and_is_not_taken_for_another() {
    run(async {
        let world = World::new();
        world.set_options(by_order());
        world.start();
        world.broker.publish_with(None, order("same"), "x");
        world.until_drained().await;
        world.broker.publish(Some("same"), "y");
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids(), ["rmq__orders__same", "rmq__orders__same_2"]);
    });
}

#[test]
fn contents_of_one_message_id_are_merged_or_run_each_as_the_option_says() {
    for (on_id_collision, runs) in [(OnIdCollision::Merge, 1), (OnIdCollision::Run, 2)] {
        run(async {
            let world = World::new();
            world.set_options(Options { on_id_collision, ..Options::default() });
            world.start();
            for body in ["a", "b", "a"] {
                world.broker.publish(Some("m"), body);
            }
            world.until_drained().await;
            assert_eq!(world.airflow.run_ids().len(), runs, "{:?}", world.airflow.run_ids());
        });
    }
}

#[test]
fn a_refused_message_that_was_put_back_starts_the_target_that_refused_it() {
    run(async {
        let world = World::new();
        world.set_routes(vec![
            route(1, "dag", Options::default(), Standing::Listening),
            route(2, "dag2", Options::default(), Standing::Listening),
        ]);
        let refused = |_| Turn::Answer(TriggerAnswer::Refused("no".into()));
        world.airflow.script((0..2).map(refused));
        world.start();
        world.broker.publish(None, "x");
        world.until_drained().await;
        assert_eq!(world.broker.verbs(), [(None, Verb::DeadLetter)]);
        world.until("settled", |w| w.sql("SELECT count(*) FROM ledger WHERE state = 'settled'") == "2").await;
        let text = |text: &str| Field::Text(text.as_bytes().to_vec());
        let death = Table::from([
            ("queue".to_owned(), text("orders")),
            ("reason".to_owned(), text("rejected")),
            ("count".to_owned(), Field::I64(1)),
        ]);
        let back = Table::from([("x-death".to_owned(), Field::Array(vec![Field::Table(death)]))]);
        world.broker.publish_with(None, back, "x");
        world.until_drained().await;
        assert_eq!(world.broker.verbs(), [(None, Verb::DeadLetter), (None, Verb::Ack)]);
        let runs = world.airflow.run_ids();
        assert!(runs.len() == 2 && runs.iter().all(|run| run.ends_with("_r1")), "{runs:?}");
        assert_eq!(world.sql("SELECT count(*) FROM ledger"), "2");
    });
}

#[test]
fn failed_attempts_and_failing_clauses_are_told() {
    run(async {
        let world = World::new();
        let wants = Options { filter_data: Some(json!({"filter_headers": {"order": "o1"}})), ..Options::default() };
        world.set_routes(vec![
            route(1, "dag", Options::default(), Standing::Listening),
            route(2, "dag2", wants, Standing::Listening),
        ]);
        let down =
            TriggerAnswer::Unavailable { reason: "503 of a proxy".into(), retry_after: None, server_error: false };
        world.airflow.script([Turn::Answer(down)]);
        world.start();
        world.broker.publish_with(Some("m"), order("o7"), "x");
        world.until_drained().await;
        world.until("settled", |w| w.sql("SELECT state FROM ledger") == "settled").await;
        assert_eq!(world.sql("SELECT count(*) FROM verdicts"), "0", "not on the way of the delivery");
        world.flush_verdicts().await;
        let known = why(world.dir.path(), "rmq__orders__m").unwrap();
        let [message] = known.as_slice() else { panic!("{known:?}") };
        let told = &message.fires[0];
        assert_eq!(told.failed_attempts.len(), 1);
        assert_eq!(told.failed_attempts[0].answer, "no run: 503 of a proxy");
        assert!(told.fire.sent_at_ms < told.fire.decided_at_ms && told.fire.decided_at_ms <= told.fire.settled_at_ms);
        let said = &message.verdicts[0].said;
        assert_eq!((said[0]["verdict"].as_str(), said[1]["verdict"].as_str()), (Some("match"), Some("miss")));
        let because = said[1]["because"].as_str().unwrap();
        assert!(because.contains("order") && because.contains("o1") && because.contains("o7"), "{because}");
    });
}
