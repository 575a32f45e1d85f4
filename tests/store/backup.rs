//! Backups of the subscriptions, and a broken file that is begun anew with one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rmq_watcher::domain::ids::SubscriptionId;
use rmq_watcher::domain::sync::{Row, RowChange};
use rmq_watcher::store::open::{FILE_NAME, Opened, open, open_inline};
use rmq_watcher::store::sync::ToWrite;
use rmq_watcher::store::{Restored, StoreError};
use rusqlite::Connection;

use crate::rows::{File, insert, run};

fn backups(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir.join("backup")) else { return Vec::new() };
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn names(dir: &Path) -> Vec<String> {
    backups(dir).iter().map(|path| path.file_stem().unwrap().to_str().unwrap().replace("subscriptions-", "")).collect()
}

fn spoil(dir: &Path) {
    for tail in ["-wal", "-shm"] {
        drop(fs::remove_file(dir.join(format!("{FILE_NAME}{tail}"))));
    }
    fs::write(dir.join(FILE_NAME), "this is no database").unwrap();
}

/// Opens the broken file; returns what it was begun with.
fn reopen(dir: tempfile::TempDir) -> (File, Restored) {
    spoil(dir.path());
    let (store, opened) = open_inline(dir.path(), 77).unwrap();
    assert!(opened.moved_aside.is_some());
    (File { store, dir }, opened.restored.expect("it was begun anew"))
}

#[test]
fn every_change_of_a_subscription_is_backed_up_and_nothing_else_is() {
    run(async {
        let file = File::new();
        let dir = file.dir.path();
        assert_eq!(names(dir), [""; 0], "there is nothing to save");
        file.sync(vec![insert("a")], 1).await;
        assert_eq!(names(dir), ["000001"]);
        file.sync(vec![insert("a")], 2).await;
        file.sync(Vec::new(), 3).await;
        file.store.set_enabled(SubscriptionId(1), true, 4).await.unwrap();
        file.store.apply_sync(ToWrite { changes: vec![insert("b")], ..ToWrite::default() }, || false, 5).await.unwrap();
        assert_eq!(names(dir), ["000001"], "nothing was changed");
        file.store.set_enabled(SubscriptionId(1), false, 6).await.unwrap();
        file.sync(vec![RowChange::Miss { id: SubscriptionId(1), absent_cycles: 0 }], 7).await;
        assert_eq!(names(dir), ["000001", "000002", "000003"]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir.join("backup")), mode(&backups(dir)[0])), (0o700, 0o600));
    });
}

#[test]
fn the_newest_five_are_kept() {
    run(async {
        let file = File::new();
        for n in 0..12 {
            file.sync(vec![insert(&format!("d{n}"))], n).await;
        }
        assert_eq!(names(file.dir.path()), ["000008", "000009", "000010", "000011", "000012"]);
    });
}

#[test]
fn a_broken_file_is_begun_anew_with_ids_flags_and_tombstones() {
    run(async {
        let file = File::new();
        file.sync(["a", "b", "c"].map(insert).into(), 1).await;
        file.store.set_enabled(SubscriptionId(2), false, 2).await.unwrap();
        file.sync(vec![RowChange::Delete { id: SubscriptionId(3), absent_cycles: 0, only_enabled: false }], 3).await;
        let before = file.rows().await;
        let (file, restored) = reopen(file.dir);
        assert_eq!(
            (restored.subscriptions, restored.backup.as_deref()),
            (3, backups(file.dir.path()).last().map(|p| &**p))
        );
        assert_eq!(file.rows().await, before);
        let sql = "SELECT count(*) FROM restorations WHERE restored_at_ms = 77 AND backup = 'subscriptions-000003.json' \
                   AND subscriptions = 3 AND moved_aside LIKE '%state.db.broken-77'";
        assert_eq!(file.number(sql), 1, "the ledger's past is marked as lost");
        assert_eq!(names(file.dir.path()).len(), 3, "nothing has changed since");
        file.sync(vec![insert("d")], 99).await;
        assert_eq!(file.row("d").await.id, SubscriptionId(4));
    });
}

