//! Deliveries whose target cannot take them: held in place, retried, given back at the deadline, dead-lettered when refused.

use std::time::Duration;

use rmq_watcher::domain::fault::BrokerFaultKind;
use rmq_watcher::domain::outcome::{RunLookup, TriggerAnswer};
use rmq_watcher::pipeline::Limits;
use rmq_watcher::ports::Verb;

use crate::fake_airflow::Turn;
use crate::world::{World, limits, run};

fn unavailable() -> TriggerAnswer {
    TriggerAnswer::Unavailable { reason: "503".into(), retry_after: None, server_error: false }
}

#[test]
fn an_airflow_that_recovers_costs_one_run_and_no_redelivery() {
    run(async {
        let world = World::new();
        world.airflow.script(
            [
                unavailable(),
                TriggerAnswer::Conflict("taken".into()),
                TriggerAnswer::Ambiguous("dropped".into()),
                TriggerAnswer::AccessFault("an HTML login page".into()),
            ]
            .map(Turn::Answer),
        );
        world.start();
        world.broker.publish(None, "x");
        world.until("access fault", |w| w.status().contains("login page")).await;
        assert!(world.status().starts_with("error: "), "{}", world.status());
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 1);
        assert_eq!(world.broker.verbs(), [(None, Verb::Ack)]);
        assert!(world.status().starts_with("listening: "), "{}", world.status());
    });
}

#[test]
fn pauses_grow_to_a_minute_and_airflows_own_wish_counts() {
    run(async {
        let world = World::new();
        world.airflow.script((0..8).map(|_| Turn::Answer(unavailable())));
        let wish = Some(Duration::from_secs(300));
        let asked = TriggerAnswer::Unavailable { reason: "429".into(), retry_after: wish, server_error: false };
        world.airflow.script([Turn::Answer(asked)]);
        world.start();
        world.broker.publish(Some("m"), "x");
        world.until_drained().await;
        let asked = world.airflow.trigger_times();
        assert_eq!(asked.len(), 10);
        // 1 + 2 + 4 + 8 + 16 + 32 + 60 + 60, each within 20 %.
        let eight = asked[8] - asked[0];
        assert!((Duration::from_secs(146)..Duration::from_secs(221)).contains(&eight), "{eight:?}");
        assert!(asked[9] - asked[8] >= Duration::from_secs(300), "{:?}", asked[9] - asked[8]);
    });
}

#[test]
fn at_the_ack_deadline_a_delivery_goes_back_and_finds_its_row_again() {
    run(async {
        let world = World::new();
        world.airflow.script((0..200).map(|_| Turn::Answer(unavailable())));
        world.start_with(Limits { ack_deadline: Duration::from_secs(100), ..limits() });
        world.broker.publish(None, "x");
        world.until("given back twice", |w| w.broker.verbs().len() >= 2).await;
        assert_eq!(world.broker.verbs()[..2], [(None, Verb::GiveBackTried), (None, Verb::GiveBackTried)]);
        assert_eq!(world.sql("SELECT count(*) FROM ledger"), "1", "one row for one message");
    });
}

#[test]
fn a_refused_message_is_kept_and_dead_lettered() {
    run(async {
        let world = World::new();
        world.airflow.script([Turn::Answer(TriggerAnswer::Refused("bad param".into()))]);
        world.start();
        world.broker.publish(Some("m1"), "the body");
        world.until_drained().await;
        assert_eq!(world.broker.verbs(), [(Some("m1".into()), Verb::DeadLetter)]);
        assert_eq!(
            world.sql("SELECT CAST(body AS TEXT) || ', ' || reason FROM ledger JOIN kept ON row_id = id"),
            "the body, bad param"
        );
        assert_eq!(world.sql("SELECT head ->> 'properties' ->> 'message_id' FROM kept"), "m1");
    });
}

#[test]
fn a_refused_message_that_cannot_be_kept_is_held() {
    run(async {
        let world = World::new();
        world.airflow.script([Turn::Answer(TriggerAnswer::Refused("bad param".into()))]);
        world.start();
        world.until("attached", |w| w.broker.is_attached()).await;
        world.execute("CREATE TRIGGER full BEFORE INSERT ON kept BEGIN SELECT raise(ABORT, 'disk full'); END");
        world.broker.publish(Some("m1"), "the body");
        world.until("told", |w| w.status().contains("disk full")).await;
        assert_eq!(world.broker.verbs(), []);
        world.execute("DROP TRIGGER full");
        world.until_drained().await;
        assert_eq!(world.broker.verbs(), [(Some("m1".into()), Verb::DeadLetter)]);
    });
}

