//! Subscriptions as rows, between a test and the state file.

use rmq_watcher::domain::declaration::{Declaration, Names, Origin, Refusal, RefusalReason};
use rmq_watcher::domain::ids::{DagId, SubscriptionId};
use rmq_watcher::domain::sync::{Row, RowChange, Source};
use rmq_watcher::store::Store;
use rmq_watcher::store::open::{FILE_NAME, open_inline};
use rmq_watcher::store::subscriptions::{Switched, TOMBSTONE_KEPT_MS};
use rmq_watcher::store::sync::{SyncResult, ToWrite, Written};
use rusqlite::Connection;

pub(crate) struct File {
    pub(crate) store: Store,
    pub(crate) dir: tempfile::TempDir,
}

pub(crate) fn run(flow: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(flow);
}

pub(crate) fn declared(dag: &str, line: u32) -> Declaration {
    Declaration::new(dag, "q", "c", Origin { file: format!("{dag}.py"), line, column: 1 }).unwrap()
}

pub(crate) fn insert(dag: &str) -> RowChange {
    RowChange::Insert { declaration: declared(dag, 1) }
}

impl File {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { store: open_inline(dir.path(), 0).unwrap().0, dir }
    }

    pub(crate) async fn sync(&self, changes: Vec<RowChange>, now_ms: i64) -> Vec<Written> {
        let to_write = ToWrite { changes, ..ToWrite::default() };
        match self.store.apply_sync(to_write, || true, now_ms).await.unwrap() {
            SyncResult::Applied(written) => written,
            SyncResult::Superseded => panic!("it is current"),
        }
    }

    pub(crate) async fn rows(&self) -> Vec<Row> {
        self.store.read_subscriptions().await.unwrap()
    }

    pub(crate) async fn row(&self, dag: &str) -> Row {
        self.rows().await.into_iter().find(|row| row.key.dag_id == DagId::new(dag)).unwrap()
    }

    pub(crate) fn sql(&self) -> Connection {
        Connection::open(self.dir.path().join(FILE_NAME)).unwrap()
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.sql().execute_batch(sql).unwrap();
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.sql().query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

#[test]
fn what_is_written_is_read_again_options_and_exchange_included() {
    run(async {
        let file = File::new();
        let mut declaration = declared("d", 4);
        declaration.options = serde_json::from_str(
            r#"{"filter_data":{"filter_headers":{"a":[1,null]}},"exchange":{"name":"e","routing_keys":["a.b"]},"on_paused":"hold"}"#,
        )
        .unwrap();
        file.sync(vec![RowChange::Insert { declaration: declaration.clone() }], 10).await;
        let row = file.row("d").await;
        assert_eq!((row.key.clone(), &row.options), (declaration.key(), &declaration.options));
        assert_eq!((row.origin.as_str(), row.origin_file.as_str(), row.source), ("d.py:4:1", "d.py", Source::DagFile));
        assert_eq!((row.created_at_ms, row.updated_at_ms, row.absent_cycles), (10, 10, 0));
        assert!(row.should_run());
    });
}

#[test]
fn a_row_that_cannot_be_understood_is_invalid_and_hides_no_other() {
    run(async {
        let file = File::new();
        file.sync(["a", "b", "c", "d"].map(insert).into(), 10).await;
        file.execute(
            "UPDATE subscriptions SET options = 'no json' WHERE dag_id = 'a'; \
             UPDATE subscriptions SET options = '{\"unheard_of\": 1}' WHERE dag_id = 'b'; \
             UPDATE subscriptions SET dag_id = 'c c', source = 'ui' WHERE dag_id = 'c'",
        );
        let rows = file.rows().await;
        let reasons: Vec<_> = rows.iter().map(|row| row.invalid.clone().unwrap_or_default()).collect();
        assert!(reasons[0].starts_with("the options in its row cannot be used: expected"), "{reasons:?}");
        assert!(reasons[1].contains("unheard_of"), "{reasons:?}");
        assert_eq!(&reasons[2..], ["its row cannot be used: `dag_id` must not hold ' '", ""]);
        assert_eq!(rows.iter().filter(|row| row.should_run()).count(), 1);
    });
}

#[test]
fn values_that_no_program_of_ours_writes_hide_no_other_row_and_stop_no_backup() {
    run(async {
        let file = File::new();
        file.sync(["a", "b", "c"].map(insert).into(), 10).await;
        file.execute(
            "UPDATE subscriptions SET absent_cycles = -1 WHERE dag_id = 'a'; \
             UPDATE subscriptions SET dag_id = CAST(x'62ff' AS TEXT), invalid = CAST(x'ff' AS TEXT) WHERE dag_id = 'b'; \
             UPDATE subscriptions SET absent_cycles = 9223372036854775807 WHERE dag_id = 'c'",
        );
        let rows = file.rows().await;
        assert_eq!(rows.iter().map(|row| row.absent_cycles).collect::<Vec<_>>(), [0, 0, 0]);
        assert_eq!(rows.iter().filter(|row| row.should_run()).count(), 2);
        file.store.set_enabled(SubscriptionId(3), false, 11).await.unwrap();
        assert_eq!(std::fs::read_dir(file.dir.path().join("backup")).unwrap().count(), 2);
    });
}

#[test]
fn bytes_that_are_no_text_in_any_other_table_fail_neither_a_sync_nor_a_load() {
    run(async {
        let file = File::new();
        let refusal = Refusal {
            origin: declared("d", 3).origin,
            dag_id: None,
            parameter: None,
            names: Names::Unknown,
            reason: RefusalReason::NoQueue,
        };
        let scan = || ToWrite { refusals: vec![refusal.clone()], ..ToWrite::default() };
        file.store.apply_sync(scan(), || true, 1).await.unwrap();
        file.store.seen_unpaused(["a", "b"].map(DagId::new).into(), 1).await.unwrap();
        file.execute(
            "UPDATE refusals SET origin = CAST(x'ff' AS TEXT), dag_id = CAST(x'62ff' AS TEXT), sentence = CAST(x'ff' AS TEXT); \
             UPDATE dags SET dag_id = CAST(x'62ff' AS TEXT) WHERE dag_id = 'b'; \
             UPDATE scan_baseline SET baseline = CAST(x'7bff' AS TEXT)",
        );
        assert!(file.store.load_seen_unpaused().await.unwrap().contains(&DagId::new("a")));
        assert_eq!(file.store.load_baseline().await.unwrap(), None);
        file.store.apply_sync(scan(), || true, 2).await.unwrap();
        assert_eq!(file.number("SELECT count(*) FROM refusals WHERE origin = 'd.py:3:1' AND dag_id IS NULL"), 1);
    });
}

#[test]
fn a_switch_is_kept_and_times_never_go_back() {
    run(async {
        let file = File::new();
        file.sync(vec![insert("d")], 1_000).await;
        let id = file.row("d").await.id;
        assert_eq!(file.store.set_enabled(id, true, 5).await.unwrap(), Switched::AlreadySo);
        assert_eq!(file.store.set_enabled(id, false, 5).await.unwrap(), Switched::Done);
        let row = file.row("d").await;
        assert_eq!((row.enabled, row.updated_at_ms), (false, 1_001));
        assert_eq!(file.store.set_enabled(id, true, 5_000).await.unwrap(), Switched::Done);
        assert_eq!(file.row("d").await.updated_at_ms, 5_000);
        assert_eq!(file.store.set_enabled(SubscriptionId(99), true, 5).await.unwrap(), Switched::Unknown);
    });
}

#[test]
fn a_deleted_subscription_cannot_be_switched() {
    run(async {
        let file = File::new();
        file.sync(vec![insert("d")], 0).await;
        let id = file.row("d").await.id;
        file.sync(vec![RowChange::Delete { id, absent_cycles: 0, only_enabled: false }], 1).await;
        assert_eq!(file.store.set_enabled(id, false, 5).await.unwrap(), Switched::Unknown);
        assert!(file.row("d").await.enabled);
    });
}

#[test]
fn tombstones_are_kept_for_ninety_days_and_then_removed_in_small_steps() {
    run(async {
        let file = File::new();
        file.sync((0..250).map(|n| insert(&format!("d{n}"))).collect(), 0).await;
        file.execute("UPDATE subscriptions SET deleted_at_ms = 1000 WHERE id > 1");
        let now_ms = 1_000 + TOMBSTONE_KEPT_MS;
        assert_eq!(file.store.prune_tombstones(now_ms).await.unwrap(), 0);
        let mut steps = Vec::new();
        for _ in 0..4 {
            steps.push(file.store.prune_tombstones(now_ms + 1).await.unwrap());
        }
        assert_eq!(steps, [100, 100, 49, 0]);
        assert_eq!(file.rows().await.len(), 1, "what is not deleted stays");
        file.sync(vec![insert("new")], 0).await;
        assert_eq!(file.row("new").await.id, SubscriptionId(251), "no id is given twice");
    });
}