#[test]
fn a_backup_that_cannot_be_read_is_passed_over_for_the_one_before() {
    run(async {
        let file = File::new();
        file.sync(vec![insert("a")], 1).await;
        file.sync(vec![insert("b")], 2).await;
        file.sync(vec![insert("c")], 3).await;
        let there = backups(file.dir.path());
        fs::write(&there[2], "").unwrap();
        let text = fs::read_to_string(&there[1]).unwrap();
        fs::write(&there[1], text.replace("\"version\": 1", "\"version\": 2")).unwrap();
        let (file, restored) = reopen(file.dir);
        assert_eq!(restored, Restored { backup: Some(there[0].clone()), subscriptions: 1 });
        assert_eq!(file.rows().await.len(), 1);
    });
}

#[test]
fn without_a_backup_a_broken_file_is_begun_empty_and_marked() {
    run(async {
        let (file, restored) = reopen(tempfile::tempdir().unwrap());
        assert_eq!(restored, Restored { backup: None, subscriptions: 0 });
        assert_eq!(file.number("SELECT count(*) FROM restorations WHERE backup IS NULL AND subscriptions = 0"), 1);
    });
}

/// A state directory with a backup of three subscriptions, the second of them switched off; what they are.
async fn with_backups() -> (tempfile::TempDir, Vec<Row>) {
    let file = File::new();
    file.sync(["a", "b", "c"].map(insert).into(), 1).await;
    file.store.set_enabled(SubscriptionId(2), false, 2).await.unwrap();
    let rows = file.rows().await;
    (file.dir, rows)
}

fn open_again(dir: tempfile::TempDir) -> (File, Opened) {
    let (store, opened) = open_inline(dir.path(), 77).unwrap();
    (File { store, dir }, opened)
}

#[test]
fn a_file_without_content_is_a_broken_one() {
    let empty = |path: &Path| fs::write(path, "").unwrap();
    let without_version = |path: &Path| {
        fs::remove_file(path).unwrap();
        Connection::open(path).unwrap().execute_batch("PRAGMA journal_mode = WAL; VACUUM").unwrap();
        assert!(fs::metadata(path).unwrap().len() > 0);
    };
    for cut in [&empty as &dyn Fn(&Path), &without_version] {
        run(async {
            let (dir, before) = with_backups().await;
            cut(&dir.path().join(FILE_NAME));
            let (file, opened) = open_again(dir);
            assert!(opened.moved_aside.is_some_and(|aside| aside.exists()));
            assert_eq!(opened.restored.unwrap().subscriptions, 3);
            assert_eq!(file.rows().await, before);
            for n in 0..6 {
                file.sync(vec![insert(&format!("d{n}"))], 100 + n).await;
            }
            assert_eq!(file.row("b").await, before[1], "what later changes save has it too");
        });
    }
}

#[test]
fn a_missing_file_is_begun_with_the_backup_and_marked_and_a_first_one_is_not() {
    run(async {
        let (dir, before) = with_backups().await;
        fs::remove_file(dir.path().join(FILE_NAME)).unwrap();
        let (file, opened) = open_again(dir);
        assert_eq!((opened.moved_aside, opened.restored.map(|restored| restored.subscriptions)), (None, Some(3)));
        assert_eq!(file.rows().await, before);
        let marked =
            "SELECT count(*) FROM restorations WHERE moved_aside = '' AND backup = 'subscriptions-000002.json'";
        assert_eq!(file.number(marked), 1);
        let (file, opened) = open_again(file.dir);
        assert_eq!((opened.restored, file.number(marked)), (None, 1), "once");

        let (file, opened) = open_again(tempfile::tempdir().unwrap());
        assert_eq!((opened.restored, file.number("SELECT count(*) FROM restorations")), (None, 0));
    });
}

