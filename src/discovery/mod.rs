//! Reads the subscriptions that are written in the DAG folders. Serves the control flow: scan.
//!
//! Files are read as text with the real Python grammar; nothing in them is ever executed or imported (ADR-0016). Blocking:
//! the caller runs a scan on a thread of its own. A folder that cannot be listed is an error and never an empty result;
//! anything below it that cannot be read is a value in the [`Scan`] and stops nothing else.

mod archive;
mod content;
mod encoding;
mod explain;
mod file;
mod ignore_rules;
mod links;
mod modules;
mod name;
mod python;
mod scanner;
mod walk;
mod watch;
mod yaml;

use std::io;
use std::path::PathBuf;

use crate::domain::declaration::{Declaration, FileProblem, Refusal};

pub use explain::{FileVerdict, Verdict};
pub use scanner::{DefaultSyntax, Scanner, scan};
pub use watch::{Arms, Places, Watch, WatchTrouble};

/// The stack of the thread that reads files, in bytes. It is address space: only what a file needs of it becomes memory.
///
/// A level takes about 1 KiB in an unoptimised build, which needs most, so the 3,000 levels that are let through need 4 MiB. The
/// count of levels is known to miss some in broken text that is made to mislead it; the rest is for those.
const READER_STACK_BYTES: usize = 1024 * 1024 * 1024;

/// What a scan found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scan {
    /// The subscriptions to run, in the order of their origins.
    pub declarations: Vec<Declaration>,
    /// Subscriptions that are written down and must not run, in the order of their origins.
    pub refusals: Vec<Refusal>,
    /// Files and directories of which nothing is known, in the order of their names.
    pub unreadable: Vec<FileProblem>,
    /// Files and directories that were left out by rules of which it is not known how they are meant.
    pub undecided: Vec<String>,
    /// The bundles whose names stand in origins; none where one folder is scanned.
    pub bundles: Vec<String>,
    /// How many files that may declare something were listed, the unreadable ones included; a zip file is one.
    pub listed: usize,
    /// How many of them were read and understood as a whole.
    pub readable: usize,
}

/// Why there is no scan.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// It is not known which folders there are.
    #[error("{reason}")]
    NoFolder {
        /// Why, as a clause.
        reason: String,
    },
    /// The folder itself cannot be listed, or none of several.
    #[error("cannot list the DAG folder {}: {source}; check that it exists and that this user may read it", folder.display())]
    ListFolder {
        /// The folder as it is configured.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The thread that reads files could not be started.
    #[error("cannot start a thread to read DAG files: {0}; check the limits on processes and memory")]
    StartThread(#[source] io::Error),
}
