//! Opening the state file: where it may lie, its pragmas, its migrations, and what happens when it is broken.
//!
//! | pragma | value | why |
//! |---|---|---|
//! | `journal_mode` | `WAL` | commits without waiting for the disk; readers beside the writer |
//! | `synchronous` | `NORMAL` | a kill loses nothing; a power cut may lose the last moments, which the ledger's rules survive |
//! | `foreign_keys` | `ON` | status rows go with their subscription |
//! | `busy_timeout` | 1 s | readers hold the file under a second |
//! | `cache_size` | 256 KiB | resident memory; the working set is a few pages |
//!
//! A statement is planned once, by its text alone (`SQLITE_DBCONFIG_ENABLE_QPSG`): SQLite would else plan it anew whenever a
//! value changes that its choice of an index might depend on, which the key of each message does.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::statfs::{self, FsType};
use nix::unistd::{AccessFlags, access};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, ffi};

use super::begin::begin;
use super::schema::{MIGRATIONS, current_version};
use super::thread::Closed;
use super::{Restored, Store, StoreError};
use crate::telemetry::events;

/// The state file's name within its directory.
pub const FILE_NAME: &str = "state.db";

/// Files larger than this are not read through at the start: it would delay the first consumer.
const CHECK_UP_TO_BYTES: u64 = 32 * 1024 * 1024;

/// Statements that are kept prepared: more than all of those that messages need together.
const STATEMENTS_KEPT: usize = 48;

/// What was found at the opening, for the log.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The file was broken and moved here; a new one was begun.
    pub moved_aside: Option<PathBuf>,
    /// What a new one was begun with, where one was lost: broken, or missing although there is a backup.
    pub restored: Option<Restored>,
    /// The directory lies on a container's own layer: it goes with the container.
    pub on_container_layer: bool,
}

/// Makes the directory (mode 0700) where it is missing and opens the file in it.
///
/// `now_ms` names a broken file that is moved aside.
///
/// # Errors
/// See [`StoreError`]; the file is untouched where it is newer than this program.
pub fn open(dir: &Path, now_ms: i64) -> Result<(Store, Closed, Opened), StoreError> {
    let (connection, opened) = open_connection(dir, now_ms)?;
    let (store, closed) = Store::start(connection, dir.to_owned())
        .map_err(|error| StoreError::Open { path: dir.join(FILE_NAME), source: error.into() })?;
    store.back_up(now_ms);
    Ok((store, closed, opened))
}

/// As [`open`], but without a thread: see `Store::inline`.
///
/// # Errors
/// As [`open`].
pub fn open_inline(dir: &Path, now_ms: i64) -> Result<(Store, Opened), StoreError> {
    let (connection, opened) = open_connection(dir, now_ms)?;
    let store = Store::inline(connection, dir.to_owned());
    store.back_up(now_ms);
    Ok((store, opened))
}

fn open_connection(dir: &Path, now_ms: i64) -> Result<(Connection, Opened), StoreError> {
    let path = dir.join(FILE_NAME);
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| StoreError::Open { path: path.clone(), source };
    make_dir(dir).map_err(|error| failed(error.into()))?;
    let mut opened = Opened { on_container_layer: check_file_system(dir)?, ..Opened::default() };
    let connection = open_or_begin(&path, dir, now_ms, &mut opened);
    let connection = connection.map_err(|trouble| match trouble {
        Trouble::Broken(error) | Trouble::Sql(error) => failed(error.into()),
        Trouble::Io(error) if passes_by_itself(&error) => {
            let code = ffi::Error::new(ffi::SQLITE_IOERR);
            StoreError::NotNow {
                path: path.clone(),
                source: rusqlite::Error::SqliteFailure(code, Some(error.to_string())),
            }
        }
        Trouble::Io(error) => failed(error.into()),
        Trouble::NotNow(source) => StoreError::NotNow { path: path.clone(), source },
        Trouble::Newer(found) => StoreError::NewerSchema { path: path.clone(), found, known: current_version() },
    })?;
    Ok((connection, opened))
}

/// Opens the file; begins a new one where there is none, or none that can be used.
fn open_or_begin(path: &Path, dir: &Path, now_ms: i64, opened: &mut Opened) -> Result<Connection, Trouble> {
    let broken = match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
        // SQLite would take it for a new one.
        Ok(file) if file.is_file() && file.len() == 0 => Some("it is empty".to_owned()),
        Ok(_) => match connect(path) {
            Err(Trouble::Broken(error)) => Some(error.to_string()),
            other => return other,
        },
    };
    let begun = begin(path, dir, broken.is_some(), now_ms)?;
    if let (Some(error), Some(aside)) = (broken, &begun.moved_aside) {
        tracing::error!(
            event = events::STORE_MOVED_ASIDE,
            "the state file {} is broken ({error}); it was moved to {} and a new one begun: messages without an id \
             that were under way may start a second run",
            path.display(),
            aside.display()
        );
    }
    if let Some(restored) = &begun.restored {
        say_restored(restored);
    }
    opened.moved_aside = begun.moved_aside;
    opened.restored = begun.restored;
    connect(path)
}

