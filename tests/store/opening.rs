//! Opening: fresh, again, newer, broken, taken.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rmq_watcher::domain::view::Process;
use rmq_watcher::store::lock::try_lock;
use rmq_watcher::store::open::{self, Looked, Opened, open, open_inline};
use rmq_watcher::store::{Store, StoreError};
use rusqlite::Connection;

fn file(dir: &Path) -> std::path::PathBuf {
    dir.join(open::FILE_NAME)
}

fn schema(dir: &Path) -> Vec<String> {
    let connection = Connection::open(file(dir)).unwrap();
    let mut statement =
        connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn the_directory_is_made_for_its_owner_only_and_opening_again_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("a/b");
    let (_, opened) = open_inline(&state, 0).unwrap();
    assert_eq!(opened.moved_aside, None);
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(file(&state)).unwrap().permissions().mode() & 0o777, 0o600);
    let before = schema(&state);
    assert!(before.iter().any(|sql| sql.contains("CREATE TABLE ledger")));
    drop(open_inline(&state, 0).unwrap());
    assert_eq!(schema(&state), before);
}

#[test]
fn a_newer_schema_is_left_untouched() {
    let dir = tempfile::tempdir().unwrap();
    Connection::open(file(dir.path())).unwrap().execute_batch("CREATE TABLE x (y); PRAGMA user_version = 99").unwrap();
    let before = fs::read(file(dir.path())).unwrap();
    let error = open_inline(dir.path(), 0).err().unwrap();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, known: 3, .. }), "{error}");
    assert!(error.to_string().contains("untouched"));
    assert_eq!(fs::read(file(dir.path())).unwrap(), before);
}

#[test]
fn a_broken_file_is_moved_aside_and_not_lost() {
    let not_a_database = |path: &Path| fs::write(path, "this is not a database, whatever its name says").unwrap();
    let damaged = |path: &Path| {
        let dir = path.parent().unwrap();
        drop(open_inline(dir, 0).unwrap());
        let filler = "INSERT INTO epochs (conn_id, queue, opened_at_ms) SELECT hex(randomblob(500)), 'q', value FROM \
                      (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 200) SELECT * FROM n)";
        let connection = Connection::open(path).unwrap();
        connection.execute_batch(&format!("{filler}; PRAGMA wal_checkpoint(TRUNCATE)")).unwrap();
        drop(connection);
        let mut bytes = fs::read(path).unwrap();
        bytes[8192..].fill(0xa5);
        fs::write(path, bytes).unwrap();
    };
    for spoil in [&not_a_database as &dyn Fn(&Path), &damaged] {
        let dir = tempfile::tempdir().unwrap();
        spoil(&file(dir.path()));
        let spoiled = fs::read(file(dir.path())).unwrap();
        let (_, Opened { moved_aside, .. }) = open_inline(dir.path(), 1_700_000_000_123).unwrap();
        let aside = moved_aside.expect("it was found broken");
        assert!(aside.display().to_string().ends_with("state.db.broken-1700000000123"));
        assert_eq!(fs::read(aside).unwrap(), spoiled);
        assert!(schema(dir.path()).iter().any(|sql| sql.contains("CREATE TABLE ledger")));
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let error = open_inline(&dir.path().join("file/state"), 0).err().unwrap().to_string();
    assert!(error.contains("file/state") && error.contains("belongs to this user"), "{error}");
}

#[test]
fn a_look_changes_nothing_and_says_what_opening_would() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("a/b");
    assert_eq!(open::look(&state).unwrap(), Looked::ToBeMade);
    assert!(!dir.path().join("a").exists());
    assert_eq!(open::look(dir.path()).unwrap(), Looked::Usable);
    fs::write(dir.path().join("file"), "").unwrap();
    let error = open::look(&dir.path().join("file/state")).unwrap_err().to_string();
    assert!(error.contains("file/state") && error.contains("belongs to this user"), "{error}");
}

#[test]
fn the_lock_has_one_holder_who_can_be_named() {
    let dir = tempfile::tempdir().unwrap();
    let held = try_lock(dir.path()).unwrap().unwrap_or_else(|holder| panic!("taken by {holder:?}"));
    let holder = try_lock(dir.path()).unwrap().err().expect("it is taken");
    assert_eq!(holder.pid, Some(i32::try_from(std::process::id()).unwrap()));
    assert_eq!(holder.state, Process::Running);
    drop(held);
    assert!(try_lock(dir.path()).unwrap().is_ok());
}

#[test]
fn the_thread_commits_everything_before_it_says_closed() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (store, closed, _) = open(dir.path(), 0).unwrap();
        let many = (0..500).map(|n| open_epoch(store.clone(), n));
        let epochs = futures_util::future::join_all(many).await;
        assert_eq!(epochs.len(), 500);
        drop(store);
        closed.await.unwrap();
    });
    assert!(!dir.path().join("state.db-wal").exists(), "a clean close leaves one file");
    let connection = Connection::open(file(dir.path())).unwrap();
    let count: i64 = connection.query_row("SELECT count(*) FROM epochs", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 500);
}

async fn open_epoch(store: Store, n: i64) -> rmq_watcher::domain::ids::Epoch {
    use rmq_watcher::domain::ids::{ConnId, QueueName};
    store.open_epoch(ConnId::new("c"), QueueName::new("q"), n).await.unwrap()
}
