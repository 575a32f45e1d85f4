//! Backups of the subscriptions: what people switched and the ids in `conf.subscription_id` are nowhere else.
//!
//! Taken after every change of a subscription and at the opening, where it differs from the newest: as JSON in `backup/`, over
//! a connection of its own, on a thread of its own, so that no commit waits for it. The ledger is in none: an old ledger would
//! be wrong. A backup is either whole or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Row, params};
use serde::{Deserialize, Serialize};

use super::open::FILE_NAME;
use super::subscriptions::{text, text_or_null};
use crate::telemetry::events;

/// The directory within the state directory.
const DIR: &str = "backup";

/// How many are kept.
const KEPT: usize = 5;

/// The form of a backup that this program writes and reads.
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Backup {
    version: u32,
    taken_at_ms: i64,
    subscriptions: Vec<Saved>,
}

/// A row of `subscriptions` as it stands in the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    id: i64,
    dag_id: String,
    queue: String,
    conn_id: String,
    source: String,
    origin: String,
    origin_file: String,
    options: String,
    enabled: bool,
    invalid: Option<String>,
    absent_cycles: i64,
    deleted_at_ms: Option<i64>,
    created_at_ms: i64,
    updated_at_ms: i64,
}

/// Asks for backups. Clones share the thread, which ends with the last of them.
#[derive(Clone)]
pub(super) enum Backups {
    /// On a thread: at most one is under way and one waits, which will see every change so far.
    Thread(SyncSender<i64>),
    /// At once, on the caller's thread.
    Inline(PathBuf),
}

impl Backups {
    /// Starts the thread.
    pub(super) fn start(dir: PathBuf) -> io::Result<(Self, JoinHandle<()>)> {
        let (asked, waiting) = sync_channel(1);
        let thread = thread::Builder::new().name("backup".to_owned()).spawn(move || serve(&dir, &waiting))?;
        Ok((Self::Thread(asked), thread))
    }

    /// Asks for a backup of what is committed by now.
    pub(super) fn ask(&self, now_ms: i64) {
        match self {
            // Full: the one that waits will see it. Gone: the process is stopping, or the thread panicked and was reported.
            Self::Thread(asked) => drop(asked.try_send(now_ms)),
            Self::Inline(dir) => take_and_say(dir, now_ms),
        }
    }
}

fn serve(dir: &Path, waiting: &Receiver<i64>) {
    for now_ms in waiting {
        take_and_say(dir, now_ms);
    }
}

fn take_and_say(dir: &Path, now_ms: i64) {
    if let Err(error) = take(dir, now_ms) {
        tracing::warn!(
            event = events::STORE_BACKUP_FAILED,
            "RMQ Watcher: no backup of the subscriptions could be written to {}: {error}; tried again at their next change",
            dir.join(DIR).display()
        );
    }
}

fn take(dir: &Path, now_ms: i64) -> Result<(), Box<dyn std::error::Error>> {
    let subscriptions = read(&dir.join(FILE_NAME))?;
    let dir = dir.join(DIR);
    let there = numbered(&dir)?;
    // Of nothing there is nothing to save, and a new file must not push out what an old one left.
    let known = newest_good(&there).is_some_and(|(_, newest)| newest.subscriptions == subscriptions);
    if known || subscriptions.is_empty() {
        return Ok(());
    }
    if !dir.is_dir() {
        fs::DirBuilder::new().mode(0o700).create(&dir)?;
    }
    let number = there.last().map_or(1, |(number, _)| number + 1);
    let path = dir.join(format!("subscriptions-{number:06}.json"));
    write_whole(&path, &serde_json::to_vec_pretty(&Backup { version: VERSION, taken_at_ms: now_ms, subscriptions })?)?;
    let too_many = (there.len() + 1).saturating_sub(KEPT);
    there[..too_many].iter().try_for_each(|(_, old)| fs::remove_file(old))?;
    Ok(())
}

