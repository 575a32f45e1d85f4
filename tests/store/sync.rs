//! What a scan changes, in one transaction and each row under its own condition.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmq_watcher::domain::declaration::{Names, Origin, Refusal, RefusalReason};
use rmq_watcher::domain::ids::{DagId, SubscriptionId};
use rmq_watcher::domain::status::SubscriptionStatus;
use rmq_watcher::domain::subscription::Key;
use rmq_watcher::domain::sync::{RowChange, Scanned, plan};
use rmq_watcher::domain::trust::Baseline;
use rmq_watcher::store::StoreError;
use rmq_watcher::store::open::open_inline;
use rmq_watcher::store::sync::{SyncResult, ToWrite, Written};

use crate::rows::{File, declared, insert, run};

const ID: SubscriptionId = SubscriptionId(1);

fn miss(absent_cycles: u32) -> RowChange {
    RowChange::Miss { id: ID, absent_cycles }
}

fn delete(absent_cycles: u32, only_enabled: bool) -> RowChange {
    RowChange::Delete { id: ID, absent_cycles, only_enabled }
}

async fn with_one() -> File {
    let file = File::new();
    file.sync(vec![insert("d")], 0).await;
    file
}

#[test]
fn a_miss_is_counted_only_where_the_counter_is_the_one_that_was_read() {
    run(async {
        let file = with_one().await;
        assert_eq!(
            file.sync(vec![miss(0), miss(0), miss(1), miss(3)], 9).await,
            [Written::Done, Written::Stale, Written::Done, Written::Stale]
        );
        assert_eq!(file.row("d").await.absent_cycles, 2);
        let reset = |absent_cycles| RowChange::Reset { id: ID, absent_cycles };
        assert_eq!(file.sync(vec![reset(1), reset(2)], 9).await, [Written::Stale, Written::Done]);
        assert_eq!(file.row("d").await.absent_cycles, 0);
    });
}

#[test]
fn a_row_that_recovered_meanwhile_is_not_deleted() {
    run(async {
        let file = with_one().await;
        assert_eq!(file.sync(vec![delete(3, false)], 9).await, [Written::Stale]);
        assert!(!file.row("d").await.is_tombstone());
    });
}

#[test]
fn a_row_that_was_disabled_meanwhile_is_out_of_reach_of_the_early_deletion() {
    run(async {
        let file = with_one().await;
        file.sync(vec![miss(0), miss(1)], 9).await;
        file.store.set_enabled(ID, false, 9).await.unwrap();
        assert_eq!(file.sync(vec![delete(2, true)], 9).await, [Written::Stale]);
        assert_eq!(file.sync(vec![delete(2, false)], 9).await, [Written::Done]);
    });
}

#[test]
fn a_deleted_row_loses_its_status_and_keeps_id_and_flag_for_its_return_after_a_restart() {
    run(async {
        let file = with_one().await;
        let listening = SubscriptionStatus::Listening;
        file.store.set_subscription_status(ID, listening, None, None, 5).await;
        file.store.set_enabled(ID, false, 6).await.unwrap();
        file.sync(vec![delete(0, false)], 9).await;
        assert_eq!(file.number("SELECT count(*) FROM subscription_status"), 0);
        let tombstone = file.row("d").await;
        assert_eq!((tombstone.deleted_at_ms, tombstone.enabled), (Some(9), false));

        let reopened = File { store: open_inline(file.dir.path(), 0).unwrap().0, dir: file.dir };
        let rows = reopened.rows().await;
        let declarations = [declared("d", 7)];
        let scanned = Scanned {
            declarations: &declarations,
            refusals: &[],
            failing: &Default::default(),
            unreadable_directories: &[],
            bundles: &[],
        };
        let planned = plan(&rows, scanned, None, true);
        reopened.sync(planned.changes.into_iter().map(|change| change.act).collect(), 20).await;
        let row = reopened.row("d").await;
        assert_eq!((row.id, row.enabled, row.deleted_at_ms, row.absent_cycles), (ID, false, None, 0));
        assert_eq!(row.origin, "d.py:7:1");
    });
}