#[test]
fn a_target_that_refuses_everything_is_failing_and_loses_nothing_more() {
    run(async {
        let world = World::new();
        world.airflow.script((0..50).map(|_| Turn::Answer(TriggerAnswer::Refused("no".into()))));
        world.start();
        for id in ["a", "b", "c", "d", "e", "f"] {
            world.broker.publish(Some(id), "x");
        }
        world.until("failing", |w| w.status().starts_with("failing: ")).await;
        assert_eq!(world.broker.verbs().len(), 4, "the fifth in a row and those after it are held");
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 2);
    });
}

#[test]
fn a_look_up_without_an_answer_is_repeated_before_anything_is_asked_again() {
    run(async {
        let world = World::new();
        world.airflow.script([Turn::CreateAndAnswer(TriggerAnswer::Ambiguous("timeout".into()))]);
        world.airflow.script_lookups((0..3).map(|_| RunLookup::Unknown("503".into())));
        world.start();
        world.broker.publish(None, "x");
        world.until_drained().await;
        assert_eq!((world.airflow.triggers().len(), world.airflow.run_ids().len()), (1, 1));
    });
}

#[test]
fn answers_that_are_lost_again_and_again_are_waited_out_and_the_deadline_holds() {
    run(async {
        let world = World::new();
        world.airflow.script((0..500).map(|_| Turn::Answer(TriggerAnswer::Ambiguous("502 of a gateway".into()))));
        world.start_with(Limits { ack_deadline: Duration::from_secs(300), ..limits() });
        world.broker.publish(None, "x");
        world.until("told", |w| w.status() == "error: 502 of a gateway").await;
        world.until("given back", |w| w.broker.verbs() == [(None, Verb::GiveBackTried)]).await;
        // Six pauses to a minute and then one a minute, each up to 20 % shorter: 12 pauses at most.
        assert!(world.airflow.triggers().len() <= 13, "{} requests in 300 s", world.airflow.triggers().len());
    });
}

#[test]
fn a_row_stays_red_while_one_of_its_deliveries_is_held() {
    run(async {
        let world = World::new();
        let failed = || TriggerAnswer::Unavailable { reason: "500".into(), retry_after: None, server_error: true };
        world.airflow.script([Turn::Answer(failed())]);
        world.start();
        world.broker.publish(Some("held"), "x");
        world.until("held", |w| w.status() == "error: 500").await;
        world.broker.publish(Some("passes"), "x");
        world.until("the other one passed", |w| w.airflow.run_ids().len() == 1).await;
        assert_eq!(world.status(), "error: 500");
        world.until_drained().await;
        assert!(world.status().starts_with("listening"), "{}", world.status());
    });
}

#[test]
fn a_consumer_that_cannot_be_had_is_told_and_tried_again() {
    run(async {
        let world = World::new();
        world.broker.fail_attach(BrokerFaultKind::QueueMissing, "queue 'orders' does not exist");
        world.broker.fail_attach(BrokerFaultKind::LoginRefused, "user 'guest' was refused");
        world.start();
        world.until("told", |w| w.status() == "error: queue 'orders' does not exist").await;
        world.until("told", |w| w.status() == "error: user 'guest' was refused").await;
        assert_eq!(world.sql("SELECT status FROM connection_status"), "error");
        world.broker.publish(Some("m"), "x");
        world.until_drained().await;
        assert!(world.status().starts_with("listening: "));
        assert_eq!(world.sql("SELECT status FROM connection_status"), "connected");
    });
}

#[test]
fn a_defect_in_one_delivery_gives_it_back_and_stops_nothing_else() {
    run(async {
        let world = World::new();
        world.airflow.script([Turn::Panic]);
        world.start();
        world.broker.publish(None, "x");
        world.broker.publish(Some("b"), "x");
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 2);
        assert!(world.broker.verbs().contains(&(None, Verb::GiveBackTried)));
        assert_eq!(world.sql("SELECT count(*) FROM ledger"), "2", "it came back to its own row");
    });
}