#[test]
fn a_beginning_that_was_killed_is_begun_again() {
    run(async {
        let (dir, before) = with_backups().await;
        let path = |name: &str| dir.path().join(name);
        // The broken file had been moved, what belongs to it not yet; the new one was half written, or of other rows.
        fs::remove_file(path(FILE_NAME)).unwrap();
        let other = File::new();
        other.sync(vec![insert("other")], 1).await;
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)");
        other.sync(vec![insert("another")], 2).await;
        for (from, to) in
            [("state.db-wal", "state.db-wal"), ("state.db", "state.db.new"), ("state.db-wal", "state.db.new-journal")]
        {
            fs::copy(other.dir.path().join(from), path(to)).unwrap();
        }
        assert!(fs::metadata(path("state.db-wal")).unwrap().len() > 0);
        let (file, opened) = open_again(dir);
        assert_eq!(opened.restored.unwrap().subscriptions, 3);
        assert_eq!(file.rows().await, before);
        let left = fs::read_dir(file.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!left.into_iter().any(|name| name.to_string_lossy().contains(".new")));
    });
}

const ON_A_FULL_DISK: &str = "STATE_DIR_ON_A_FULL_DISK";

#[test]
fn on_a_full_disk_a_broken_file_waits_in_its_place_for_the_whole_restoration() {
    if let Some(dir) = std::env::var_os(ON_A_FULL_DISK) {
        // The second process, whose files may not grow: what is to be done fails in the middle.
        let error = open_inline(Path::new(&dir), 5).err().unwrap();
        assert!(matches!(error, StoreError::NotNow { .. }), "{error}");
        return;
    }
    run(async {
        let (dir, before) = with_backups().await;
        spoil(dir.path());
        for _ in 0..2 {
            let limited = "trap '' XFSZ; ulimit -f 16; exec \"$0\" --exact \"$1\"";
            let name = "backup::on_a_full_disk_a_broken_file_waits_in_its_place_for_the_whole_restoration";
            let done = Command::new("sh")
                .args(["-c", limited])
                .arg(std::env::current_exe().unwrap())
                .arg(name)
                .env(ON_A_FULL_DISK, dir.path())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success() && said.contains("1 passed"), "{said}");
            assert_eq!(fs::read_to_string(dir.path().join(FILE_NAME)).unwrap(), "this is no database");
        }
        let (file, opened) = open_again(dir);
        assert!(opened.moved_aside.is_some());
        assert_eq!(file.rows().await, before);
        assert_eq!(file.number("SELECT count(*) FROM restorations WHERE subscriptions = 3"), 1);
    });
}

#[test]
fn a_file_that_was_never_backed_up_is_at_its_opening() {
    run(async {
        let file = File::new();
        file.sync(vec![insert("a")], 1).await;
        fs::remove_dir_all(file.dir.path().join("backup")).unwrap();
        let dir = file.dir;
        drop(open_inline(dir.path(), 5).unwrap());
        assert_eq!(names(dir.path()), ["000001"]);
        drop(open_inline(dir.path(), 6).unwrap());
        assert_eq!(names(dir.path()), ["000001"], "once");
    });
}

#[test]
fn a_new_file_pushes_out_no_backup_of_an_old_one() {
    run(async {
        let file = File::new();
        file.sync(vec![insert("a")], 1).await;
        let dir = file.dir;
        drop(file.store);
        fs::remove_file(dir.path().join(FILE_NAME)).unwrap();
        drop(open_inline(dir.path(), 5).unwrap());
        assert_eq!(names(dir.path()), ["000001"]);
    });
}

#[test]
fn a_backup_that_cannot_be_written_keeps_no_change_from_being_made() {
    run(async {
        let file = File::new();
        fs::write(file.dir.path().join("backup"), "a file where the directory should be").unwrap();
        file.sync(vec![insert("a")], 1).await;
        assert_eq!(file.rows().await.len(), 1);
    });
}

#[test]
fn the_thread_that_backs_up_is_done_before_the_file_is_said_to_be_closed() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (store, closed, _) = open(dir.path(), 0).unwrap();
        for n in 0..50 {
            let changes = vec![insert(&format!("d{n}"))];
            store.apply_sync(ToWrite { changes, ..ToWrite::default() }, || true, n).await.unwrap();
        }
        drop(store);
        closed.await.unwrap();
    });
    let newest = fs::read_to_string(backups(dir.path()).pop().unwrap()).unwrap();
    assert!(newest.contains("\"d49\""), "the last change is in it");
    assert!(!dir.path().join("state.db-wal").exists(), "a clean close leaves one file");
}
