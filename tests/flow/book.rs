//! Asking Airflow about many DAGs: one by one, by the list, and not at all while nobody needs it.

use std::collections::BTreeSet;
use std::time::Duration;

use rmq_watcher::domain::ids::DagId;
use rmq_watcher::domain::outcome::DagLookup;
use rmq_watcher::pipeline::{DagBook, read_dags};
use tokio::time::{Instant, sleep};

use crate::fake_airflow::{dag, stale, unwell};
use crate::world::{World, context, limits, run};

fn ids(count: usize) -> BTreeSet<DagId> {
    (0..count).map(|n| DagId::new(format!("d{n}"))).collect()
}

fn active(book: &DagBook, n: usize) -> Option<bool> {
    book.is_active(&DagId::new(format!("d{n}")), 0)
}

#[test]
fn few_dags_are_asked_for_one_by_one_and_at_once() {
    run(async {
        let world = World::new();
        world.airflow.set_thinking(Duration::from_secs(1));
        let context = context(world.dir.path(), &world.airflow, limits());
        let start = Instant::now();
        read_dags(&context, &ids(8)).await;
        // Half of the four places among the requests under way: deliveries need places too.
        assert_eq!(start.elapsed(), Duration::from_secs(4));
        assert_eq!((world.airflow.asked().len(), world.airflow.lists()), (8, 0));
        assert!((0..8).all(|n| active(&context.dags, n) == Some(true)));
    });
}

#[test]
fn many_dags_are_read_from_the_list_and_only_the_others_by_themselves() {
    run(async {
        let world = World::new();
        for n in 0..50 {
            world.airflow.set_dag(&format!("d{n}"), if n == 7 { stale() } else { dag(n == 8) });
        }
        world.airflow.set_dags(DagLookup::Absent);
        let context = context(world.dir.path(), &world.airflow, limits());
        read_dags(&context, &ids(52)).await;
        assert_eq!((world.airflow.lists(), world.airflow.asked()), (1, vec!["d50".to_owned(), "d51".to_owned()]));
        assert_eq!([7, 8, 9, 50].map(|n| active(&context.dags, n)), [Some(false), Some(true), Some(true), None]);
        sleep(Duration::from_secs(5)).await;
        read_dags(&context, &ids(52)).await;
        assert_eq!(active(&context.dags, 50), Some(false), "absent twice by its own answer");
    });
}

#[test]
fn a_broken_list_and_failed_answers_take_nothing_away() {
    run(async {
        let world = World::new();
        let context = context(world.dir.path(), &world.airflow, limits());
        (0..20).for_each(|n| world.airflow.set_dag(&format!("d{n}"), dag(false)));
        read_dags(&context, &ids(20)).await;
        (10..20).for_each(|n| world.airflow.set_dag(&format!("d{n}"), unwell()));
        world.airflow.break_list("a page was refused");
        let watched = context.dags.watch(&DagId::new("d15"));
        for _ in 0..5 {
            read_dags(&context, &ids(20)).await;
        }
        assert!((0..20).all(|n| active(&context.dags, n) == Some(true)));
        assert!(!watched.has_changed().unwrap(), "a failed read wakes nobody");
    });
}

#[test]
fn with_nobody_waiting_nothing_is_asked() {
    run(async {
        let world = World::new();
        world.start();
        world.until("green", |w| w.status().starts_with("listening")).await;
        sleep(Duration::from_secs(7200)).await;
        assert_eq!(world.airflow.asked().len(), 1);
    });
}
