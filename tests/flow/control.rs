//! The control flow: what is declared runs, a failed read changes nothing, and no accident costs a subscription.

use std::time::Duration;

use rmq_watcher::domain::control::{Answer, Request};
use rmq_watcher::domain::cycle_settings::Variable;
use rmq_watcher::domain::ids::SubscriptionId;
use rmq_watcher::domain::options::{OnPaused, Options};
use rmq_watcher::ports::Declared;
use tokio::time::Instant;

use crate::fake_airflow::stale;
use crate::flowing::{Folder, declared, with_flow, with_options};
use crate::world::{World, run};

#[test]
fn what_is_declared_is_served_and_a_failed_scan_changes_nothing() {
    run(async {
        let world = World::new();
        let gone = || Err("the folder is gone".to_owned());
        let folder = Folder::of(gone()).then([gone(), declared(&[("dag", "orders")])]);
        with_flow(&world, folder, true, async |flow| {
            flow.serves("m1").await;
            flow.cycles(8).await;
            flow.serves("m2").await;
            assert_eq!((flow.rows().as_str(), flow.misses().as_str()), ("1", "0"));
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
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            world.until("told", |w| w.status().starts_with("error: a defect of this program")).await;
            flow.serves("m1").await;
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
            let folder = Folder::of(declared(&[("other", "q1"), ("dag", "orders")]));
            with_flow(&world, folder, true, async |flow| {
                world.until("written", |_| flow.rows() == "2").await;
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
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), false, async |_| {
            world.until("told", |w| w.sql("SELECT count(*) FROM subscription_status") == "1").await;
            assert_eq!(world.status(), "error: no Airflow credentials");
            assert!(!world.broker.is_attached());
        })
        .await;
    });
}

#[test]
fn two_dags_on_a_queue_share_one_consumer_and_each_gets_every_message() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders"), ("dag2", "orders")])), true, async |_| {
            let green = "SELECT count(*) FROM subscription_status WHERE status = 'listening'";
            world.until("both are green", |w| w.sql(green) == "2").await;
            for id in ["a", "b", "c"] {
                world.broker.publish(Some(id), "x");
            }
            world.until_drained().await;
            let (first, second) = (world.airflow.run_ids_of("dag"), world.airflow.run_ids_of("dag2"));
            assert_eq!((first.len(), first), (3, second));
            assert_eq!((world.broker.tags().len(), world.broker.verbs().len()), (1, 3));
        })
        .await;
    });
}

#[test]
fn a_key_that_is_missing_keeps_its_consumer_for_three_scans_and_leaves_with_the_fourth() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            flow.serves("m1").await;
            flow.folder.set(declared(&[]));
            for (misses, id) in [("1", "m2"), ("2", "m3"), ("3", "m4")] {
                flow.cycles(1).await;
                assert_eq!(flow.misses(), misses);
                flow.serves(id).await;
            }
            flow.cycles(1).await;
            assert_eq!(flow.rows(), "0");
            world.until("the consumer has left", |w| !w.broker.is_attached()).await;
            world.broker.publish(Some("m5"), "x");
            flow.cycles(2).await;
            assert_eq!((world.broker.ready(), world.airflow.run_ids().len()), (1, 4));
            flow.folder.set(declared(&[("dag", "orders")]));
            world.until_drained().await;
            assert_eq!(world.sql("SELECT id FROM subscriptions"), "1", "the same number");
        })
        .await;
    });
}

#[test]
fn what_was_not_looked_at_is_not_missing() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            flow.serves("m1").await;
            for hidden in ["a.py", ""] {
                let undecided = vec![hidden.to_owned()];
                flow.folder.set(declared(&[]).map(|scan| Declared { undecided, ..scan }));
                flow.cycles(6).await;
                assert_eq!((flow.rows().as_str(), flow.misses().as_str()), ("1", "0"), "{hidden:?}");
            }
            flow.folder.set(declared(&[]).map(|scan| Declared { undecided: vec!["b.py".to_owned()], ..scan }));
            flow.cycles(1).await;
            assert_eq!(flow.misses(), "1");
        })
        .await;
    });
}

#[test]
fn restarts_count_no_faster_than_the_interval() {
    run(async {
        let world = World::new();
        let folder = Folder::of(declared(&[("dag", "orders")]));
        with_flow(&world, folder, true, async |flow| flow.serves("m1").await).await;
        for _ in 0..12 {
            with_flow(&world, Folder::of(declared(&[])), true, async |flow| {
                flow.cycles(1).await;
                assert_eq!(flow.rows(), "1");
            })
            .await;
        }
        assert_eq!(world.sql("SELECT absent_cycles FROM subscriptions"), "0");
        with_flow(&world, Folder::of(declared(&[])), true, async |flow| {
            flow.cycles(1).await;
            flow.cycles(1).await;
            assert_eq!(flow.misses(), "1", "an interval after the first start it counts");
        })
        .await;
    });
}

