//! Where settings come from, gathered once at start.
//!
//! [`Sources`] is a plain value, so loading is pure; [`Sources::gather`] is the thin part that reads files and the
//! environment. Must not: judge any value.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::files::read_text;
use super::problem::{Origin, Problem, Problems};

/// Looked at after `$AIRFLOW_HOME/rmq-watcher.toml`.
pub const SYSTEM_FILE: &str = "/etc/rmq-watcher/rmq-watcher.toml";
/// Names the configuration file, as the flag `--config` does.
pub const FILE_VARIABLE: &str = "RMQ_WATCHER_CONFIG";

/// Everything that settings are made from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Keys given as flags, such as `log.level`, with their text.
    pub flags: BTreeMap<String, String>,
    /// The environment.
    pub environment: Environment,
    /// `rmq-watcher.toml` and its text.
    pub file: Option<(PathBuf, SourceText)>,
    /// Airflow's `airflow.cfg` and its text.
    pub airflow_cfg: Option<(PathBuf, SourceText)>,
    /// This machine's host name.
    pub hostname: String,
}

/// A file's text; may hold secrets, so its `Debug` shows only its length.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceText(pub String);

impl std::fmt::Debug for SourceText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({} bytes)", self.0.len())
    }
}

impl Sources {
    /// Reads the environment, finds and reads the configuration file and Airflow's `airflow.cfg`. A file that was named
    /// must be there; the places looked at otherwise may be empty, but what is there must be readable.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn gather(config_flag: Option<&Path>, flags: BTreeMap<String, String>) -> Result<Self, Problems> {
        Self::gather_with(Environment::of_this_process(), config_flag, flags, Path::new(SYSTEM_FILE))
    }

    /// [`Sources::gather`] with the environment and the system-wide file handed in.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn gather_with(
        environment: Environment,
        config_flag: Option<&Path>,
        flags: BTreeMap<String, String>,
        system_file: &Path,
    ) -> Result<Self, Problems> {
        let (sources, problems) = Self::gather_what_is_there(environment, config_flag, flags, system_file);
        if problems.is_empty() { Ok(sources) } else { Err(Problems(problems)) }
    }

    /// As [`Sources::gather_with`]; what cannot be read is told and left out.
    pub(super) fn gather_what_is_there(
        environment: Environment,
        config_flag: Option<&Path>,
        flags: BTreeMap<String, String>,
        system_file: &Path,
    ) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let home = environment.airflow_home();
        let named = named_file(&environment, config_flag, &mut problems);
        let file = match named {
            Some((path, origin)) => read_named(path, &origin, &mut problems),
            None => [home.join("rmq-watcher.toml"), system_file.to_owned()]
                .into_iter()
                .find_map(|path| read_if_there(path, "configuration file", &mut problems)),
        };
        let cfg_path = match environment.get("AIRFLOW_CONFIG") {
            Ok(Some(path)) => PathBuf::from(environment.expand(path)),
            Ok(None) | Err(_) => home.join("airflow.cfg"),
        };
        let airflow_cfg = read_if_there(cfg_path, "airflow.cfg", &mut problems);
        (Self { flags, environment, file, airflow_cfg, hostname: hostname() }, problems)
    }
}

fn named_file(
    environment: &Environment,
    flag: Option<&Path>,
    problems: &mut Vec<Problem>,
) -> Option<(PathBuf, Origin)> {
    if let Some(path) = flag {
        return Some((path.to_owned(), Origin::Flag));
    }
    let origin = Origin::Environment(FILE_VARIABLE.to_owned());
    match environment.get(FILE_VARIABLE) {
        Ok(Some(path)) if !path.is_empty() => Some((PathBuf::from(path), origin)),
        Ok(_) => None,
        Err(_) => {
            problems.push(Problem::said("configuration file", &origin, "the variable is not UTF-8 text"));
            None
        }
    }
}

fn read_named(path: PathBuf, origin: &Origin, problems: &mut Vec<Problem>) -> Option<(PathBuf, SourceText)> {
    match read_text(&path) {
        Ok(text) => Some((path, SourceText(text))),
        Err(error) => {
            let sentence = format!("{} cannot be read: {error}", path.display());
            problems.push(Problem::said("configuration file", origin, sentence));
            None
        }
    }
}

fn read_if_there(path: PathBuf, what: &str, problems: &mut Vec<Problem>) -> Option<(PathBuf, SourceText)> {
    match read_text(&path) {
        Ok(text) => Some((path, SourceText(text))),
        Err(error) if is_absence(&error) => None,
        Err(error) => {
            let sentence = format!("it is there but cannot be read: {error}");
            problems.push(Problem::said(what, &Origin::File(path), sentence));
            None
        }
    }
}

fn is_absence(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.kind() == io::ErrorKind::NotADirectory
}

/// The kernel's host name, which Python's `socket.gethostname` returns too; `localhost` where it cannot be read.
fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}