fn read(file: &Path) -> rusqlite::Result<Vec<Saved>> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(Duration::from_secs(1))?;
    let sql = "SELECT id, dag_id, queue, conn_id, source, origin, origin_file, options, enabled, invalid, absent_cycles, deleted_at_ms, \
               created_at_ms, updated_at_ms FROM subscriptions ORDER BY id";
    connection.prepare(sql)?.query_map([], to_saved)?.collect()
}

fn to_saved(row: &Row<'_>) -> rusqlite::Result<Saved> {
    Ok(Saved {
        id: row.get(0)?,
        dag_id: text(row, 1)?,
        queue: text(row, 2)?,
        conn_id: text(row, 3)?,
        source: text(row, 4)?,
        origin: text(row, 5)?,
        origin_file: text(row, 6)?,
        options: text(row, 7)?,
        enabled: row.get(8)?,
        invalid: text_or_null(row, 9)?,
        absent_cycles: row.get(10)?,
        deleted_at_ms: row.get(11)?,
        created_at_ms: row.get(12)?,
        updated_at_ms: row.get(13)?,
    })
}

/// The name appears only once the content is on the disk.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

/// The backups there are, the newest last. Numbers and not times: a clock may go back.
fn numbered(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix("subscriptions-")?.strip_suffix(".json")?.parse().ok());
        found.extend(number.map(|number: u64| (number, path)));
    }
    found.sort();
    Ok(found)
}

fn newest_good(there: &[(u64, PathBuf)]) -> Option<(&Path, Backup)> {
    there.iter().rev().find_map(|(_, path)| {
        let backup: Backup = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        (backup.version == VERSION).then_some((path.as_path(), backup))
    })
}

/// What a new file was begun with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The backup, where there was a good one.
    pub backup: Option<PathBuf>,
    /// How many subscriptions, tombstones included.
    pub subscriptions: usize,
}

/// Fills a new file from the newest good backup, and marks that the ledger's past is not in it. Without a broken file and without a
/// backup nothing is lost: it is the first.
pub(super) fn restore(
    connection: &Connection,
    dir: &Path,
    moved_aside: Option<&Path>,
    now_ms: i64,
) -> rusqlite::Result<Option<Restored>> {
    let there = numbered(&dir.join(DIR)).unwrap_or_default();
    let found = newest_good(&there);
    if found.is_none() && moved_aside.is_none() {
        return Ok(None);
    }
    let mut subscriptions = 0;
    for saved in found.iter().flat_map(|(_, backup)| &backup.subscriptions) {
        subscriptions += insert(connection, saved)?;
    }
    let backup = found.map(|(path, _)| path.to_owned());
    let name = backup.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let moved_aside = moved_aside.map(|aside| aside.to_string_lossy().into_owned()).unwrap_or_default();
    connection.execute(
        "INSERT INTO restorations (restored_at_ms, moved_aside, backup, subscriptions) VALUES (?1, ?2, ?3, ?4)",
        params![now_ms, moved_aside, name, i64::try_from(subscriptions).unwrap_or(i64::MAX)],
    )?;
    Ok(Some(Restored { backup, subscriptions }))
}

/// A row that the file does not take is left out: the others matter.
fn insert(connection: &Connection, saved: &Saved) -> rusqlite::Result<usize> {
    let sql = "INSERT OR IGNORE INTO subscriptions (id, dag_id, queue, conn_id, source, origin, origin_file, options, enabled, \
               invalid, absent_cycles, deleted_at_ms, created_at_ms, updated_at_ms) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    connection.prepare_cached(sql)?.execute(params![
        saved.id,
        saved.dag_id,
        saved.queue,
        saved.conn_id,
        saved.source,
        saved.origin,
        saved.origin_file,
        saved.options,
        saved.enabled,
        saved.invalid,
        saved.absent_cycles,
        saved.deleted_at_ms,
        saved.created_at_ms,
        saved.updated_at_ms,
    ])
}
