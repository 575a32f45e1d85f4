//! Deadlines and look-ups that several tests share.

use std::path::Path;
use std::time::Duration;

use crate::support::{StubAirflow, eventually};

/// For what happens within a second on an idle machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// For what waits for a broker to come back, or for a pause to end.
pub(crate) const LATER: Duration = Duration::from_secs(120);

/// The first column of the first row of the watcher's state file; empty where there is none.
pub(crate) fn sql(state_dir: &Path, query: &str) -> String {
    let path = state_dir.join("state.db");
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let Ok(connection) = rusqlite::Connection::open_with_flags(path, flags) else { return String::new() };
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    match connection.query_row(query, [], |row| row.get::<_, rusqlite::types::Value>(0)) {
        Ok(rusqlite::types::Value::Text(text)) => text,
        Ok(rusqlite::types::Value::Integer(number)) => number.to_string(),
        Ok(_) | Err(_) => String::new(),
    }
}

/// The status of the only subscription, with its last error.
pub(crate) fn status(state_dir: &Path) -> String {
    sql(state_dir, "SELECT status || ': ' || coalesce(last_error, '') FROM subscription_status")
}

/// Waits until the status, with its last error, contains all of these.
#[track_caller]
pub(crate) fn wait_status(state_dir: &Path, parts: &[&str]) {
    let what = format!("a status with {parts:?}");
    eventually(LATER, &what, || {
        let status = status(state_dir);
        parts.iter().all(|part| status.contains(part))
    });
}

/// Every message id of `0..count` has exactly one run, and there are no other runs.
#[track_caller]
pub(crate) fn assert_one_run_each(stub: &StubAirflow, dag: &str, queue: &str, count: usize) {
    let mut got: Vec<String> = stub.runs(dag).into_iter().map(|run| run.run_id).collect();
    let mut want: Vec<String> = (0..count).map(|n| format!("rmq__{queue}__m{n}")).collect();
    got.sort();
    want.sort();
    assert_eq!(got, want);
}
