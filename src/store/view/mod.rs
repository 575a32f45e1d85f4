//! The state file read by another process than the watcher: for people who look, whether a watcher runs or not.
//!
//! Changes nothing: the connection is read-only, and the file is held for one page of rows at a time, well under a second, so
//! that the watcher's own commits never wait for a reader. Pages are read one after the other, so a change in between may
//! show in one table and not yet in the other.

mod fires;
mod tables;

pub use fires::{fires, why};

use std::cmp::Ordering;
use std::os::unix::fs::MetadataExt as _;
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
    let facts = read_with(dir, &Reading(&rows))?;
    // After the rows: a watcher that has begun in between is seen, and its predecessor's rows are not taken for its own.
    Ok(Facts { lock: look(dir, &dir.join(FILE_NAME))?, ..facts })
}

/// What is to be read.
struct Reading<'a, T>(&'a dyn Fn(&Connection) -> rusqlite::Result<T>);

impl<T> Reading<'_, T> {
    fn of(&self, connection: &Connection, path: &Path) -> Result<T, StoreError> {
        (self.0)(connection).map_err(|error| failed(path, error))
    }
}

fn read_with<T>(dir: &Path, reading: &Reading<'_, T>) -> Result<T, StoreError> {
    let path = dir.join(FILE_NAME);
    match path.try_exists() {
        Ok(true) => {}
        Ok(false) => return Err(StoreError::Missing { path }),
        // A directory of somebody else's, which says nothing of what is in it.
        Err(source) => return Err(StoreError::Open { path, source: source.into() }),
    }
    match read_still(dir, &path, reading)? {
        Some(read) => Ok(read),
        None => connect(&path, "").and_then(|connection| reading.of(&connection, &path)),
    }
}

/// Reads a file that nobody writes and beside which nothing waits to be put into it: then the file alone is the whole state,
/// also where we may not write, and no file of SQLite's is made beside it. `None`: it is not, or no longer, so.
fn read_still<T>(dir: &Path, path: &Path, reading: &Reading<'_, T>) -> Result<Option<T>, StoreError> {
    let stamp = || std::fs::metadata(path).map(|file| (file.ino(), file.len(), file.mtime(), file.mtime_nsec())).ok();
    let is_still = || Ok(look(dir, path)? == Lock::Free && !has_log(path));
    let before = stamp();
    if !is_still()? {
        return Ok(None);
    }
    let read = connect(path, "?immutable=1").and_then(|connection| reading.of(&connection, path));
    // What was read while somebody wrote means nothing, an error included.
    if is_still()? && stamp() == before { read.map(Some) } else { Ok(None) }
}

fn rows(connection: &Connection) -> rusqlite::Result<Facts> {
    Ok(Facts {
        lock: Lock::Free,
        watcher: tables::watcher(connection)?,
        subscriptions: tables::subscriptions(connection)?,
        connections: tables::connections(connection)?,
        refusals: tables::refusals(connection)?,
        unreadable: tables::unreadable(connection)?,
    })
}

fn look(dir: &Path, path: &Path) -> Result<Lock, StoreError> {
    read_lock(dir).map_err(|error| StoreError::Open { path: path.to_owned(), source: error.into() })
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

fn connect(path: &Path, query: &str) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let opened = Connection::open_with_flags(uri(path, query), flags).and_then(checked);
    let (connection, found) = opened.map_err(|error| failed(path, error))?;
    let (path, known) = (path.to_owned(), current_version());
    match found.cmp(&known) {
        Ordering::Equal => Ok(connection),
        Ordering::Greater => Err(StoreError::NewerSchema { path, found, known }),
        Ordering::Less => Err(StoreError::OlderSchema { path, found, known }),
    }
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
