//! The state directory alone, for those who only look at the state.
//!
//! They need neither Airflow nor a broker, so what is wrong in any other setting does not concern them. What would make the
//! directory itself a guess does: a configuration file that cannot be read while nothing else names the directory, or a name
//! that is nearly the key's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::keys::STATE_DIR;
use super::load::{parse_file, read_state_dir, refuse_unknown};
use super::problem::{Origin, Problem, Problems};
use super::reader::Reader;
use super::sources::{SYSTEM_FILE, Sources};

/// Where the state is, by the same sources and the same order as for the watcher.
///
/// # Errors
/// It cannot be told.
pub fn state_dir(config_flag: Option<&Path>) -> Result<PathBuf, Problems> {
    state_dir_with(Environment::of_this_process(), config_flag, Path::new(SYSTEM_FILE))
}

/// [`state_dir`] with the environment and the system-wide file handed in.
///
/// # Errors
/// It cannot be told.
pub fn state_dir_with(
    environment: Environment,
    config_flag: Option<&Path>,
    system_file: &Path,
) -> Result<PathBuf, Problems> {
    let (sources, unreadable) = Sources::gather_what_is_there(environment, config_flag, BTreeMap::new(), system_file);
    let mut unread: Vec<Problem> = unreadable.into_iter().filter(|problem| problem.key != "airflow.cfg").collect();
    if unread.iter().any(|problem| problem.origin == Origin::Flag) {
        return Err(Problems(unread));
    }
    let file = parse_file(&sources, &mut unread);
    let mut misnamed = Vec::new();
    refuse_unknown(&sources, &file, &mut misnamed);
    misnamed.retain(|problem| means_state(&problem.key));

    let mut reader = Reader::new(&sources, file, Vec::new());
    let is_named = reader.find(&STATE_DIR).is_some();
    let dir = read_state_dir(&mut reader, &sources.environment.airflow_home());
    let mut problems = reader.problems;
    if !is_named {
        problems.append(&mut unread);
        problems.append(&mut misnamed);
    }
    if problems.is_empty() { Ok(dir) } else { Err(Problems(problems)) }
}

/// Whether a name that is no key was probably meant for the state directory.
fn means_state(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.trim_start_matches('[').trim_start_matches("rmq_watcher__");
    name.starts_with("stat")
}
