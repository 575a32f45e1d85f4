//! What Airflow says of a DAG decides whether its messages are consumed, and what becomes of those in hand.

use std::time::Duration;

use rmq_watcher::domain::ids::DagId;
use rmq_watcher::domain::options::{OnMissing, OnPaused, Options};
use rmq_watcher::domain::outcome::{DagLookup, Part, TriggerAnswer};
use rmq_watcher::ports::Verb;
use tokio::time::{Instant, sleep};

use crate::fake_airflow::{Turn, dag, stale, unwell};
use crate::world::{World, run};

fn options(on_paused: OnPaused) -> Options {
    Options { on_paused, ..Options::default() }
}

fn acking() -> Options {
    Options { on_missing: OnMissing::Ack, ..Options::default() }
}

async fn secs(secs: u64) {
    sleep(Duration::from_secs(secs)).await;
}

fn is_listening(world: &World) -> bool {
    world.status().starts_with("listening: ")
}

#[test]
fn nothing_is_consumed_before_airflow_has_said_something_of_the_dag() {
    run(async {
        let world = World::new();
        world.airflow.set_dags(unwell());
        world.broker.publish(Some("m"), "x");
        world.start();
        world.until("told", |w| w.status().contains("503")).await;
        assert!(world.status().starts_with("error: Airflow has not said yet"), "{}", world.status());
        secs(300).await;
        assert_eq!((world.broker.channels(), world.broker.ready()), (0, 1));
        world.airflow.set_dags(dag(false));
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 1);
        world.until("green", is_listening).await;
    });
}

#[test]
fn a_new_dag_is_waited_for_and_none_of_its_messages_is_lost() {
    run(async {
        let world = World::new();
        world.airflow.set_dags(DagLookup::Absent);
        world.start();
        for id in ["a", "b", "c"] {
            world.broker.publish(Some(id), "x");
        }
        world.until("waited for", |w| w.status().contains("does not have DAG 'dag'")).await;
        assert!(world.status().starts_with("waiting_for_dag: "), "{}", world.status());
        secs(120).await;
        // Airflow creates DAGs paused.
        world.airflow.set_dags(dag(true));
        world.until("paused", |w| w.status().starts_with("paused_dag: ")).await;
        secs(3600).await;
        assert_eq!((world.broker.channels(), world.broker.ready()), (0, 3));
        let start = Instant::now();
        world.airflow.set_dags(dag(false));
        world.until_drained().await;
        assert!(start.elapsed() <= Duration::from_secs(6), "asked every five seconds: {:?}", start.elapsed());
        assert_eq!(world.airflow.run_ids().len(), 3);
        assert!(world.broker.verbs().iter().all(|(_, verb)| *verb == Verb::Ack));
        assert_eq!(world.learnt(), [(DagId::new("dag"), true)]);
    });
}

#[test]
fn a_dag_that_was_unpaused_once_loses_the_messages_of_its_pause() {
    run(async {
        let world = World::new();
        world.start();
        world.until("green", is_listening).await;
        world.airflow.set_dags(dag(true));
        // Nobody has told us of the pause yet: the run is made, as it would have been a moment before.
        world.broker.publish(Some("early"), "x");
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids(), ["rmq__orders__early"]);
        world.stop().await;

        world.seen_unpaused.set(true);
        world.start();
        world.until("green", is_listening).await;
        let asked = world.airflow.asked().len();
        for id in ["a", "b"] {
            world.broker.publish(Some(id), "x");
        }
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 1);
        assert_eq!(world.airflow.asked().len(), asked + 2, "one question for each message");
        assert_eq!(world.broker.verbs()[1..], [(Some("a".into()), Verb::Ack), (Some("b".into()), Verb::Ack)]);
        let dropped =
            "SELECT count(*) FROM ledger WHERE state = 'settled' AND outcome = 'dropped' AND reason = 'paused'";
        world.until("recorded", |w| w.sql(dropped) == "2").await;
        world.airflow.set_dags(dag(false));
        world.broker.publish(Some("c"), "x");
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 2, "unpaused meanwhile: the fresh answer says so");
    });
}

