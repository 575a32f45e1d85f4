//! Beginning a new file: whole and under another name first, then in its place.
//!
//! One transaction makes the tables, brings back what was saved, and marks what is lost; only a file that has all of it gets the
//! name. So whatever ends this early, a full disk or a kill, leaves it to the next start to do as much, and no file of ours is ever
//! empty or without a version.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};

use super::open::Trouble;
use super::schema::MIGRATIONS;
use super::{Restored, backup};

/// SQLite's other files beside a file of this name.
const TAILS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// What came of it.
pub(super) struct Begun {
    pub(super) moved_aside: Option<PathBuf>,
    pub(super) restored: Option<Restored>,
}

/// Makes a new file, in the place of a broken one where `is_broken`, with what was saved of the one before.
pub(super) fn begin(path: &Path, dir: &Path, is_broken: bool, now_ms: i64) -> Result<Begun, Trouble> {
    let unfinished = path.with_extension("db.new");
    remove(&unfinished)?;
    let aside = path.with_extension(format!("db.broken-{now_ms}"));
    let moved_aside = is_broken.then(|| aside.clone());
    let restored = make(&unfinished, dir, moved_aside.as_deref(), now_ms)?;
    // What lies beside a missing file is of an older one as well, and would be taken for a part of the new one.
    move_aside(path, &aside)?;
    fs::rename(&unfinished, path)?;
    File::open(dir)?.sync_all()?;
    Ok(Begun { moved_aside, restored })
}

/// On the disk when this returns: SQLite's own journal, not yet the WAL.
fn make(path: &Path, dir: &Path, moved_aside: Option<&Path>, now_ms: i64) -> Result<Option<Restored>, Trouble> {
    // Refused messages are kept in it: for its owner only, whatever the directory's mode. SQLite gives its other files the same
    // mode.
    drop(OpenOptions::new().create(true).append(true).mode(0o600).open(path)?);
    let mut connection = Connection::open(path)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (version, sql) in (1_i64..).zip(MIGRATIONS) {
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "user_version", version)?;
    }
    let restored = backup::restore(&transaction, dir, moved_aside, now_ms)?;
    transaction.commit()?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(restored)
}

fn with_tail(path: &Path, tail: &str) -> PathBuf {
    PathBuf::from(format!("{}{tail}", path.display()))
}

fn remove(path: &Path) -> io::Result<()> {
    for tail in [""].iter().chain(&TAILS) {
        if_there(fs::remove_file(with_tail(path, tail)))?;
    }
    Ok(())
}

/// The WAL and the shared memory belong to the file and go with it.
fn move_aside(path: &Path, aside: &Path) -> io::Result<()> {
    for tail in [""].iter().chain(&TAILS) {
        if_there(fs::rename(with_tail(path, tail), with_tail(aside, tail)))?;
    }
    Ok(())
}

fn if_there(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