#[test]
fn a_key_that_comes_back_in_time_has_the_same_consumer() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            flow.serves("m1").await;
            let tag = world.sql("SELECT consumer_tag FROM subscription_status");
            flow.folder.set(declared(&[]));
            flow.cycles(3).await;
            flow.folder.set(declared(&[("dag", "orders")]));
            flow.cycles(1).await;
            assert_eq!(flow.misses(), "0");
            assert_eq!(world.sql("SELECT consumer_tag FROM subscription_status"), tag);
        })
        .await;
    });
}

#[test]
fn wakes_apply_at_once_and_count_no_misses() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[])), true, async |flow| {
            flow.cycles(1).await;
            let before = Instant::now();
            flow.folder.touch(declared(&[("dag", "orders")]));
            flow.serves("m1").await;
            assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
            for _ in 0..6 {
                flow.folder.touch(declared(&[]));
                flow.cycles(1).await;
            }
            assert_eq!(flow.misses(), "0");
            assert_eq!(flow.ask(Request::Wake).await, Answer::Done);
            assert_eq!(flow.misses(), "0");
            assert!(before.elapsed() < Duration::from_secs(50), "{:?}", before.elapsed());
        })
        .await;
    });
}

/// No cycle of the interval comes between.
fn with_long_interval(world: &World) {
    world.airflow.set_variable("rmq_watcher_reconcile_interval", Variable::Set("3600".into()));
}

#[test]
fn files_are_scanned_after_a_second_of_quiet_and_ten_seconds_after_the_first_change_at_the_latest() {
    run(async {
        let world = World::new();
        with_long_interval(&world);
        with_flow(&world, Folder::of(declared(&[])), true, async |flow| {
            flow.cycles(1).await;
            let (scans, began) = (flow.folder.scans(), Instant::now());
            for _ in 0..9 {
                flow.folder.touch(declared(&[]));
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            assert_eq!(flow.folder.scans(), scans, "not quiet for a second");
            tokio::time::sleep(Duration::from_secs(10)).await;
            let at = flow.folder.since(began);
            assert_eq!(at.len(), 1, "{at:?}");
            assert!((3.4..3.5).contains(&at[0]), "{at:?}");
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(29) {
                flow.folder.touch(declared(&[]));
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            let at = flow.folder.since(began);
            assert_eq!(at.len(), 2, "{at:?}");
            assert!((10.0..10.1).contains(&at[0]) && (20.0..20.7).contains(&at[1]), "{at:?}");
        })
        .await;
    });
}

#[test]
fn files_bring_no_cycle_before_ten_times_what_the_last_one_took() {
    run(async {
        let world = World::new();
        with_long_interval(&world);
        with_flow(&world, Folder::of(declared(&[])), true, async |flow| {
            flow.cycles(1).await;
            let began = Instant::now();
            let release = flow.folder.hang();
            flow.folder.touch(declared(&[]));
            // The scan begins after a second and takes five.
            tokio::time::sleep(Duration::from_secs(6)).await;
            release.notify_one();
            for _ in 0..200 {
                tokio::time::sleep(Duration::from_millis(300)).await;
                flow.folder.touch(declared(&[]));
            }
            let at = flow.folder.since(began);
            assert!((1.0..1.1).contains(&at[0]) && (51.0..51.2).contains(&at[1]), "{at:?}");
        })
        .await;
    });
}

#[test]
fn a_subscription_that_is_switched_off_leaves_its_messages_in_the_queue() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            flow.serves("m1").await;
            let switch = |enabled| Request::SetEnabled { id: SubscriptionId(1), enabled };
            assert_eq!(flow.ask(switch(false)).await, Answer::Done);
            world.until("the consumer has left", |w| !w.broker.is_attached()).await;
            world.broker.publish(Some("m2"), "x");
            flow.cycles(3).await;
            assert_eq!(world.broker.ready(), 1);
            assert!(world.status().starts_with("disconnected"), "{}", world.status());
            assert_eq!(flow.ask(switch(false)).await, Answer::Done);
            assert_eq!(flow.ask(switch(true)).await, Answer::Done);
            world.until_drained().await;
            let unknown = flow.ask(Request::SetEnabled { id: SubscriptionId(7), enabled: true }).await;
            assert!(matches!(unknown, Answer::Refused { .. }), "{unknown:?}");
            assert!(matches!(flow.ask(Request::Ping).await, Answer::Pong { .. }));
        })
        .await;
    });
}