/// A consumer whose DAG was unpaused once and is paused now, so that its messages are dropped.
async fn dropping() -> World {
    let world = World::new();
    world.seen_unpaused.set(true);
    world.airflow.set_dags(dag(true));
    world.start();
    world.until("green", is_listening).await;
    world
}

#[test]
fn a_message_is_dropped_only_once_that_is_recorded() {
    run(async {
        let world = dropping().await;
        world.execute(
            "CREATE TRIGGER full BEFORE UPDATE ON ledger WHEN new.outcome = 'dropped' \
             BEGIN SELECT raise(ABORT, 'disk full'); END",
        );
        world.broker.publish(None, "x");
        world.broker.publish(Some("m"), "x");
        world.until("told", |w| w.status().contains("disk full")).await;
        secs(600).await;
        assert_eq!((world.broker.verbs().len(), world.broker.unacked()), (0, 2));
        world.execute("DROP TRIGGER full");
        world.until_drained().await;
        let dropped = "SELECT count(*) FROM ledger WHERE outcome = 'dropped' AND reason = 'paused'";
        assert_eq!((world.sql(dropped).as_str(), world.airflow.run_ids().len()), ("2", 0));
        world.until("green", is_listening).await;
    });
}

#[test]
fn a_message_without_a_row_is_not_dropped_and_is_started_once_its_dag_is_unpaused() {
    run(async {
        let world = dropping().await;
        world.execute("CREATE TRIGGER full BEFORE INSERT ON ledger BEGIN SELECT raise(ABORT, 'disk full'); END");
        world.broker.publish(Some("m"), "x");
        world.until("told", |w| w.status().contains("took no record of this message")).await;
        secs(600).await;
        assert_eq!((world.broker.verbs().len(), world.broker.unacked()), (0, 1));
        world.airflow.set_dags(dag(false));
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 1);
    });
}

#[test]
fn a_message_without_a_row_gets_one_when_it_comes_again_and_is_dropped_then() {
    run(async {
        let world = dropping().await;
        world.execute("CREATE TRIGGER full BEFORE INSERT ON ledger BEGIN SELECT raise(ABORT, 'disk full'); END");
        world.broker.publish(Some("m"), "x");
        world.until("told", |w| w.status().contains("took no record of this message")).await;
        world.execute("DROP TRIGGER full");
        world.until_drained().await;
        assert_eq!(world.broker.verbs(), [(Some("m".into()), Verb::GiveBackUntried), (Some("m".into()), Verb::Ack)]);
        assert_eq!(world.sql("SELECT outcome FROM ledger"), "dropped");
    });
}

#[test]
fn a_failed_question_drops_nothing() {
    run(async {
        let world = World::new();
        world.seen_unpaused.set(true);
        world.airflow.set_dags(dag(true));
        world.start();
        world.until("green", is_listening).await;
        world.airflow.set_dags(unwell());
        world.broker.publish(Some("m"), "x");
        world.until("held", |w| w.status() == "error: Airflow answered 503").await;
        secs(600).await;
        assert_eq!((world.broker.verbs().len(), world.airflow.triggers().len()), (0, 0));
        world.airflow.set_dags(dag(false));
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 1);
    });
}

#[test]
fn a_paused_dag_keeps_its_messages_or_queues_its_runs_where_it_is_told_to() {
    run(async {
        let world = World::new();
        world.seen_unpaused.set(true);
        world.airflow.set_dags(dag(true));
        world.set_options(options(OnPaused::Hold));
        world.broker.publish(Some("m"), "x");
        world.start();
        world.until("paused", |w| w.status() == "paused_dag: DAG 'dag' is paused").await;
        secs(600).await;
        assert_eq!((world.broker.channels(), world.broker.ready()), (0, 1));
        world.set_options(options(OnPaused::Run));
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 1);
    });
}

