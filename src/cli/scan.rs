//! `rmq-watcher scan`: what is declared in the DAG folders, what is refused and why, and what was found in every file.
//!
//! Needs neither Airflow nor a broker, and with a folder given no configuration: made for other people's CI as well. Exit
//! codes: 0 everything declared can be read, 1 something is refused or unreadable, 2 there is no folder to scan.

mod json;
mod text;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::config::Settings;
use crate::config::dags::DagFolders;
use crate::config::problem::Problems;
use crate::config::sources::Sources;
use crate::discovery::{FileVerdict, Scan, ScanError, Scanner};

/// Nothing is refused and everything was read.
const FINE: i32 = 0;
/// Something is refused or unreadable.
const FAULTY: i32 = 1;
/// There is nothing to scan.
const NO_FOLDER: i32 = 2;

/// What to scan and how to tell.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// The folder; else those that Airflow's settings name.
    pub folder: Option<PathBuf>,
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Every file with its verdict.
    pub explain: bool,
    /// For programs.
    pub json: bool,
}

/// What was scanned and found.
struct Findings {
    folders: DagFolders,
    scan: Scan,
    /// Every file, where that was asked for.
    files: Option<Vec<FileVerdict>>,
}

/// Runs the verb; returns the exit code.
///
/// # Errors
/// The output could not be written.
pub fn run(order: &Order, out: &mut dyn Write) -> io::Result<i32> {
    let found =
        folders(order).and_then(|folders| look(folders, order.explain).map_err(|error| vec![error.to_string()]));
    let findings = match found {
        Ok(findings) => findings,
        Err(sentences) => {
            if order.json {
                json::write_failure(&sentences, out)?;
            } else {
                sentences.iter().try_for_each(|sentence| writeln!(out, "{sentence}"))?;
            }
            return Ok(NO_FOLDER);
        }
    };
    if order.json {
        json::write(&findings, out)?;
    } else {
        text::write(&findings, out)?;
    }
    Ok(if findings.is_fine() { FINE } else { FAULTY })
}

fn look(folders: DagFolders, explain: bool) -> Result<Findings, ScanError> {
    let mut scanner = Scanner::of(folders.clone());
    if explain {
        scanner.explain().map(|(scan, files)| Findings { folders, scan, files: Some(files) })
    } else {
        scanner.scan().map(|scan| Findings { folders, scan, files: None })
    }
}

/// The folders to scan, or every reason why there are none.
fn folders(order: &Order) -> Result<DagFolders, Vec<String>> {
    let settings = settings(order.config.as_deref());
    match (&order.folder, settings) {
        (None, settings) => settings.map(|settings| settings.dags),
        (Some(folder), Ok(settings)) => {
            Ok(DagFolders { ignore_syntax: settings.dags.ignore_syntax, ..DagFolders::one(folder) })
        }
        // A file that was named counts; what lies about on this machine does not.
        (Some(_), Err(problems)) if order.config.is_some() => Err(problems),
        (Some(folder), Err(_)) => Ok(DagFolders::one(folder)),
    }
}

fn settings(config: Option<&Path>) -> Result<Settings, Vec<String>> {
    let settings = Sources::gather(config, BTreeMap::new()).and_then(|sources| Settings::load(&sources));
    settings.map_err(|Problems(problems)| problems.iter().map(ToString::to_string).collect())
}

impl Findings {
    fn is_fine(&self) -> bool {
        self.scan.refusals.is_empty() && self.scan.unreadable.is_empty()
    }
}
