//! Messages that have hardly any returns to their queue left: copied, held, dead-lettered, kept before the last one.

use std::time::Duration;

use bytes::Bytes;
use rmq_watcher::domain::copy::HEADER;
use rmq_watcher::domain::envelope::{Field, Table};
use rmq_watcher::domain::fault::{BrokerFault, BrokerFaultKind};
use rmq_watcher::domain::options::{OnBudget, Options};
use rmq_watcher::domain::outcome::TriggerAnswer;
use rmq_watcher::domain::routing::Standing;
use rmq_watcher::pipeline::Limits;
use rmq_watcher::ports::{Published, Verb};
use serde_json::json;

use crate::fake_airflow::Turn;
use crate::fake_broker::Publishing;
use crate::world::{World, limits, route, run};

/// What a queue of RabbitMQ 4 allows, and the first count that is near it.
const LIMIT: u32 = 20;
const NEAR: u32 = 17;

fn down(times: usize) -> Vec<Turn> {
    let answer = || TriggerAnswer::Unavailable { reason: "503".into(), retry_after: None, server_error: false };
    (0..times).map(|_| Turn::Answer(answer())).collect()
}

fn fault(kind: BrokerFaultKind) -> BrokerFault {
    BrokerFault { kind, text: "the broker said no".to_owned() }
}

/// A watcher before a queue with one message that came back so often.
fn world(id: Option<&str>, returns: u32, on_budget: OnBudget) -> World {
    let world = World::new();
    world.set_options(Options { on_budget, ..Options::default() });
    world.broker.publish_from(("shop", "orders.new"), id, Table::new(), Bytes::from_static(b"x"));
    world.broker.count(LIMIT, returns);
    world
}

fn columns(world: &World) -> String {
    world.sql("SELECT concat_ws(' ', state, copies_made, copies_confirmed, original_open <> 0) FROM ledger")
}

#[test]
fn a_message_near_its_end_is_copied_and_its_copy_starts_the_run() {
    run(async {
        for id in [Some("m"), None] {
            let world = world(id, NEAR, OnBudget::Copy);
            world.airflow.script(down(3));
            world.start();
            world.until_drained().await;
            assert_eq!(world.airflow.run_ids().len(), 1);
            assert_eq!(world.broker.copies().len(), 1, "a copy has its own budget");
            let id = id.map(str::to_owned);
            assert_eq!(world.broker.verbs(), [(id.clone(), Verb::Ack), (id, Verb::Ack)]);
            world.until("settled", |w| columns(w) == "settled 1 1 0").await;
            let conf = world.airflow.conf(&world.airflow.run_ids()[0]);
            assert_eq!(conf["routing_key"], "orders.new", "as it was published");
            assert!(!conf["headers"].to_string().contains("x-rmq-watcher"), "{conf}");
        }
    });
}

#[test]
fn a_message_that_can_be_started_at_once_is_not_copied() {
    run(async {
        let world = world(Some("m"), LIMIT, OnBudget::Copy);
        world.start();
        world.until_drained().await;
        assert_eq!((world.airflow.run_ids().len(), world.broker.copies().len()), (1, 0));
        assert_eq!(world.sql("SELECT count(*) FROM kept"), "0", "what was kept for its last return is let go");
    });
}

#[test]
fn a_target_that_stays_down_costs_copies_and_no_message() {
    run(async {
        let world = world(None, NEAR, OnBudget::Copy);
        world.airflow.script(down(900));
        world.start_with(Limits { ack_deadline: Duration::from_secs(60), ..limits() });
        world.until("copied three times", |w| w.broker.copies().len() == 3).await;
        world.airflow.recover();
        world.until_drained().await;
        assert_eq!((world.airflow.run_ids().len(), world.broker.gone()), (1, 0));
        assert_eq!(world.sql("SELECT count(*) FROM ledger"), "1");
    });
}

