//! The state file as somebody beside the watcher reads it.

use std::path::Path;

use crate::bench::LATER;
use crate::support::eventually;

/// The first column of the first row; empty where there is none.
pub(crate) fn sql(state_dir: &Path, query: &str) -> String {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let Ok(connection) = rusqlite::Connection::open_with_flags(state_dir.join("state.db"), flags) else {
        return String::new();
    };
    connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    match connection.query_row(query, [], |row| row.get::<_, rusqlite::types::Value>(0)) {
        Ok(rusqlite::types::Value::Text(text)) => text,
        Ok(rusqlite::types::Value::Integer(number)) => number.to_string(),
        Ok(_) | Err(_) => String::new(),
    }
}

/// Attempts to attach so far, by all watchers of this state: each takes a number, which a failed one gives up.
pub(crate) fn attempts(state_dir: &Path) -> u32 {
    sql(state_dir, "SELECT seq FROM sqlite_sequence WHERE name = 'epochs'").parse().unwrap_or(0)
}

/// The status of a DAG's subscription, with its last error.
pub(crate) fn status(state_dir: &Path, dag: &str) -> String {
    let query = format!(
        "SELECT s.status || ': ' || coalesce(s.last_error, '') FROM subscription_status s JOIN subscriptions d \
         ON d.id = s.subscription_id WHERE d.dag_id = '{dag}'"
    );
    sql(state_dir, &query)
}

/// Waits until that contains all of these.
#[track_caller]
pub(crate) fn wait_status(state_dir: &Path, dag: &str, parts: &[&str]) {
    eventually(LATER, &format!("a status of {dag} with {parts:?}"), || {
        let status = status(state_dir, dag);
        parts.iter().all(|part| status.contains(part))
    });
}
