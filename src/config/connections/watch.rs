//! The configuration file's connections, kept up to date: read again only when the file's stat has changed.
//!
//! A read that fails, and a table that has become wrong, keep what was read before. These functions block: call them off
//! the loop thread.

use std::io;
use std::path::Path;

use super::file::{self, FileConnections};
use crate::config::files::{Stamp, read_text};
use crate::config::load::parse_toml;

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
    let stamp = Stamp::of(path)?;
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
