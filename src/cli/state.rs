//! Finding and reading the state, for verbs that look at it beside a watcher, or without one.

use std::path::{Path, PathBuf};

use crate::config::{self, Problems};
use crate::domain::view::Facts;
use crate::store;

/// The exit code where there is nothing to look at: the state directory cannot be told, or its file cannot be read.
pub(super) const NOTHING_TO_SHOW: i32 = 2;

/// The state directory.
///
/// # Errors
/// Sentences, one a line.
pub(super) fn dir(config: Option<&Path>) -> Result<PathBuf, String> {
    config::state_dir(config)
        .map_err(|Problems(problems)| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// What is in it.
///
/// # Errors
/// A sentence.
pub(super) fn read(dir: &Path) -> Result<Facts, String> {
    store::view::read(dir).map_err(|error| error.to_string())
}