#[test]
fn new_options_reach_the_consumer_that_is_attached() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            flow.serves("m1").await;
            let tag = world.sql("SELECT consumer_tag FROM subscription_status");
            let options = Options { on_paused: OnPaused::Run, ..Options::default() };
            flow.folder.touch(with_options(&[("dag", "orders")], &options));
            flow.cycles(1).await;
            assert_eq!(world.sql("SELECT options FROM subscriptions"), r#"{"on_paused":"run"}"#);
            flow.serves("m2").await;
            assert_eq!(world.sql("SELECT consumer_tag FROM subscription_status"), tag);
        })
        .await;
    });
}

#[test]
fn an_option_of_another_version_keeps_the_subscription_from_running_and_no_other() {
    run(async {
        let world = World::new();
        let options = Options { cooldown: 60, ..Options::default() };
        let mut scan = with_options(&[("other", "others")], &options).unwrap();
        scan.declarations.extend(declared(&[("dag", "orders")]).unwrap().declarations);
        with_flow(&world, Folder::of(Ok(scan)), true, async |flow| {
            flow.serves("m1").await;
            let row = "SELECT status || ': ' || last_error FROM subscription_status WHERE subscription_id = 1";
            assert!(world.sql(row).starts_with("invalid: this version of the watcher cannot act on `cooldown`"));
        })
        .await;
    });
}

#[test]
fn a_scan_that_hangs_costs_one_task_and_no_consumer() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            flow.serves("m1").await;
            let release = flow.folder.hang();
            let scans = flow.folder.scans();
            tokio::time::sleep(Duration::from_secs(600)).await;
            assert_eq!(flow.folder.scans(), scans + 1, "one attempt in flight");
            flow.serves("m2").await;
            let counted = |name: &str| world.sql(&format!("SELECT counters ->> '{name}' FROM watchers"));
            assert_eq!(counted("cycle_step_timed_out"), "1");
            assert!(counted("cycle_step_skipped").parse::<u32>().unwrap() >= 3);
            let error = world.sql("SELECT last_error FROM watchers");
            assert!(error.contains("the step 'scan' of an earlier cycle is still under way"), "{error}");
            release.notify_one();
            flow.cycles(2).await;
            assert_eq!(world.sql("SELECT last_error FROM watchers"), "NULL");
        })
        .await;
    });
}

#[test]
fn a_cycle_over_its_budget_is_abandoned_alone() {
    run(async {
        let world = World::new();
        world.airflow.set_variable("rmq_watcher_cycle_timeout", Variable::Set("10".into()));
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            flow.serves("m1").await;
            flow.folder.hang();
            world.until("abandoned", |w| w.sql("SELECT counters ->> 'cycle_timed_out' FROM watchers") == "1").await;
            let error = world.sql("SELECT last_error FROM watchers");
            assert!(error.contains("abandoned in the phase 'scan'"), "{error}");
            flow.serves("m2").await;
        })
        .await;
    });
}

#[test]
fn the_interval_follows_the_variable_and_a_failed_read_keeps_it() {
    run(async {
        let world = World::new();
        let name = "rmq_watcher_reconcile_interval";
        world.airflow.set_variable(name, Variable::Set("7".into()));
        with_flow(&world, Folder::of(declared(&[])), true, async |flow| {
            let interval = || world.sql("SELECT interval_ms FROM watchers");
            flow.cycles(2).await;
            assert_eq!(interval(), "7000");
            world.airflow.set_variable(name, Variable::Unread("Airflow is away".into()));
            flow.cycles(2).await;
            assert_eq!(interval(), "7000");
            world.airflow.set_variable(name, Variable::Set("60.5".into()));
            flow.cycles(2).await;
            assert_eq!(interval(), "60000");
        })
        .await;
    });
}

#[test]
fn a_stop_comes_between_steps_and_waits_for_no_scan() {
    run(async {
        let world = World::new();
        let folder = Folder::of(declared(&[("dag", "orders")]));
        let release = folder.hang();
        let began = Instant::now();
        with_flow(&world, folder, true, async |_| tokio::time::sleep(Duration::from_secs(5)).await).await;
        assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
        assert_eq!(world.sql("SELECT stopped_at_ms IS NULL FROM watchers"), "0");
        drop(release);
    });
}

#[test]
fn a_status_that_the_state_file_refused_is_written_at_a_later_cycle() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            world.until("green", |w| w.status().starts_with("listening")).await;
            world.execute(
                "CREATE TRIGGER full BEFORE UPDATE ON subscription_status BEGIN SELECT raise(ABORT, 'disk full'); END",
            );
            world.airflow.set_dags(stale());
            world.until("consuming was stopped", |w| !w.broker.is_consumed()).await;
            flow.cycles(1).await;
            assert!(world.status().starts_with("listening"), "{}", world.status());
            world.execute("DROP TRIGGER full");
            flow.cycles(1).await;
            assert!(world.status().starts_with("waiting_for_dag: "), "{}", world.status());
            assert_eq!(world.sql("SELECT consumer_tag FROM subscription_status"), "NULL");
        })
        .await;
    });
}
