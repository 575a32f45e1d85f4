//! What can go wrong with the state file, told apart by what happens next.

use std::path::PathBuf;

/// Errors of the state file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory or file cannot be made or opened. The watcher cannot start.
    #[error("cannot open the state file {path}: {source}; check that the directory exists and belongs to this user")]
    Open {
        /// Which file.
        path: PathBuf,
        /// The system's or SQLite's word.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It cannot be used now: the disk is full or failing, or somebody else holds the file. Try again.
    #[error("cannot use the state file {path} now: {source}; make room on its disk, or end what else has it open")]
    NotNow {
        /// Which file.
        path: PathBuf,
        /// SQLite's word.
        source: rusqlite::Error,
    },
    /// It lies on a network file system, where locks and shared memory cannot be relied on.
    #[error(
        "the state directory {path} is on a network file system ({kind}), where SQLite's locks cannot be relied on; \
         set state.dir to a local directory"
    )]
    NetworkFileSystem {
        /// Which directory.
        path: PathBuf,
        /// Which file system.
        kind: &'static str,
    },
    /// A newer version of this program made it. It was left untouched.
    #[error(
        "the state file {path} has schema version {found}, newer than the {known} of this program; it was left untouched: \
         run the newer program, or point state.dir to another directory"
    )]
    NewerSchema {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// There is none; asked by who only reads.
    #[error("there is no state file {path}; check state.dir, and that a watcher has run with it")]
    Missing {
        /// Which file.
        path: PathBuf,
    },
    /// An older version of this program made it; asked by who only reads.
    #[error(
        "the state file {path} has schema version {found}, older than the {known} of this program; the watcher of this \
         version brings it up to date when it starts"
    )]
    OlderSchema {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// It is no database, or a damaged one; asked by who only reads, so it stays as it is.
    #[error(
        "the state file {path} is broken ({source}); it was left as it is: the watcher moves it aside and begins a new one \
         when it starts"
    )]
    Broken {
        /// Which file.
        path: PathBuf,
        /// SQLite's word.
        source: rusqlite::Error,
    },
    /// One command failed; the state file is as before it.
    #[error("the state file refused {what}: {source}")]
    Sql {
        /// What was to be done, such as "to record a delivery".
        what: &'static str,
        /// SQLite's word.
        source: rusqlite::Error,
    },
    /// A message has no row, because the file refused one when it came, and its outcome needs one.
    #[error("the state file took no record of this message when it came; it is held until it comes again")]
    NoRow,
    /// The owning thread is gone: the process is stopping.
    #[error("the state file is closed")]
    Closed,
}