/// A consumer that is stopped, because its DAG has gone, with one delivery in hand; another waits in the queue, and so many
/// were on their way.
async fn stopped_with_one_held(on_their_way: usize) -> World {
    let world = World::new();
    world.start();
    world.until("green", is_listening).await;
    world.airflow.set_dags(stale());
    world.broker.deliver_most(1);
    world.broker.send_late(on_their_way);
    world.broker.publish(Some("held"), "x");
    (0..on_their_way).for_each(|_| world.broker.publish(None, "late"));
    world.broker.publish(Some("waits"), "x");
    world
        .until("told", |w| w.status() == "waiting_for_dag: Airflow does not find DAG 'dag' in its DAG folder any more")
        .await;
    world.until("stopped", |w| !w.broker.is_consumed()).await;
    assert_eq!((world.broker.unacked(), world.broker.ready()), (1 + on_their_way, 1));
    world
}

#[test]
fn a_dag_that_goes_stops_the_consumer_and_keeps_what_is_held() {
    run(async {
        let world = stopped_with_one_held(2).await;
        let asked = world.airflow.triggers().len();
        secs(600).await;
        assert_eq!((world.broker.unacked(), world.broker.ready(), world.broker.verbs().len()), (3, 1, 0));
        assert_eq!(world.sql("SELECT consumer_tag FROM subscription_status"), "NULL");
        assert_eq!(world.airflow.triggers().len(), asked, "no run is asked for while there is no DAG");

        world.airflow.set_dags(dag(false));
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 4);
        assert_eq!((world.broker.channels(), world.broker.tags().len()), (1, 2), "the same channel, a new tag");
        world.until("green", is_listening).await;
        assert!(world.broker.verbs().iter().all(|(_, verb)| *verb == Verb::Ack));
    });
}

#[test]
fn a_channel_that_is_lost_while_consuming_is_paused_costs_nothing() {
    run(async {
        let world = stopped_with_one_held(0).await;
        world.broker.drop_channel();
        world.until("noticed", |w| !w.broker.is_attached() && w.status().starts_with("waiting_for_dag: ")).await;
        secs(600).await;
        assert_eq!((world.broker.is_attached(), world.broker.ready()), (false, 2));
        world.airflow.set_dags(dag(false));
        world.until_drained().await;
        assert_eq!((world.broker.channels(), world.airflow.run_ids().len()), (2, 2));
    });
}

#[test]
fn a_channel_that_nothing_needs_is_closed() {
    run(async {
        let world = World::new();
        world.set_options(options(OnPaused::Run));
        world.airflow.set_dags(dag(true));
        world.start();
        world.until("green", is_listening).await;
        world.set_options(options(OnPaused::Hold));
        world.until("closed", |w| !w.broker.is_attached()).await;
        world.until("told", |w| w.status() == "paused_dag: DAG 'dag' is paused").await;
        world.set_options(options(OnPaused::Run));
        world.broker.publish(Some("m"), "x");
        world.until_drained().await;
        assert_eq!((world.broker.channels(), world.airflow.run_ids().len()), (2, 1));
    });
}

#[test]
fn what_is_held_goes_back_at_its_deadline_although_consuming_is_paused() {
    run(async {
        let world = stopped_with_one_held(0).await;
        world.until("given back", |w| !w.broker.verbs().is_empty()).await;
        assert_eq!(world.broker.verbs(), [(Some("held".into()), Verb::GiveBackTried)]);
        world.until("closed", |w| !w.broker.is_attached()).await;
        assert_eq!(world.broker.ready(), 2);
        world.airflow.set_dags(dag(false));
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 2);
    });
}