/// Killed where the copy is written down and not published, published and not confirmed, confirmed and the original not
/// acknowledged.
#[test]
fn a_kill_at_any_point_of_copying_neither_loses_nor_doubles_a_message() {
    run(async {
        for id in [Some("m"), None] {
            for (said, arrives) in [
                (Publishing::Silence(false), false),
                (Publishing::Silence(true), true),
                (Publishing::Said(Published::Confirmed, true), true),
            ] {
                let world = world(id, NEAR, OnBudget::Copy);
                world.airflow.script(down(2));
                world.broker.script_copies([said.clone()]);
                world.broker.lose_verbs_after_copy();
                world.start();
                world.until("copying", |w| w.sql("SELECT max(copies_made) FROM ledger") == "1").await;
                world.until("published", |w| w.broker.copies().len() == 1).await;
                if let Publishing::Said(..) = said {
                    world.until("confirmed", |w| w.sql("SELECT max(copies_confirmed) FROM ledger") == "1").await;
                }
                world.kill().await;
                assert_eq!(world.broker.ready(), 1 + usize::from(arrives), "the original came back");
                world.start();
                world.until_drained().await;
                assert_eq!(world.airflow.run_ids().len(), 1, "{id:?} {said:?}");
                assert_eq!(world.sql("SELECT count(*) FROM ledger"), "1", "{id:?} {said:?}");
            }
        }
    });
}

#[test]
fn a_copy_that_nobody_confirmed_takes_over_when_it_arrives() {
    run(async {
        let world = world(None, NEAR, OnBudget::Copy);
        world.airflow.script(down(4));
        let unknown = Published::Unknown(fault(BrokerFaultKind::TimedOut));
        world.broker.script_copies([Publishing::Said(unknown, true)]);
        world.start();
        world.until_drained().await;
        assert_eq!((world.airflow.run_ids().len(), world.broker.gone()), (1, 0));
        assert!(world.broker.verbs().iter().all(|(_, verb)| *verb == Verb::Ack), "{:?}", world.broker.verbs());
        world.until("settled", |w| columns(w).starts_with("settled ") && columns(w).ends_with(" 0")).await;
    });
}

#[test]
fn a_copy_that_failed_is_tried_again_later() {
    run(async {
        let world = world(None, NEAR, OnBudget::Copy);
        world.airflow.script(down(40));
        let failed = || Publishing::Said(Published::Failed(fault(BrokerFaultKind::Unreachable)), false);
        world.broker.script_copies([failed(), failed()]);
        world.start();
        world.until("copied", |w| w.broker.copies().len() == 3).await;
        world.airflow.recover();
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 1);
        assert!(columns(&world).contains(" 3 3 "), "{}", columns(&world));
    });
}

#[test]
fn a_later_copy_makes_earlier_ones_stale() {
    run(async {
        let world = world(None, NEAR, OnBudget::Copy);
        world.airflow.script(down(1));
        world.start();
        world.until_drained().await;
        let first = world.broker.copies().remove(0);
        for _ in 0..2 {
            world.broker.publish_again(first.clone());
            world.until_drained().await;
        }
        assert_eq!(world.airflow.run_ids().len(), 1, "whoever has it may publish it again");
    });
}

#[test]
fn on_budget_hold_leaves_the_queue_alone_until_the_message_can_be_started() {
    run(async {
        let world = world(Some("m"), NEAR, OnBudget::Hold);
        world.airflow.script(down(4));
        world.start();
        world.until("held back", |w| !w.broker.is_consumed() && w.broker.unacked() == 1).await;
        world.until("said", |w| w.status().contains("3 of 20 returns")).await;
        assert!(world.status().starts_with("error: budget:"), "{}", world.status());
        world.broker.publish(Some("n"), "x");
        world.until("started", |w| w.airflow.run_ids().len() == 2).await;
        world.until_drained().await;
        assert_eq!(world.broker.copies().len(), 0);
        world.until("said", |w| w.status().starts_with("listening")).await;
    });
}

#[test]
fn on_budget_hold_gives_the_message_back_once_and_fetches_it_after_somebody_acts() {
    run(async {
        let world = world(Some("m"), NEAR, OnBudget::Hold);
        world.airflow.script(down(900));
        world.start_with(Limits { ack_deadline: Duration::from_secs(100), ..limits() });
        world.until("given back", |w| w.broker.ready() == 1 && !w.broker.is_attached()).await;
        tokio::time::sleep(Duration::from_secs(4 * 3600)).await;
        assert_eq!(world.broker.verbs(), [(Some("m".into()), Verb::GiveBackTried)]);
        assert!(world.status().starts_with("error: budget:"), "{}", world.status());
        world.airflow.recover();
        world.set_options(Options::default());
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 1);
    });
}