fn say_restored(restored: &Restored) {
    let Restored { backup, subscriptions } = restored;
    match backup {
        Some(backup) => tracing::warn!(
            event = events::STORE_RESTORED,
            "RMQ Watcher: {subscriptions} subscriptions were restored from {}; what became of earlier messages is not known",
            backup.display()
        ),
        None => tracing::warn!(
            event = events::STORE_RESTORED,
            "RMQ Watcher: there is no backup to restore subscriptions from: they come back from the DAG files, enabled, under new ids"
        ),
    }
}

/// What a look at a state directory found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// It is there, and ours to write.
    Usable,
    /// It is not there, and the directory above it is ours to write.
    ToBeMade,
}

/// Looks whether [`open`] could use the directory, and changes nothing.
///
/// # Errors
/// What [`open`] would say about where it lies or whose it is.
pub fn look(dir: &Path) -> Result<Looked, StoreError> {
    let there = dir.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(dir);
    let failed = |source: std::io::Error| StoreError::Open { path: dir.join(FILE_NAME), source: source.into() };
    if !there.is_dir() {
        return Err(failed(std::io::ErrorKind::NotADirectory.into()));
    }
    access(there, AccessFlags::W_OK | AccessFlags::X_OK).map_err(|errno| failed(errno.into()))?;
    check_file_system(there)?;
    Ok(if there == dir { Looked::Usable } else { Looked::ToBeMade })
}

pub(super) enum Trouble {
    Io(std::io::Error),
    NotNow(rusqlite::Error),
    Broken(rusqlite::Error),
    Newer(i64),
    Sql(rusqlite::Error),
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Broken(error),
            Some(
                ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::OutOfMemory,
            ) => Self::NotNow(error),
            Some(_) | None => Self::Sql(error),
        }
    }
}

fn connect(path: &Path) -> Result<Connection, Trouble> {
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(1))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version > current_version() {
        return Err(Trouble::Newer(version));
    }
    if version == 0 {
        return Err(broken(ffi::SQLITE_NOTADB, "it has no schema version, as a power cut may leave it".to_owned()));
    }
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -256;",
    )?;
    if fs::metadata(path).is_ok_and(|file| file.len() <= CHECK_UP_TO_BYTES) {
        quick_check(&connection)?;
    }
    migrate(&mut connection, version)?;
    Ok(connection)
}

fn quick_check(connection: &Connection) -> Result<(), Trouble> {
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" {
        return Ok(());
    }
    Err(broken(ffi::SQLITE_CORRUPT, verdict))
}

fn broken(code: i32, text: String) -> Trouble {
    Trouble::Broken(rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(text)))
}

/// Each step in a transaction of its own: what is done stays done, and the version says how far it came.
fn migrate(connection: &mut Connection, from: i64) -> Result<(), rusqlite::Error> {
    for (version, sql) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > from) {
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    Ok(())
}

/// Makes the state directory, mode 0700, where it is missing.
///
/// # Errors
/// It cannot be made.
pub fn make_dir(dir: &Path) -> std::io::Result<()> {
    if !dir.is_dir() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        // The mask of the process may have taken bits away, never added any; a parent made on the way is ours too.
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Returns whether the directory lies on a container's own layer.
///
/// Source: statfs(2), magic numbers of Linux 6.1.
fn check_file_system(dir: &Path) -> Result<bool, StoreError> {
    // Typed as the C library types them, which differs between glibc and musl.
    const NETWORK: &[(FsType, &str)] = &[
        (FsType(0x6969), "nfs"),
        (FsType(0xff53_4d42), "cifs"),
        (FsType(0xfe53_4d42), "smb2"),
        (FsType(0x517b), "smb"),
        (FsType(0x0102_1997), "9p"),
        (FsType(0x00c3_6400), "ceph"),
        (FsType(0x5346_414f), "afs"),
        (FsType(0x7375_7245), "coda"),
        (FsType(0x0bd0_0bd0), "lustre"),
    ];
    const OVERLAY: FsType = FsType(0x794c_7630);
    let Ok(stat) = statfs::statfs(dir) else { return Ok(false) };
    let found = stat.filesystem_type();
    match NETWORK.iter().find(|(kind, _)| *kind == found) {
        Some((_, kind)) => Err(StoreError::NetworkFileSystem { path: dir.to_owned(), kind }),
        None => Ok(found == OVERLAY),
    }
}

/// A full or failing disk, and limits that others have used up.
#[must_use]
pub fn passes_by_itself(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::Interrupted)
        || matches!(error.raw_os_error(), Some(EIO | ENFILE | EMFILE))
}

// Source: errno(3), Linux, all architectures that we build for.
const EIO: i32 = 5;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_statement_is_planned_once_whatever_the_values() {
        let dir = tempfile::tempdir().unwrap();
        let (connection, _) = open_connection(dir.path(), 0).unwrap();
        let sql = "SELECT n, content FROM ledger WHERE conn_id = ?1 AND queue = ?2 AND target = ?3 AND key_kind = ?4 \
                   AND key = ?5 ORDER BY n DESC LIMIT 1";
        for n in 0..5 {
            let found =
                connection.prepare_cached(sql).unwrap().exists(["c", "q", "dag:d", "message_id", &format!("key {n}")]);
            assert!(!found.unwrap());
        }
        let statement = connection.prepare_cached(sql).unwrap();
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }
}