#[test]
fn rows_made_by_hand_are_out_of_reach_of_every_change_of_a_scan() {
    run(async {
        let file = with_one().await;
        file.execute("UPDATE subscriptions SET source = 'ui'");
        let before = file.rows().await;
        let changes = vec![
            insert("d"),
            RowChange::Update { id: ID, declaration: declared("d", 9) },
            RowChange::Invalidate { id: ID, reason: "no".into() },
            RowChange::Revive { id: ID, declaration: declared("d", 9) },
            miss(0),
            RowChange::Reset { id: ID, absent_cycles: 0 },
            delete(0, false),
        ];
        assert_eq!(file.sync(changes, 9).await, vec![Written::Stale; 7]);
        assert_eq!(file.rows().await, before);
    });
}

#[test]
fn an_update_clears_what_was_invalid_and_leaves_flag_id_and_counter() {
    run(async {
        let file = with_one().await;
        file.store.set_enabled(ID, false, 1).await.unwrap();
        file.sync(vec![RowChange::Invalidate { id: ID, reason: "no".into() }, miss(0)], 2).await;
        assert_eq!(file.row("d").await.invalid.as_deref(), Some("no"));
        let mut declaration = declared("d", 9);
        declaration.options.cooldown = 7;
        file.sync(vec![RowChange::Update { id: ID, declaration }], 3).await;
        let row = file.row("d").await;
        assert_eq!((row.invalid, row.options.cooldown, row.enabled, row.absent_cycles), (None, 7, false, 1));
        assert_eq!((row.origin.as_str(), row.updated_at_ms), ("d.py:9:1", 4));
    });
}

#[test]
fn a_value_that_the_file_refuses_stops_no_other_row() {
    run(async {
        let file = File::new();
        file.execute(
            "CREATE TRIGGER poison BEFORE INSERT ON subscriptions WHEN NEW.dag_id = 'poison' \
             BEGIN SELECT RAISE(ABORT, 'not this one'); END",
        );
        let written = file.sync(vec![insert("a"), insert("poison"), insert("b")], 1).await;
        assert_eq!(written, [Written::Done, Written::Refused("not this one".into()), Written::Done]);
        assert_eq!(file.rows().await.len(), 2);
    });
}

#[test]
fn a_sync_that_was_overtaken_leaves_nothing_of_itself() {
    run(async {
        let file = with_one().await;
        let before = (file.rows().await, file.store.load_baseline().await.unwrap());
        let asked = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&asked);
        let to_write = ToWrite {
            changes: vec![insert("other"), delete(0, false)],
            refusals: vec![refusal("a.py", 1, Names::Unknown)],
            baseline: Baseline { mark: 77, ..Baseline::default() },
        };
        let is_current = move || {
            flag.store(true, Ordering::Relaxed);
            false
        };
        assert_eq!(file.store.apply_sync(to_write, is_current, 9).await.unwrap(), SyncResult::Superseded);
        assert!(asked.load(Ordering::Relaxed));
        assert_eq!((file.rows().await, file.store.load_baseline().await.unwrap()), before);
        assert_eq!(file.number("SELECT count(*) FROM refusals"), 0);
        file.sync(vec![insert("other")], 9).await;
        assert_eq!(file.rows().await.len(), 2, "the file is usable after that");
    });
}

#[test]
fn a_file_that_takes_nothing_takes_nothing_of_a_sync() {
    run(async {
        let file = with_one().await;
        file.execute("DROP TABLE refusals");
        let to_write = ToWrite {
            changes: vec![insert("other")],
            refusals: vec![refusal("a.py", 1, Names::Unknown)],
            ..ToWrite::default()
        };
        let error = file.store.apply_sync(to_write, || true, 9).await.err();
        assert!(matches!(error, Some(StoreError::Sql { .. })), "{error:?}");
        assert_eq!(file.rows().await.len(), 1);
    });
}

