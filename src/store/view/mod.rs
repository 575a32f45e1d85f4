//! The state file read by another process than the watcher: for people who look, whether a watcher runs or not.
//!
//! Changes nothing: the connection is read-only, and the file is held for one page of rows at a time, well under a second, so
//! that the watcher's own commits never wait for a reader. Pages are read one after the other, so a change in between may
//! show in one table and not yet in the other.

mod tables;

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::StoreError;
use super::lock::{self, Looked};
use super::open::FILE_NAME;
use super::schema::current_version;
use crate::domain::view::{Facts, Lock};

/// How long another process may have the file to itself, as while it recovers it, before we give up.
const BUSY: Duration = Duration::from_secs(2);

/// Reads all that is shown, and looks at the lock.
///
/// # Errors
/// There is no file, or it is broken, too new, too old or not ours to read; nothing was changed.
pub fn read(dir: &Path) -> Result<Facts, StoreError> {
    let path = dir.join(FILE_NAME);
    if !path.exists() {
        return Err(StoreError::Missing { path });
    }
    let connection = connect(&path)?;
    let read = || -> rusqlite::Result<Facts> {
        Ok(Facts {
            lock: Lock::Free,
            watcher: tables::watcher(&connection)?,
            subscriptions: tables::subscriptions(&connection)?,
            connections: tables::connections(&connection)?,
            refusals: tables::refusals(&connection)?,
        })
    };
    let facts = read().map_err(|error| failed(&path, error))?;
    // After the rows: a watcher that has begun in between is seen, and its predecessor's rows are not taken for its own.
    let lock = read_lock(dir).map_err(|error| StoreError::Open { path, source: error.into() })?;
    Ok(Facts { lock, ..facts })
}

/// Looks at the lock of a state directory, as a value.
///
/// # Errors
/// The lock file cannot be opened.
pub fn read_lock(dir: &Path) -> std::io::Result<Lock> {
    Ok(match lock::look(dir)? {
        Looked::Free => Lock::Free,
        Looked::Held { holder, since } => {
            let since_ms = since.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let since_ms = since_ms.and_then(|since| i64::try_from(since.as_millis()).ok());
            Lock::Held { pid: holder.pid, process: holder.state, since_ms }
        }
    })
}

/// Read-only. A file whose watcher left in order has no shared memory beside it, which a reader can make only where it may
/// write; where it may not and nothing waits in the log, the file alone is the whole state.
fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let opened = Connection::open_with_flags(uri(path, ""), flags).and_then(checked);
    match opened {
        Err(error) if is_for_want_of_shared_memory(&error) && !has_log(path) => {
            Connection::open_with_flags(uri(path, "?immutable=1"), flags).and_then(checked)
        }
        other => other,
    }
    .map_err(|error| failed(path, error))
    .and_then(|(connection, version)| match version {
        found if found > current_version() => {
            Err(StoreError::NewerSchema { path: path.to_owned(), found, known: current_version() })
        }
        found if found < current_version() => {
            Err(StoreError::OlderSchema { path: path.to_owned(), found, known: current_version() })
        }
        _ => Ok(connection),
    })
}

fn checked(connection: Connection) -> rusqlite::Result<(Connection, i64)> {
    connection.busy_timeout(BUSY)?;
    let version = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    Ok((connection, version))
}

/// SQLite's form of a path: what has a meaning in a URI is written as its number.
fn uri(path: &Path, query: &str) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => uri.push(char::from(*byte)),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri.push_str(query);
    PathBuf::from(uri)
}

fn is_for_want_of_shared_memory(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

fn has_log(path: &Path) -> bool {
    std::fs::metadata(path.with_extension("db-wal")).is_ok_and(|log| log.len() > 0)
}

fn failed(path: &Path, error: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::Broken { path, source: error },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::SystemIoFailure) => {
            StoreError::NotNow { path, source: error }
        }
        Some(_) | None => StoreError::Open { path, source: error.into() },
    }
}