#[test]
fn without_the_right_to_publish_the_queue_is_left_alone_and_the_right_is_tried_again() {
    run(async {
        let world = world(Some("m"), NEAR, OnBudget::Copy);
        world.airflow.script(down(900));
        let refused = || Publishing::Said(Published::Refused(fault(BrokerFaultKind::AccessRefused)), false);
        world.broker.script_copies([refused(), refused()]);
        world.start();
        world.until("held back", |w| w.status().contains("no copy of it can be published")).await;
        assert!(!world.broker.is_consumed());
        assert_eq!(world.broker.copies().len(), 1, "a refusal counts for a while");
        world.until("tried again", |w| w.broker.copies().len() == 3).await;
        world.airflow.recover();
        world.until_drained().await;
        assert_eq!((world.airflow.run_ids().len(), world.broker.gone()), (1, 0));
    });
}

#[test]
fn on_budget_dead_letter_keeps_the_message_and_rejects_it() {
    run(async {
        let world = world(Some("m"), NEAR, OnBudget::DeadLetter);
        world.airflow.script(down(9));
        world.start();
        world.until_drained().await;
        assert_eq!(world.broker.verbs(), [(Some("m".into()), Verb::DeadLetter)]);
        let kept = "SELECT CAST(body AS TEXT) || ': ' || reason FROM kept JOIN ledger ON id = row_id";
        assert_eq!(world.sql(kept), "x: delivery budget spent: 3 of 20 returns to its queue left");
    });
}

#[test]
fn the_most_careful_subscription_decides() {
    run(async {
        let world = world(Some("m"), NEAR, OnBudget::Copy);
        let with =
            |id, dag, on_budget| route(id, dag, Options { on_budget, ..Options::default() }, Standing::Listening);
        world.set_routes(vec![with(1, "dag", OnBudget::DeadLetter), with(2, "other", OnBudget::Copy)]);
        world.airflow.script(down(4));
        world.start();
        world.until_drained().await;
        assert_eq!(world.broker.verbs().iter().filter(|(_, verb)| *verb == Verb::DeadLetter).count(), 0);
        assert_eq!(world.airflow.run_ids().len(), 2);
    });
}

#[test]
fn before_its_last_return_a_message_is_kept() {
    run(async {
        for filter in [json!(null), json!({"filter_headers": {"a": 1}})] {
            let world = world(Some("m"), LIMIT, OnBudget::Hold);
            world.set_options(Options { on_budget: OnBudget::Hold, filter_data: Some(filter), ..Options::default() });
            world.airflow.script(down(900));
            world.start();
            world.until("kept", |w| w.sql("SELECT CAST(body AS TEXT) FROM kept") == "x").await;
            world.kill().await;
            assert_eq!(world.broker.gone(), 1, "that was its last return");
        }
    });
}

#[test]
fn a_message_that_cannot_be_kept_is_not_given_back_for_the_last_time() {
    run(async {
        let world = World::new();
        world.set_options(Options { on_budget: OnBudget::Hold, ..Options::default() });
        let body = Bytes::from(vec![b'x'; 16 * 1024 * 1024 + 1]);
        world.broker.publish_from(("", "orders"), None, Table::new(), body);
        world.broker.count(LIMIT, LIMIT);
        world.airflow.script(down(900));
        world.start_with(Limits { ack_deadline: Duration::from_secs(100), ..limits() });
        world.until("deadline", |w| w.status().contains("too large to be kept") || w.status().contains("budget")).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!((world.broker.verbs(), world.broker.gone(), world.broker.unacked()), (Vec::new(), 0, 1));
    });
}

#[test]
fn what_is_refused_and_too_large_to_be_kept_is_held() {
    run(async {
        let world = World::new();
        let body = Bytes::from(vec![b'x'; 16 * 1024 * 1024 + 1]);
        world.broker.publish_from(("", "orders"), None, Table::new(), body);
        world.start();
        world.until("said", |w| w.status().contains("too large to be kept in the state file")).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(world.broker.verbs(), []);
    });
}

