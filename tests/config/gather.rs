//! Gathering sources from a real directory: which file is taken, and what is said where one cannot be read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rmq_watcher::config::environment::Environment;
use rmq_watcher::config::{Problems, Sources};
use tempfile::TempDir;

fn gather(home: &Path, more: &[(&str, &str)], flag: Option<&Path>, system: &Path) -> Result<Sources, Problems> {
    let variables = more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    let home = ("AIRFLOW_HOME".to_owned(), home.display().to_string());
    let environment = Environment::new(variables.chain([home]), None);
    Sources::gather_with(environment, flag, BTreeMap::new(), system)
}

fn file_of(sources: &Sources) -> Option<PathBuf> {
    sources.file.as_ref().map(|(path, _)| path.clone())
}

#[test]
fn gather_takes_the_first_file_of_the_search_order() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (flag, variable, home, system) =
        (path("flag.toml"), path("var.toml"), path("rmq-watcher.toml"), path("system.toml"));
    let named = [("RMQ_WATCHER_CONFIG", variable.to_str().unwrap())];
    let take = |more: &[(&str, &str)], flag: Option<&Path>| file_of(&gather(dir.path(), more, flag, &system).unwrap());

    assert_eq!(take(&[], None), None);
    fs::write(&system, "").unwrap();
    assert_eq!(take(&[], None), Some(system.clone()));
    fs::write(&home, "").unwrap();
    assert_eq!(take(&[], None), Some(home));
    fs::write(&variable, "").unwrap();
    assert_eq!(take(&named, None), Some(variable.clone()));
    fs::write(&flag, "").unwrap();
    assert_eq!(take(&named, Some(&flag)), Some(flag.clone()));
}

#[test]
fn gather_wants_a_named_file_to_be_there() {
    let dir = TempDir::new().unwrap();
    let missing = dir.path().join("missing.toml");
    let system = dir.path().join("system.toml");
    let text = gather(dir.path(), &[], Some(&missing), &system).unwrap_err().to_string();
    assert!(text.contains("configuration file (flag)") && text.contains("missing.toml cannot be read"), "{text}");
    let named = [("RMQ_WATCHER_CONFIG", missing.to_str().unwrap())];
    let text = gather(dir.path(), &named, None, &system).unwrap_err().to_string();
    assert!(text.contains("environment variable RMQ_WATCHER_CONFIG"), "{text}");
}

#[test]
fn gather_refuses_what_is_there_but_cannot_be_read() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("rmq-watcher.toml")).unwrap();
    fs::write(dir.path().join("airflow.cfg"), b"[core]\nx = \xff\n").unwrap();
    let problems = gather(dir.path(), &[], None, &dir.path().join("system.toml")).unwrap_err();
    assert_eq!(problems.0.len(), 2, "{problems}");
    assert!(problems.to_string().contains("not a regular file"), "{problems}");
}

#[test]
fn gather_finds_airflows_own_file_and_the_host_name() {
    let dir = TempDir::new().unwrap();
    let system = dir.path().join("system.toml");
    assert_eq!(gather(dir.path(), &[], None, &system).unwrap().airflow_cfg, None);
    fs::write(dir.path().join("airflow.cfg"), "[core]\n").unwrap();
    let other = dir.path().join("other.cfg");
    fs::write(&other, "[api]\n").unwrap();
    let sources = gather(dir.path(), &[], None, &system).unwrap();
    assert_eq!(sources.airflow_cfg.unwrap().0, dir.path().join("airflow.cfg"));
    let sources = gather(dir.path(), &[("AIRFLOW_CONFIG", other.to_str().unwrap())], None, &system).unwrap();
    assert_eq!(sources.airflow_cfg.unwrap().0, other);
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(sources.hostname, name.trim());
}
