//! The watcher's own row, what is known of connections and of DAGs.

use rmq_watcher::domain::ids::{ConnId, DagId};
use rmq_watcher::domain::outcome::Dialect;
use rmq_watcher::domain::status::ConnectionStatus;
use rmq_watcher::store::watcher::{CycleEnded, Started};

use crate::rows::{File, run};

fn started(pid: u32) -> Started {
    Started { hostname: "h".into(), pid, version: "0.2.0".into(), interval_ms: 60_000, budget_ms: 300_000 }
}

fn watcher(file: &File) -> String {
    let sql = "SELECT concat_ws(' ', hostname, pid, version, started_at_ms, ifnull(last_cycle_at_ms, '-'), interval_ms, budget_ms, \
               ifnull(last_error, '-'), counters, ifnull(stopped_at_ms, '-')) FROM watchers";
    file.sql().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn the_watchers_row_says_who_runs_when_the_last_cycle_ended_and_that_it_stopped() {
    run(async {
        let file = File::new();
        file.store.watcher_started(started(7), 1).await;
        assert_eq!(watcher(&file), "h 7 0.2.0 1 - 60000 300000 - {} -");
        let cycle = CycleEnded {
            interval_ms: 5_000,
            budget_ms: 60_000,
            last_error: Some("Airflow did not answer".into()),
            counters: r#"{"cycle_completed":1}"#.into(),
        };
        file.store.cycle_ended(cycle.clone(), 2).await;
        assert_eq!(watcher(&file), r#"h 7 0.2.0 1 2 5000 60000 Airflow did not answer {"cycle_completed":1} -"#);
        file.store.cycle_ended(CycleEnded { last_error: None, ..cycle }, 3).await;
        assert!(watcher(&file).contains(" 3 5000 60000 - "), "an error that is over is over");
        file.store.watcher_stopped(4).await;
        assert!(watcher(&file).ends_with(" 4"));
        file.store.watcher_started(started(8), 5).await;
        assert_eq!(watcher(&file), "h 8 0.2.0 5 - 60000 300000 - {} -", "nothing is left of the one before");
    });
}

#[test]
fn the_airflow_that_answered_last_is_remembered() {
    run(async {
        let file = File::new();
        assert_eq!(file.store.load_airflow().await.unwrap(), None);
        for (dialect, now_ms) in [(Dialect::V1, 1), (Dialect::V2, 2), (Dialect::V1, 3)] {
            file.store.airflow_answered(dialect, now_ms).await;
            assert_eq!(file.store.load_airflow().await.unwrap(), Some(dialect));
        }
        let again = rmq_watcher::store::open::open_inline(file.dir.path(), 9).unwrap().0;
        assert_eq!(again.load_airflow().await.unwrap(), Some(Dialect::V1), "at the next start");
    });
}

#[test]
fn a_cycle_of_a_connection_counts_its_consumers_and_leaves_it_connected_while_there_is_one() {
    run(async {
        let file = File::new();
        let conn = || ConnId::new("c");
        let row = |file: &File| -> String {
            let sql = "SELECT concat_ws(' ', status, consumer_count, last_reconcile_at_ms, updated_at_ms) FROM connection_status";
            file.sql().query_row(sql, [], |row| row.get(0)).unwrap()
        };
        file.store.connection_cycle(conn(), 0, 10).await;
        assert_eq!(row(&file), "unknown 0 10 10", "nobody has said how it is");
        file.store.set_connection_status(conn(), ConnectionStatus::Connected, None, 20).await;
        file.store.connection_cycle(conn(), 3, 30).await;
        assert_eq!(row(&file), "connected 3 30 30");
        file.store.connection_cycle(conn(), 3, 40).await;
        assert_eq!(row(&file), "connected 3 40 30", "nothing but the time of the look has changed");
        file.store.connection_cycle(conn(), 0, 50).await;
        assert_eq!(row(&file), "unknown 0 50 50", "nothing says any more that it stands");
        file.store.set_connection_status(conn(), ConnectionStatus::Connected, None, 60).await;
        file.store.connection_cycle(conn(), 0, 70).await;
        assert_eq!(row(&file), "unknown 0 70 70", "also where none was counted before");
        file.store.set_connection_status(conn(), ConnectionStatus::Error, Some("down".into()), 80).await;
        file.store.connection_cycle(conn(), 0, 90).await;
        assert_eq!(row(&file), "error 0 90 80", "an error is not over by having no consumer");
    });
}

#[test]
fn a_connection_that_nobody_uses_is_not_known_any_more() {
    run(async {
        let file = File::new();
        let rows = |file: &File| -> String {
            let sql = "SELECT group_concat(concat_ws(' ', conn_id, status, consumer_count, updated_at_ms), ', ') FROM \
                       (SELECT * FROM connection_status ORDER BY conn_id)";
            file.sql().query_row(sql, [], |row| row.get(0)).unwrap()
        };
        for (name, status) in
            [("a", ConnectionStatus::Connected), ("b", ConnectionStatus::Error), ("c'\"", ConnectionStatus::Connected)]
        {
            file.store.set_connection_status(ConnId::new(name), status, None, 1).await;
            file.store.connection_cycle(ConnId::new(name), 2, 2).await;
        }
        file.store.connections_left([ConnId::new("c'\"")].into(), 3).await;
        assert_eq!(rows(&file), "a unknown 0 3, b unknown 0 3, c'\" connected 2 2");
        file.store.connections_left([ConnId::new("c'\"")].into(), 4).await;
        assert_eq!(rows(&file), "a unknown 0 3, b unknown 0 3, c'\" connected 2 2", "nothing has changed");
        file.store.connections_left([].into(), 5).await;
        assert_eq!(rows(&file), "a unknown 0 3, b unknown 0 3, c'\" unknown 0 5");
    });
}

#[test]
fn dags_that_were_seen_unpaused_are_known_for_ever() {
    run(async {
        let file = File::new();
        let dags = |names: &[&str]| names.iter().map(|name| DagId::new(*name)).collect::<Vec<_>>();
        assert!(file.store.load_seen_unpaused().await.unwrap().is_empty());
        file.store.seen_unpaused(dags(&["a", "b"]), 1).await.unwrap();
        file.store.seen_unpaused(dags(&["b", "c", "c"]), 2).await.unwrap();
        assert_eq!(file.store.load_seen_unpaused().await.unwrap(), dags(&["a", "b", "c"]).into_iter().collect());
        assert_eq!(file.number("SELECT seen_unpaused_at_ms FROM dags WHERE dag_id = 'b'"), 1, "the first time is kept");
    });
}
