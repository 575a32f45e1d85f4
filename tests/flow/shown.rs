//! What the control flow records for people who look.

use rmq_watcher::domain::declaration::{FileProblem, FileProblemKind};
use rmq_watcher::ports::Declared;

use crate::fake_airflow::dag;
use crate::flowing::{Folder, declared, with_flow};
use crate::world::{World, run};

#[test]
fn a_connection_is_connected_while_a_consumer_is_held_over_it_and_no_longer() {
    run(async {
        let world = World::new();
        with_flow(&world, Folder::of(declared(&[("dag", "orders")])), true, async |flow| {
            let says = |wanted: &'static str| {
                let sql = "SELECT status || ' ' || consumer_count FROM connection_status";
                world.until(wanted, move |w| w.sql(sql) == wanted)
            };
            says("connected 1").await;
            world.airflow.set_dag("dag", dag(true));
            world.until("paused", |w| w.status().starts_with("paused_dag")).await;
            says("unknown 0").await;
            world.airflow.set_dag("dag", dag(false));
            says("connected 1").await;
            flow.folder.set(declared(&[]));
            world.until("deleted", |_| flow.rows() == "0").await;
            says("unknown 0").await;
        })
        .await;
    });
}

#[test]
fn what_a_scan_could_not_read_is_recorded_until_it_can_be_read() {
    run(async {
        let world = World::new();
        let problem = FileProblem {
            file: "broken.py".into(),
            line: Some(3),
            kind: FileProblemKind::Syntax,
            text: "invalid syntax".into(),
        };
        let broken = Declared { unreadable: vec![problem], listed: 11, ..declared(&[("dag", "orders")]).unwrap() };
        with_flow(&world, Folder::of(Ok(broken)), true, async |flow| {
            let says = |wanted: &'static str| {
                let sql = "SELECT json_extract(baseline, '$.unreadable') FROM scan_baseline";
                world.until(wanted, move |w| w.sql(sql) == wanted)
            };
            says(r#"[{"file":"broken.py","kind":"syntax","sentence":"broken.py:3: invalid syntax"}]"#).await;
            flow.folder.touch(declared(&[("dag", "orders")]));
            says("[]").await;
        })
        .await;
    });
}