#[test]
fn the_baseline_is_kept_and_one_that_cannot_be_understood_is_begun_anew() {
    run(async {
        let file = File::new();
        assert_eq!(file.store.load_baseline().await.unwrap(), None);
        let baseline = Baseline {
            mark: 9,
            distrusted: 2,
            nothing_readable_believed: true,
            believed: true,
            failing: [("a.py".to_owned(), 2)].into(),
            unreadable: vec![],
            counted_at_ms: 7,
        };
        file.store.save_baseline(baseline.clone(), 5).await.unwrap();
        assert_eq!(file.store.load_baseline().await.unwrap(), Some(baseline.clone()));
        file.store.save_baseline(baseline, 6).await.unwrap();
        assert_eq!(file.number("SELECT updated_at_ms FROM scan_baseline"), 5, "nothing new is not written");
        file.execute("UPDATE scan_baseline SET baseline = 'no json'");
        assert_eq!(file.store.load_baseline().await.unwrap(), None);
    });
}

fn refusal(file: &str, line: u32, names: Names) -> Refusal {
    let origin = Origin { file: file.to_owned(), line, column: 1 };
    Refusal { origin, dag_id: Some(DagId::new("d")), parameter: None, reason: RefusalReason::NoQueue, names }
}

impl File {
    async fn refuse(&self, refusals: Vec<Refusal>, now_ms: i64) {
        let to_write = ToWrite { refusals, ..ToWrite::default() };
        self.store.apply_sync(to_write, || true, now_ms).await.unwrap();
    }

    fn refusals(&self) -> Vec<String> {
        let sql = "SELECT concat_ws(' ', origin, ifnull(dag_id, '-'), ifnull(queue, '-'), reason, since_ms) FROM refusals ORDER BY id";
        let connection = self.sql();
        let mut rows = connection.prepare(sql).unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

#[test]
fn refusals_are_replaced_and_equal_ones_keep_their_time_though_their_line_moved() {
    run(async {
        let file = File::new();
        file.refuse(vec![refusal("a.py", 1, Names::Unknown), refusal("b.py", 1, Names::Unknown)], 10).await;
        assert_eq!(file.refusals(), ["a.py:1:1 d - no_queue 10", "b.py:1:1 d - no_queue 10"]);
        file.refuse(vec![refusal("a.py", 4, Names::Unknown), refusal("c.py", 1, Names::Unknown)], 20).await;
        assert_eq!(file.refusals(), ["a.py:4:1 d - no_queue 10", "c.py:1:1 d - no_queue 20"]);
        file.refuse(vec![refusal("a.py", 4, Names::Unknown); 2], 30).await;
        assert_eq!(file.refusals(), ["a.py:4:1 d - no_queue 10", "a.py:4:1 d - no_queue 30"]);
        file.refuse(Vec::new(), 40).await;
        assert_eq!(file.refusals(), [""; 0]);
    });
}

#[test]
fn a_refusal_has_a_row_for_each_subscription_it_names() {
    run(async {
        let file = File::new();
        let keys = [("d", "q1"), ("d", "q2")].map(|(dag, queue)| {
            let declaration = declared(dag, 1);
            Key { queue: rmq_watcher::domain::ids::QueueName::new(queue), ..declaration.key() }
        });
        file.refuse(vec![refusal("a.py", 1, Names::Keys(keys.into()))], 10).await;
        assert_eq!(file.refusals(), ["a.py:1:1 d q1 no_queue 10", "a.py:1:1 d q2 no_queue 10"]);
    });
}

#[test]
fn a_cycle_in_which_nothing_happens_writes_nothing() {
    run(async {
        let file = with_one().await;
        file.refuse(vec![refusal("a.py", 1, Names::Unknown)], 10).await;
        // Counts the changes that any connection commits to the file.
        let version = |connection: &rusqlite::Connection| -> i64 {
            connection.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap()
        };
        let reader = file.sql();
        let before = version(&reader);
        file.refuse(vec![refusal("a.py", 1, Names::Unknown)], 99).await;
        file.store.prune_tombstones(99).await.unwrap();
        assert_eq!(version(&reader), before);
        file.refuse(Vec::new(), 99).await;
        assert_ne!(version(&reader), before, "the measure is one");
    });
}
