//! The configuration file's connections, kept up to date: read again only when the file's stat has changed.
//!
//! A read that fails, and a table that has become wrong, keep what was read before. These functions block: call them off
//! the loop thread.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::file::{self, FileConnections};
use crate::config::load::parse_toml;
use crate::config::sources::read_text;

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i128,
    changed_ns: i128,
}

/// The connections at one state of the file.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The state; `None` before the first read.
    pub stamp: Option<Stamp>,
    /// What is in it.
    pub connections: FileConnections,
    /// What is wrong with this state of the file, a sentence each; what was read before stands in for it.
    pub problems: Vec<String>,
}

/// Reads the file if it is another one than `before`; `None` means that nothing has changed.
///
/// # Errors
/// The file cannot be read; `before` stays in force.
pub fn read_if_changed(path: &Path, before: &Snapshot) -> io::Result<Option<Snapshot>> {
    let stamp = stamp(path)?;
    if before.stamp == Some(stamp) {
        return Ok(None);
    }
    let text = read_text(path)?;
    let mut after = Snapshot { stamp: Some(stamp), ..Snapshot::default() };
    match parse_toml(&text) {
        Ok(root) => {
            let mut problems = Vec::new();
            after.connections = file::read(&root, path, &mut problems);
            for (id, connection) in &before.connections {
                let (key, prefix) = (format!("connections.{id}"), format!("connections.{id}."));
                if problems.iter().any(|p| p.key == key || p.key.starts_with(&prefix)) {
                    after.connections.insert(id.clone(), connection.clone());
                }
            }
            after.problems = problems.iter().map(ToString::to_string).collect();
        }
        Err(sentence) => {
            after.connections.clone_from(&before.connections);
            after.problems = vec![format!("{}: {sentence}.", path.display())];
        }
    }
    Ok(Some(after))
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let meta = fs::metadata(path)?;
    let nanoseconds = |secs: i64, nsec: i64| i128::from(secs) * 1_000_000_000 + i128::from(nsec);
    Ok(Stamp {
        device: meta.dev(),
        inode: meta.ino(),
        size: meta.size(),
        modified_ns: nanoseconds(meta.mtime(), meta.mtime_nsec()),
        changed_ns: nanoseconds(meta.ctime(), meta.ctime_nsec()),
    })
}

/// The first line of a password file.
///
/// # Errors
/// The file cannot be read, or its first line is empty.
pub fn read_password(path: &Path) -> io::Result<crate::domain::connection::Secret> {
    let text = read_text(path)?;
    match text.lines().next() {
        None | Some("") => Err(io::Error::other("its first line is empty")),
        Some(line) => Ok(crate::domain::connection::Secret::new(line)),
    }
}