#[test]
fn a_missing_dag_loses_its_messages_only_where_it_is_told_to_and_after_ten_minutes() {
    run(async {
        for (processor, drops) in [(Part::Healthy, true), (Part::Unhealthy, false), (Part::Unknown, false)] {
            let world = World::new();
            world.airflow.set_processor(processor);
            world.airflow.set_dags(DagLookup::Absent);
            world.set_options(acking());
            world.broker.publish(Some("m"), "x");
            world.start();
            world.until("told", |w| w.status() == "waiting_for_dag: Airflow does not have DAG 'dag'").await;
            secs(580).await;
            assert_eq!((world.broker.channels(), world.broker.ready()), (0, 1));
            secs(600).await;
            assert_eq!(world.broker.verbs().len(), usize::from(drops), "{processor:?}");
            assert_eq!(world.airflow.triggers().len(), 0);
            if drops {
                assert_eq!(world.sql("SELECT outcome || ' ' || reason FROM ledger"), "dropped missing");
                // Its coming back is noticed although messages are consumed.
                world.airflow.set_dags(dag(true));
                world.broker.publish(Some("n"), "x");
                world.until("waits", |w| w.status().starts_with("paused_dag: ")).await;
                world.airflow.set_dags(dag(false));
                world.until("started", |w| w.airflow.run_ids() == ["rmq__orders__n"]).await;
            }
        }
    });
}

#[test]
fn one_absence_is_asked_again_and_costs_no_channel() {
    run(async {
        let world = World::new();
        world.start();
        world.until("green", is_listening).await;
        let asked = world.airflow.asked().len();
        world.airflow.script_dags([DagLookup::Absent, unwell(), dag(false)]);
        world.airflow.script([Turn::Answer(TriggerAnswer::TargetFault("not found".into()))]);
        world.broker.publish(Some("m"), "x");
        world.until_drained().await;
        secs(60).await;
        assert_eq!((world.broker.channels(), world.broker.verbs().len()), (1, 1));
        assert_eq!(world.airflow.asked().len(), asked + 3, "until the doubt is over, and then no more");
        assert!(is_listening(&world), "{}", world.status());
    });
}

#[test]
fn new_options_count_for_what_is_received_afterwards() {
    run(async {
        let world = World::new();
        world.seen_unpaused.set(true);
        world.airflow.set_dags(dag(true));
        world.set_options(options(OnPaused::Run));
        world.start();
        world.until("green", is_listening).await;
        let down = || TriggerAnswer::Unavailable { reason: "503".into(), retry_after: None, server_error: true };
        world.airflow.script([Turn::Answer(down())]);
        world.broker.publish(Some("early"), "x");
        world.until("held", |w| w.airflow.triggers().len() == 1).await;
        world.set_options(options(OnPaused::Drop));
        world.broker.publish(Some("late"), "x");
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids(), ["rmq__orders__early"]);
        assert_eq!((world.broker.channels(), world.broker.tags().len()), (1, 1), "the consumer is not touched");
    });
}

#[test]
fn a_worker_that_is_told_to_leave_finishes_the_answer_under_way_and_gives_the_rest_back() {
    run(async {
        let world = World::new();
        world.start();
        world.until("green", is_listening).await;
        // A failure on one message alone does not keep others from its target.
        let down = || TriggerAnswer::Unavailable { reason: "503".into(), retry_after: None, server_error: true };
        world.airflow.script([Turn::Answer(down()), Turn::After(Duration::from_secs(1))]);
        world.broker.publish(Some("held"), "x");
        world.until("one is held", |w| w.status() == "error: 503").await;
        world.broker.publish(Some("asked"), "x");
        world.until("one is asked for", |w| w.airflow.triggers().len() == 2).await;
        world.leave().await;
        assert_eq!(world.broker.verbs(), [(Some("asked".into()), Verb::Ack)]);
        assert_eq!((world.broker.ready(), world.broker.is_attached()), (1, false));
        assert!(world.status().starts_with("disconnected"), "{}", world.status());
    });
}

#[test]
fn a_worker_that_waits_for_its_dag_leaves_at_once() {
    run(async {
        let world = World::new();
        world.airflow.set_dags(unwell());
        world.start();
        world.until("told", |w| w.status().starts_with("error: Airflow has not said yet")).await;
        let start = Instant::now();
        world.leave().await;
        assert!(start.elapsed() < Duration::from_millis(100));
        let asked = world.airflow.asked().len();
        secs(600).await;
        assert_eq!(world.airflow.asked().len(), asked, "nobody waits any more, so nobody asks");
    });
}
