//! Schemas: frozen as released, and reached from every older one.

use std::fs;
use std::path::Path;

use rmq_watcher::store::open::{FILE_NAME, open_inline};
use rusqlite::Connection;

const VERSION: u32 = 3;

fn fixture(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/state").join(name)).unwrap()
}

fn schema(dir: &Path) -> String {
    let connection = Connection::open(dir.join(FILE_NAME)).unwrap();
    let mut statement =
        connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").unwrap();
    let all: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    // A table that was renamed keeps quotation marks around its name; nothing else tells it apart.
    all.join(";\n\n").replace("CREATE TABLE \"subscriptions\"", "CREATE TABLE subscriptions") + ";\n"
}

/// A state file as the program of that version left it.
fn old_file(dir: &Path, version: u32) {
    let connection = Connection::open(dir.join(FILE_NAME)).unwrap();
    let tables = fixture(&format!("schema-v{version}.sql"));
    // SQLite makes this one itself.
    let tables = tables.replace("CREATE TABLE sqlite_sequence(name,seq);", "");
    let rows = fixture(&format!("rows-v{version}.sql"));
    connection.execute_batch(&format!("{tables}\n{rows}\nPRAGMA user_version = {version};")).unwrap();
}

fn values(dir: &Path, sql: &str) -> Vec<String> {
    let connection = Connection::open(dir.join(FILE_NAME)).unwrap();
    let mut rows = connection.prepare(sql).unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_released_schema_is_never_changed() {
    let dir = tempfile::tempdir().unwrap();
    drop(open_inline(dir.path(), 0).unwrap());
    assert_eq!(schema(dir.path()), fixture(&format!("schema-v{VERSION}.sql")));
    let connection = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let version: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, VERSION);
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

#[test]
fn an_old_file_becomes_the_same_as_a_new_one() {
    for version in 1..VERSION {
        let dir = tempfile::tempdir().unwrap();
        old_file(dir.path(), version);
        drop(open_inline(dir.path(), 0).unwrap());
        assert_eq!(schema(dir.path()), fixture(&format!("schema-v{VERSION}.sql")), "from {version}");
    }
}

#[test]
fn rows_of_version_1_keep_ids_and_ledger_and_know_their_file() {
    let dir = tempfile::tempdir().unwrap();
    old_file(dir.path(), 1);
    drop(open_inline(dir.path(), 0).unwrap());
    let sql = "SELECT concat_ws('|', id, dag_id, queue, conn_id, source, origin, origin_file, options, enabled, \
               ifnull(invalid, '-'), absent_cycles, ifnull(deleted_at_ms, '-'), created_at_ms, updated_at_ms) FROM subscriptions";
    let rows = [
        "1|orders_dag|orders|rmq_default|dag_file|orders.py:4:2|orders.py|{}|1|-|0|-|1700000000001|1700000000002",
        "3|d8|q|c|dag_file|team:eu/a.py2:12:345|team:eu/a.py2|{}|1|-|0|-|1700000000003|1700000000004",
    ];
    assert_eq!(values(dir.path(), sql), rows);
    assert_eq!(values(dir.path(), "SELECT concat(id, state, run_id, epoch) FROM ledger"), ["9sentrmq__orders__m15"]);
    assert_eq!(values(dir.path(), "SELECT concat(id, queue) FROM epochs"), ["5orders"]);
    assert_eq!(values(dir.path(), "SELECT status FROM subscription_status"), [""; 0], "statuses are derived anew");
}

#[test]
fn ids_go_on_after_those_of_version_1() {
    let dir = tempfile::tempdir().unwrap();
    old_file(dir.path(), 1);
    drop(open_inline(dir.path(), 0).unwrap());
    let connection = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let insert = "INSERT INTO subscriptions (dag_id, queue, conn_id, source, origin, origin_file, options, enabled, absent_cycles, \
                  created_at_ms, updated_at_ms) VALUES ('new', 'q', 'c', 'dag_file', '', '', '{}', 1, 0, 0, 0)";
    connection.execute_batch(insert).unwrap();
    assert_eq!(values(dir.path(), "SELECT CAST(max(id) AS TEXT) FROM subscriptions"), ["4"]);
}

#[test]
fn rows_of_version_2_keep_ids_and_kept_messages_and_know_their_subscription() {
    let dir = tempfile::tempdir().unwrap();
    old_file(dir.path(), 2);
    drop(open_inline(dir.path(), 0).unwrap());
    let sql = "SELECT concat_ws('|', id, conn_id, queue, target, key_kind, key, n, state, ifnull(outcome, '-'), ifnull(reason, '-'), \
               ifnull(run_id, '-'), epoch, is_first_delivery, content, deliveries, replays, copies_made, copies_confirmed, \
               original_open, ifnull(subscription_id, '-'), created_at_ms, updated_at_ms, ifnull(settled_at_ms, '-')) FROM ledger";
    let rows = [
        "9|rmq_default|orders|dag:orders_dag|message_id|m1|1|sent|-|-|rmq__orders__m1|7|1|content|1|0|0|0|0|2|1700000000008|1700000000009|-",
        "12|rmq_default|orders|unmatched|fingerprint|f1|2|settled|dlq|no|-|0|0|content|1|0|0|0|0|-|1700000000010|1700000000011|1700000000012",
    ];
    assert_eq!(values(dir.path(), sql), rows);
    let kept = "SELECT concat_ws('|', row_id, kept_at_ms, bytes, head, hex(body)) FROM kept";
    assert_eq!(values(dir.path(), kept), [r#"12|1700000000011|2|{"queue":"orders"}|00FF"#]);
}