fn foreign(on_budget: OnBudget) -> Options {
    let filter_data = Some(json!({"filter_headers": {"country": "DE"}}));
    Options { on_budget, filter_data, ..Options::default() }
}

#[test]
fn a_message_for_nobody_is_copied_with_what_is_known_of_it() {
    run(async {
        let world = world(Some("m"), NEAR, OnBudget::Copy);
        world.set_options(foreign(OnBudget::Copy));
        world.start();
        world.until("copied", |w| w.broker.copies().len() == 1).await;
        let Some(Field::Table(header)) = world.broker.copies()[0].headers.get(HEADER).cloned() else {
            panic!("no header")
        };
        assert_eq!(header["seen"], Field::I64(NEAR.into()), "its pauses go on growing");
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(world.broker.most_deliveries(), 3, "parked to the ack deadline each time");
        assert_eq!(world.broker.gone(), 0);
        world.set_options(Options::default());
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 1, "it is for somebody now");
        world.until("settled", |w| w.sql("SELECT count(*) FROM ledger WHERE state <> 'settled'") == "0").await;
    });
}

#[test]
fn a_message_for_nobody_is_held_or_dead_lettered_as_all_that_look_at_it_say() {
    run(async {
        let held = world(Some("m"), NEAR, OnBudget::Hold);
        held.set_options(foreign(OnBudget::Hold));
        held.start();
        held.until("held back", |w| !w.broker.is_consumed() && w.broker.unacked() == 1).await;
        held.set_options(Options::default());
        held.until_drained().await;
        assert_eq!(held.airflow.run_ids().len(), 1);

        let dead = world(Some("m"), NEAR, OnBudget::DeadLetter);
        dead.set_options(foreign(OnBudget::DeadLetter));
        dead.start();
        dead.until_drained().await;
        assert_eq!(dead.broker.verbs(), [(Some("m".into()), Verb::DeadLetter)]);
        assert_eq!(dead.sql("SELECT CAST(body AS TEXT) FROM kept"), "x");
    });
}

#[test]
fn a_header_that_is_not_ours_makes_no_copy() {
    run(async {
        let world = World::new();
        let headers = Table::from([(HEADER.to_owned(), Field::Text(b"mine".to_vec()))]);
        world.broker.publish_from(("", "orders"), Some("m"), headers, Bytes::from_static(b"x"));
        world.start();
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 1);
        world.until("settled", |w| columns(w) == "settled 0 0 0").await;
    });
}

/// The copy is rejected, goes through a dead-letter exchange, and somebody puts it back.
#[test]
fn a_copy_that_was_dead_lettered_and_put_back_starts_what_refused_it() {
    run(async {
        for id in [Some("m"), None] {
            let world = world(id, NEAR, OnBudget::Copy);
            world.airflow.script(down(1));
            world.airflow.script([Turn::Answer(TriggerAnswer::Refused("bad param".into()))]);
            world.start();
            world.until("refused", |w| w.broker.verbs().iter().any(|(_, verb)| *verb == Verb::DeadLetter)).await;
            world.until("settled", |w| columns(w).starts_with("settled ")).await;
            let mut copy = world.broker.copies().remove(0);
            let text = |text: &str| Field::Text(text.as_bytes().to_vec());
            let death = Table::from([
                ("queue".to_owned(), text("orders")),
                ("reason".to_owned(), text("rejected")),
                ("count".to_owned(), Field::I64(1)),
                ("exchange".to_owned(), text("")),
                ("routing-keys".to_owned(), Field::Array(vec![text("orders")])),
            ]);
            copy.headers.insert("x-death".to_owned(), Field::Array(vec![Field::Table(death)]));
            world.broker.publish_again(copy);
            world.until_drained().await;
            let runs = world.airflow.run_ids();
            assert_eq!(runs.len(), 1, "{id:?}");
            assert!(runs[0].ends_with("_r1"), "{runs:?}");
            assert_eq!(world.airflow.conf(&runs[0])["routing_key"], "orders.new");
        }
    });
}
